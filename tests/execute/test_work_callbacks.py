"""What plugins are told of: each logged line of each run; one that fails is told, and stops nothing."""

import json

import pytest
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write

import headway
from headway.execute.work import DONE, work
from headway.store.directory import Store
from headway.train.loop import training_part_of

CALLBACKS = """
import json
from headway import own

@own.callback
def kept(run, line):
    with open("told.jsonl", "a") as file:
        print(json.dumps([run.name, run.seed, line["step"], sorted(line)]), file=file)

@own.callback
def broken(run, line):
    if line["step"]:
        raise RuntimeError("no network")
"""


def open_study(spec, stored):
    return training_part_of(spec).open_study(spec, compile=False, device="cpu")


@pytest.mark.slow
def test_each_line_is_told_in_order_and_one_that_fails_stops_nothing(write, tmp_path):
    write(ECHO)
    write(CALLBACKS, "told.py")
    experiment = headway.load(DOCUMENT, plugins=["told.py"]).select(arms=["h2"])
    (run,) = Store.with_runs(tmp_path / "results", experiment, experiment.runs)[1]
    assert work(run.path, open_study) == DONE
    failed = "callback broken is no longer called: RuntimeError: no network"
    assert (run.path / "log.txt").read_text().count(failed) == 1
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    logged = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [[name, seed, step] for name, seed, step, _ in told] == [["h2", 0, line["step"]] for line in logged]
    assert [names for *_, names in told] == [sorted(line) for line in logged]
    assert "eval_loss_nats" in told[-1][3]

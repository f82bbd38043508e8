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


@pytest.fixture
def run(write, tmp_path):
    write(ECHO)
    write(CALLBACKS, "told.py")
    experiment = headway.load(DOCUMENT, plugins=["told.py"]).select(arms=["h2"])
    _, runs = Store.with_runs(tmp_path / "results", experiment, experiment.runs)
    return runs[0]


def open_study(spec, stored):
    return training_part_of(spec).open_study(spec, compile=False, device="cpu")


@pytest.mark.slow
def test_each_line_is_told_in_order(run, tmp_path):
    assert work(run.path, open_study) == DONE
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    logged = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [[name, seed, step] for name, seed, step, _ in told] == [["h2", 0, line["step"]] for line in logged]
    assert [names for *_, names in told] == [sorted(line) for line in logged]
    assert "eval_loss_nats" in told[-1][3]


@pytest.mark.slow
def test_one_that_fails_is_told_once_and_the_run_is_done(run):
    assert work(run.path, open_study) == DONE
    log = (run.path / "log.txt").read_text()
    assert log.count("callback broken is no longer called: RuntimeError: no network") == 1


@pytest.mark.slow
def test_a_run_without_plugins_is_told_of_to_nobody(write, tmp_path):
    plain = {**DOCUMENT, "plugins": [], "task": {"kind": "parity", "n_bits": 3}}
    experiment = headway.load(plain)
    store, runs = Store.with_runs(tmp_path / "results", experiment, experiment.runs)
    assert work(runs[0].path, open_study) == DONE
    assert not (store.path / "plugins").exists()
    assert (runs[0].path / "log.txt").read_text() == ""

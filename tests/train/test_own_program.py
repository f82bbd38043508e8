"""Runs of training commands: what is read of them, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.commands import document
from support.tolerance import assert_same

import headway
from headway.analysis.model import model_folder
from headway.config.load import load, resolve
from headway.config.own_program import CommandTask
from headway.config.run import WORK
from headway.errors import ResultsError, RunFailed, UserError
from headway.execute.queue import work_per_step
from headway.store.directory import Store
from headway.store.verify import verify
from headway.train.own_program import CommandRecords


def task(**over):
    return CommandTask(kind="command", run="train {seed}", metric="loss", **over)


def read(path, text, task):
    records = CommandRecords(path, task)
    records.begin_live()
    path.write_text(text)
    records.read(ended=True)
    return records.values.get("loss")


@pytest.mark.parametrize(
    ("records", "text", "values"),
    [
        ("m.jsonl", '{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}', {1: 3, 2: 2}),
        ("m.jsonl", '{"step": 1, "loss": 3}\n{"step": 1, "loss": 2}\n', {1: 2}),
        ("m.jsonl", '{"loss": 3}\n\n{"other": 1}\n{"loss": 2}\n', {0: 3, 1: 2}),
        ("m.jsonl", '{"iter": 5, "loss": 3}\n{"epoch": 6, "loss": "2.5"}\n', {5: 3, 6: 2.5}),
        (r"step (?P<step>\d+) loss (?P<loss>\S+)", "step 1 loss 3\nnothing\nstep 2 loss 2.5\n", {1: 3, 2: 2.5}),
        ("", 'begun\nstep: 1 loss: 3\n{"step": 2, "loss": 2}\n{not json\nloss=1', {1: 3, 2: 2, 3: 1}),
        ("", "loss: high\n", None),
        ("", "loss: 1,234.5\n", None),
        ("", "{'loss': 3, 'epoch': 0.25}\n{'loss': 2, 'epoch': 0.5}\n", {0.25: 3, 0.5: 2}),
        ("", "step: 100 loss: 3\nfinal loss: 2\n", {100: 3, 101: 2}),
        ("m.jsonl", '\ufeff{"step": -1, "loss": 3}\r\n{"step": 1e300, "loss": 2}\r\n', {-1: 3, 1e300: 2}),
    ],
)
def test_records_are_read_as_they_are_written(tmp_path, records, text, values):
    assert read(tmp_path / "file", text, task(records=records)) == values


@pytest.mark.parametrize(
    ("records", "text", "said"),
    [
        ("m.jsonl", "loss 3\n", "line 1 of m.jsonl is not a JSON mapping: 'loss 3'"),
        ("m.jsonl", '{"loss": 1}\n[1]\n', "line 2 of m.jsonl is not a JSON mapping"),
        ("m.jsonl", '{"step": 7, "loss": NaN}\n', "loss is nan at step 7"),
        ("", "loss: inf\n", "loss is inf at step 0"),
    ],
)
def test_what_cannot_be_a_record_ends_the_run(tmp_path, records, text, said):
    with pytest.raises(RunFailed) as error:
        read(tmp_path / "file", text, task(records=records))
    assert said in str(error.value)


def test_lines_are_read_once_and_whole(tmp_path):
    file = tmp_path / "m.jsonl"
    records = CommandRecords(file, task(records="m.jsonl"))
    records.read()
    for text in ('{"step": 1, "lo', 'ss": 3}\n{"step"', ': 2, "loss": 2}\n'):
        with file.open("a") as out:
            out.write(text)
        records.read()
    assert records.values["loss"] == {1: 3, 2: 2}
    file.write_text('{"step": 1, "loss": 9}\n')  # the command began it anew
    records.read()
    assert records.values["loss"] == {1: 9}


def test_a_file_that_is_written_anew_is_read_as_it_is_at_the_end(tmp_path):
    file = tmp_path / "m.jsonl"
    records = CommandRecords(file, task(records="m.jsonl"))
    records.begin_live()
    for text in ('{"step": 1, "loss": 3}', '{"step": 2, "loss": 2}', '{"step": 10, "loss": 1}'):
        file.write_text(text)
        records.read()
    records.read(ended=True)
    assert records.values["loss"] == {10: 1}


def test_a_line_that_an_earlier_attempt_left_unfinished_is_no_mistake(tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_text('{"step": 1, "loss": 3}\n{"step": 2, "lo')
    records = CommandRecords(file, task(records="m.jsonl"))
    records.begin_live()
    with file.open("a") as out:
        out.write('{"step": 2, "loss": 2}\n{"step": 3, "loss": 1}\n')
    records.read(ended=True)
    assert records.values["loss"] == {1: 3, 3: 1}


def run(tmp_path, content, **options):
    experiment = resolve(content, folder=tmp_path)
    return headway.run(experiment, tmp_path / "out", workers=1, figures=False, progress=False, **options)


def test_a_command_is_run_from_file_to_page(tmp_path):
    directory = run(tmp_path, document(tmp_path))
    runs = directory.runs()
    assert {(one.name, one.seed, one.status) for one in runs} == {
        (arm, seed, "done") for arm in ("h1", "h4") for seed in range(2)
    }
    first = directory.run("h4", 1)
    assert work_per_step(first) == 1
    assert first.curves()["records"]["val_loss"]["steps"] == [0, 10, 20]
    assert first.metrics["val_loss"] == first.curves()["records"]["val_loss"]["values"][-1]
    assert first.metrics["train_loss"] == 1.5
    assert f"heads 4 anew {first.execution['threads']}" in (first.path / "log.txt").read_text()
    (comparison,) = [one for one in directory.results().comparisons if one.metric == "val_loss"]
    by_seed = [directory.run("h4", seed).metrics["val_loss"] for seed in range(2)]
    assert_same(comparison.means[0], sum(by_seed) / 2)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "during training" in page
    (first.path / WORK / "metrics.jsonl").write_text("{}")
    with pytest.raises(ResultsError, match=r"metrics\.jsonl has"):
        first.check()


@pytest.mark.parametrize(
    ("program", "over", "said"),
    [
        ("raise SystemExit(3)", {}, "the command ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", {}, "the command ended by SIGKILL"),
        ("print(1)", {}, "the command recorded no val_loss (it recorded nothing, and wrote no metrics"),
        ("open('metrics.jsonl', 'w').write('{\"loss\": 1}')", {}, "no val_loss (it recorded loss)"),
        (
            "import time; open('metrics.jsonl', 'w').write('{\"val_loss\": NaN}\\n'); time.sleep(60)",
            {},
            "val_loss is nan at step 0",
        ),
        ("import time; time.sleep(60)", {"timeout": 0.5}, "the command was silent for 0.5 s (task.timeout)"),
        ("", {"run": "no-such-program {heads} {seed}"}, "no-such-program: the command did not start"),
    ],
)
def test_a_command_that_fails_says_how(tmp_path, program, over, said):
    content = document(tmp_path, program, **over)
    with pytest.warns(RuntimeWarning, match="runs without a result"):
        directory = run(tmp_path, {**content, "seeds": 1, "arms": {"h1": content["arms"]["h1"]}})
    (one,) = directory.runs()
    assert one.status == "failed"
    assert said in one.message


def test_a_failed_command_begins_again_where_it_left_its_folder(tmp_path):
    program = """
import os, sys, json
again = "HEADWAY_RESUMED" in os.environ
with open("metrics.jsonl", "a") as file:
    file.write(json.dumps({"step": 1, "val_loss": 2.0 if again else float("nan")}) + chr(10))
"""
    content = {**document(tmp_path, program), "seeds": 1}
    with pytest.warns(RuntimeWarning):
        assert {one.status for one in run(tmp_path, content).runs()} == {"failed"}
    again = run(tmp_path, content)
    assert {(one.status, one.metrics["val_loss"]) for one in again.runs()} == {("done", 2.0)}


def test_a_directory_of_somebody_else_runs_nothing(tmp_path, monkeypatch):
    content = {**document(tmp_path), "seeds": 1}
    run(tmp_path, content)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache of another user"))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache of another user"))
    load(tmp_path / "out" / "experiment.yaml")  # to read it, as `plan` does, allows nothing
    with pytest.raises(ResultsError, match="--trust-code"):
        headway.run(tmp_path / "out", seeds=2, figures=False)
    assert len(Store.open(tmp_path / "out").runs()) == 2
    more = headway.run(tmp_path / "out", seeds=2, figures=False, trust_code=True)
    assert {one.status for one in more.runs()} == {"done"}


def test_a_kept_file_that_was_changed_runs_nothing(tmp_path):
    content = {**document(tmp_path), "seeds": 1}
    run(tmp_path, content)
    (kept,) = (tmp_path / "out" / "code").iterdir()
    kept.write_text("print('other')")
    assert [damage for one in verify(tmp_path / "out") for damage in one.damages if "code" in damage]
    with pytest.warns(RuntimeWarning, match="is not the file that its runs are made of"):
        headway.run(tmp_path / "out", seeds=2, figures=False)
    assert {one.status for one in run(tmp_path, {**content, "seeds": 2}).runs()} == {"done"}


def test_the_model_of_a_command_is_not_known(tmp_path):
    directory = run(tmp_path, {**document(tmp_path), "seeds": 1})
    first = directory.run("h1", 0)
    with pytest.raises(UserError, match="headway xray"):
        first.model()
    with pytest.raises(UserError, match="stored no model"):
        model_folder(first.path)
    for n, stored in enumerate(("model", "best/model")):
        (first.path / WORK / stored).mkdir(parents=True)
        (first.path / WORK / stored / "config.json").write_text('{"model_type": "gpt2"}')
        if n == 0:
            assert model_folder(first.path).path == first.path / WORK / stored
    with pytest.raises(UserError, match="stored 2 models"):
        model_folder(first.path)


SLOW = """
import json, os, signal, sys, time
def stop(*_):
    open("stopped", "w").write("1")
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
done = int(open("state").read()) if os.path.exists("state") else 0
open("pid", "w").write(str(os.getpid()))
resumed = int("HEADWAY_RESUMED" in os.environ)
for step in range(done, 20):
    record = {"step": step, "val_loss": 3 - step / 20, "resumed": resumed}
    with open("metrics.jsonl", "a") as file:
        file.write(json.dumps(record) + chr(10))
    open("state", "w").write(str(step + 1))
    time.sleep(0.1)
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in open(f"/proc/{pid}/status").read()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_its_worker_and_goes_on(tmp_path, sign):
    content = document(tmp_path, SLOW)
    content = {**content, "seeds": 1, "arms": {"h1": content["arms"]["h1"]}, "baseline": None}
    (tmp_path / "mine.yaml").write_text(json.dumps(content))
    command = [sys.executable, "-m", "headway", "run", "mine.yaml", "--out", "out", "--no-figures"]
    work = tmp_path / "out" / "runs" / "h1" / "seed-0" / WORK
    begun = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for _ in range(600):
        if (work / "state").exists() and (work / "state").read_text() not in ("", "0", "1"):
            break
        time.sleep(0.1)
    pid = int((work / "pid").read_text())
    begun.send_signal(sign)
    begun.wait(60)
    for _ in range(100):
        if not is_alive(pid):
            break
        time.sleep(0.1)
    assert not is_alive(pid)
    assert (work / "stopped").exists() or sign == signal.SIGKILL
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one = Store.open(tmp_path / "out").run("h1", 0)
    values = one.curves()["records"]
    assert values["val_loss"]["steps"] == list(range(20))
    assert values["resumed"]["values"][0] == 0
    assert values["resumed"]["values"][-1] == 1
    assert one.status == "done"
    assert one.metrics["val_loss"] == 3 - 19 / 20

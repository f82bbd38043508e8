"""The verb gate as it is typed: exit codes, one line of JSON, kills, interrupts, and two callers at once."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.gates import PROGRAM, command
from support.typed import typed

from headway.gate.journal import JOURNAL, Journal


def gate(*words):
    done = typed("gate", *words)
    return done.returncode, done.stdout, done.stderr


FEW = "challenger 1 needs at least 7 pairs to be kept, and --budget is 4; begin a gate with"
NONE = "gate is not a gate; begin one with `headway gate init gate --metric"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


INIT = ("init", "gate", "--metric", "loss", "--run", command(0.0), "--margin", "0.02")


def test_each_decision_has_its_exit_code_and_one_line_of_json(folder, monkeypatch):
    monkeypatch.setattr("secrets.randbelow", lambda most: 100)
    monkeypatch.setattr("secrets.randbits", lambda bits: 1)
    code, out, _ = gate(*INIT)
    assert (code, out) == (
        0,
        "gate: keeping a change takes 7 to 12 pairs of runs; try a change with `headway gate try`\n",
    )
    for worth, expected in ((0.1, ("keep", 0)), (0.05, ("discard", 10)), (0.112, ("undecided", 11))):
        code, out, err = gate("try", "gate", "--run", command(worth), "--name", f"worth-{worth}")
        verdict = json.loads(out)
        assert (verdict["verdict"], code) == expected
        assert out.count("\n") == 1
        assert err.count("pair ") == verdict["pairs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*INIT, "--rate", "0.05"), "--rate 0.05: give a chance in per cent, above 0% and below 50%, such as 5%"),
        ((*INIT, "--rate", "50%"), "--rate 50%: give a chance in per cent"),
        ((*INIT, "--margin", "-1%"), "--margin -1%: it is not a number of 0 or more; type 0.3% or 0.01"),
        ((*INIT, "--metric", "my loss"), "--metric 'my loss': give one word as runs print it, such as val_bpb"),
        ((*INIT, "--budget", "4"), FEW),
        ((*INIT, "--budget", "1"), "1 is not in the range 2 to 1,000"),
        ((*INIT, "--run", "python train.py"), "it has no {seed}, so all its runs would be equal"),
        (("init", "gate"), "Missing option '--metric'"),
        (("try", "gate", "--run", "true {seed}"), NONE),
        (("try", "gate"), "give the challenger's command with --run, or a file of runs with --results"),
        ((), "type `headway gate init DIR ...` first, then `headway gate try DIR ...`"),
        (("keep",), "No such command 'keep'"),
    ],
)
def test_bad_input_says_what_to_type(folder, words, message):
    code, out, err = gate(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert not (folder / "gate").exists()


def test_a_champion_that_fails_is_an_error(folder):
    gate(*INIT[:5], command(0.0).replace("{seed}", "{seed}x"), *INIT[6:])
    code, out, err = gate("try", "gate", "--run", command(0.1))
    assert (code, out) == (1, "")
    assert "error: the champion failed, so nothing is decided (baseline, seed " in err
    assert err.endswith("-champion.log); try again to continue\n")


SLOW = PROGRAM + "import time; time.sleep(0.2)\n"


def started(folder, name="better", worth=0.1):
    words = [sys.executable, "-m", "headway", "gate", "try", "gate", "--run", command(worth), "--name", name]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(folder):
    return (folder / "gate" / JOURNAL).read_text().count("\n")


def wait_for_lines(folder, n):
    until = time.monotonic() + 60
    while lines_of(folder) < n and time.monotonic() < until:
        time.sleep(0.005)
    assert lines_of(folder) >= n


@pytest.mark.slow
def test_nothing_recorded_is_lost_by_kills(folder):
    (folder / "train.py").write_text(SLOW)
    gate(*INIT)
    known = []
    for n in (2, 3, 8):
        process = started(folder)
        wait_for_lines(folder, n)
        time.sleep(0.01 * (n % 3))
        process.kill()
        process.communicate()
        lines = (folder / "gate" / JOURNAL).read_text().splitlines()
        assert lines[: len(known)] == known
        known = lines
        Journal.read(folder / "gate")
    process = started(folder)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["challenger"] == 1
    runs = [json.loads(line) for line in (folder / "gate" / JOURNAL).read_text().splitlines()]
    named = [(line["role"], line["seed"]) for line in runs if line["event"] == "run"]
    assert len(named) == len({*named}) == 14


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_run_too(folder, how):
    (folder / "train.py").write_text(PROGRAM + "import os, time; print(os.getpid(), flush=True); time.sleep(60)\n")
    gate(*INIT)
    process = started(folder)
    wait_for_lines(folder, 2)
    logs = folder / "gate" / "logs"
    until = time.monotonic() + 30
    while not (written := [log for log in logs.glob("*") if log.read_text().count("\n") == 3]):
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(how)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.endswith("interrupted; nothing recorded is lost, and the same command resumes from here\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(written[0].read_text().splitlines()[-1]), 0)


@pytest.mark.slow
def test_of_two_callers_at_once_the_second_gets_one_sentence(folder):
    (folder / "train.py").write_text(SLOW)
    gate(*INIT)
    first = started(folder)
    wait_for_lines(folder, 2)
    second = started(folder, "other", 0.2)
    _, err = second.communicate()
    assert second.returncode == 2
    assert err.startswith(f"error: gate: process {first.pid} on ")
    assert err.count("\n") == 1
    out, _ = first.communicate()
    assert (first.returncode, json.loads(out)["name"]) == (0, "better")

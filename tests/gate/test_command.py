"""A training command: how it is typed, what ends it, and how its metric is read."""

import math
import signal
import subprocess
import sys
import time

import pytest
from support.processes import ends

from headway.base.process import metric_in
from headway.errors import RunFailed, UserError
from headway.gate.command import Candidate, run_once

PYTHON = f"{sys.executable} -S -E -c"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("loss=2.5", 2.5),
        ("final  loss :  -1e-3 ", -1e-3),
        ("loss = .5, lr = 1", 0.5),
        ("step 1 loss=3\nstep 2 loss=2\ndone", 2.0),
        ("loss: 3\nloss: 1_000.5", 1000.5),
        ("{'loss': 2.5}", 2.5),
        ('{"loss": 2}\n{"other": 3}\n', 2.0),
        ('loss=9\n{"loss": 2.5, "train_loss": 1}', 2.5),
        ("train_loss: 1\nval_loss=2", None),
        ("loss_scale: 1, losses: 2, my-loss: 3", None),
        ("loss: high", None),
        ("a\x00b\nloss: 4\r\n", 4.0),
    ],
)
def test_a_metric_is_the_last_value_that_was_printed(text, value):
    assert metric_in(text, "loss") == value


@pytest.mark.parametrize("text", ['{"loss": NaN}', '{"loss": null}', '{"loss": "high"}', "loss=1\nloss=NaN"])
def test_a_last_value_that_is_no_number_is_not_passed_over(text):
    assert math.isnan(metric_in(text, "loss"))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("python train.py", "it has no {seed}, so all its runs would be equal"),
        ("python 'train.py {seed}", "close the quotes"),
        ("no-such-program-here {seed}", "there is no program 'no-such-program-here'"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_before_anything_is_recorded(tmp_path, run, message):
    with pytest.raises(UserError) as refused:
        Candidate.typed("wider", run, tmp_path)
    assert message in str(refused.value)


def test_values_are_arguments_and_no_shell_reads_them(tmp_path):
    run = (
        f"{PYTHON} 'import sys; print(sys.argv[1:]); print(\"loss:\", sys.argv[1][1:])' '-{{seed}}' '$(touch x); `id`'"
    )
    assert run_once(Candidate.typed("wider", run, tmp_path), 7, tmp_path / "log", "loss") == 7.0
    assert (tmp_path / "log").read_text().startswith("['-7', '$(touch x); `id`']")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('loss: nan')", "loss is nan; its output: "),
        ("print('accuracy: 1')", "the run printed no loss; its output: "),
        ("print('loss: 1'); raise SystemExit(3)", "the run ended with exit code 3; its output: "),
        ("import os; print('loss: 1', flush=True); os.kill(os.getpid(), 9)", "the run ended by SIGKILL; its output: "),
        ("import time; time.sleep(60)", "the run did not end within 0.3 s (--timeout); its output: "),
    ],
)
def test_a_run_that_fails_says_how_in_one_sentence(tmp_path, program, message):
    candidate = Candidate.typed("wider", f'{PYTHON} "{program}" {{seed}}', tmp_path)
    with pytest.raises(RunFailed) as failed:
        run_once(candidate, 7, tmp_path / "log", "loss", 0.3)
    assert str(failed.value).startswith(message)


def test_a_run_that_takes_too_long_leaves_no_process(tmp_path):
    program = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    candidate = Candidate.typed("wider", f'{PYTHON} "{program}" {{seed}}', tmp_path)
    with pytest.raises(RunFailed):
        run_once(candidate, 7, tmp_path / "log", "loss", 1.0)
    ends(int((tmp_path / "log").read_text()))


def test_an_interrupt_while_a_run_is_started_leaves_no_process(tmp_path, monkeypatch):
    begun = []
    popen = subprocess.Popen

    def interrupted(*words, **options):
        begun.append(popen(*words, **options))
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    candidate = Candidate.typed("wider", f'{PYTHON} "import time; time.sleep(60)" {{seed}}', tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_once(candidate, 7, tmp_path / "log", "loss")
    assert begun[0].returncode == -signal.SIGTERM


def test_files_that_a_command_names_are_part_of_it(tmp_path):
    (tmp_path / "train.py").write_text("print('loss: 1')")
    candidate = Candidate.typed("wider", f"{sys.executable} train.py {{seed}}", tmp_path)
    assert "train.py" in candidate.files
    candidate.check_files()
    (tmp_path / "train.py").write_text("print('loss: 0')")
    with pytest.raises(UserError, match=r"train\.py has changed since the gate was given wider.*restore the file"):
        candidate.check_files()

"""How far runs are, where someone looks: a live table at a terminal or in a notebook, else a line at a time."""

import io
import json
import sys
import types
from collections.abc import Generator
from dataclasses import asdict, replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from support import quadratic, stored

from headway.execute.queue import Progress, Snapshot
from headway.report import progress
from headway.report.terminal import Terminal
from headway.store import lease as lease_files
from headway.store.directory import Store


def snapshot(status: str, step: int, workers: int = 1, rate: float | None = None) -> Snapshot:
    one = Progress(
        name="slow", seed=0, status=status, message="", step=step, steps=60, steps_per_s=rate, work_per_step=1.0
    )
    return Snapshot(runs=(one,), workers=workers, elapsed_s=31.0)


SHOWN = [snapshot("running", 10, workers=3, rate=10.0), snapshot("done", 60)]


def through(monkeypatch: pytest.MonkeyPatch, **options: object) -> io.StringIO:
    written = io.StringIO()
    monkeypatch.setattr(progress, "Terminal", lambda: Terminal(file=written, width=120, **options))
    return written


def shown(found: list[Snapshot]) -> Generator[Snapshot]:
    yield from found


def test_where_nobody_looks_it_is_a_line_when_something_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    written = through(monkeypatch)
    assert not progress.can_be_shown()
    progress.watch(shown(SHOWN))
    assert written.getvalue().splitlines() == [
        "slow seed 0 running",
        "1 running after 31 s on 3 workers",
        "slow seed 0 done",
    ]


@pytest.mark.parametrize(
    ("records", "loss"),
    [
        (b'{"step": 0, "eval_mse": 2.0}\n{"step": 5, "train_mse": 1.23456}\n', "1.235"),
        (b'{"step": 5, "train_loss_nats": 3.5}\n{"step": 6, "eval_loss_nats": 9.0}\n{"step": 7, "train_lo', "3.500"),
        (b'{"step": 0, "eval_mse": 2.0}\n', ""),
        (b'{"step": 5, "train_mse": "\x1b]0;1"}\n[1]\n\xff\n{', ""),
        (None, ""),
    ],
    ids=["logged", "the last line is being written", "nothing logged yet", "damaged", "no records"],
)
def test_lines_tell_the_training_loss_that_was_logged_last(tmp_path, monkeypatch, records, loss):
    if records is not None:
        (tmp_path / "metrics.jsonl").write_bytes(records)
    written = through(monkeypatch)
    progress.watch(
        shown([replace(each, runs=(replace(each.runs[0], folder=tmp_path),)) for each in SHOWN]),
    )
    told = [f"training loss: slow seed 0 {loss}"] if loss else []
    assert written.getvalue().splitlines() == [
        "slow seed 0 running",
        "1 running after 31 s on 3 workers",
        *told,
        "slow seed 0 done",
    ]
    assert progress._loss(replace(SHOWN[1].runs[0], folder=tmp_path)) == "", "it may be of a single step"


def test_what_is_left_is_a_median_with_a_range_that_does_not_jump():
    forecast, whole = progress.Forecast(), SHOWN[0].runs[0]

    def told(quarters: int, rate: float) -> str:
        """After so many quarters of a second; a look takes place in each, and ten steps a second are done."""
        run = replace(whole, steps=10_000, step=round(2.5 * quarters), steps_per_s=rate)
        return forecast.of(replace(SHOWN[0], elapsed_s=quarters / 4, runs=(run,)))

    assert told(0, 0.1) == "", "a first guess, of 28 h, is not told"
    assert {told(quarters, 10.0) for quarters in range(1, 20)} == {""}
    assert told(20, 10.0) == "; about 16 min 35 s left"
    for quarters in range(21, 401):
        left = told(quarters, (8.0, 10.0, 12.0)[quarters % 3])
    assert left == "; about 15 min 00 s left (12 min 19 s to 19 min 01 s)"
    assert told(401, 500.0).startswith("; about 15 min 00 s left (12 min"), "one odd moment"
    assert forecast.of(replace(SHOWN[0], elapsed_s=101.0, runs=())) == ""


def test_losses_of_many_runs_are_told_of_the_first_few(tmp_path, monkeypatch):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 5, "train_mse": 1.5}\n')
    written = through(monkeypatch)
    running = SHOWN[0].runs[0]
    runs = tuple(replace(running, seed=seed, folder=tmp_path) for seed in range(6))
    progress.watch(shown([replace(SHOWN[0], runs=runs)]))
    told = ", ".join(f"slow seed {seed} 1.500" for seed in range(4))
    assert f"training loss: {told} and 2 more" in written.getvalue().splitlines()


def test_at_a_terminal_it_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    written = through(monkeypatch, force_terminal=True)
    assert progress.can_be_shown()
    progress.watch(shown(SHOWN))
    assert "training loss" in written.getvalue()


class Output:
    """What stands for the widget of a notebook."""

    cleared = 0

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def clear_output(self, wait: bool) -> None:
        Output.cleared += 1


def module(name: str, **content: object) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    made.__dict__.update(content)
    return made


def test_in_a_notebook_it_is_a_table_in_a_widget_or_lines_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[object] = []
    through(monkeypatch, force_jupyter=True)
    ipython = module("IPython.display", display=displayed.append)
    monkeypatch.setitem(sys.modules, "IPython", module("IPython", display=ipython))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    monkeypatch.setitem(sys.modules, "ipywidgets", module("ipywidgets", Output=Output))
    assert progress.can_be_shown()
    progress.watch(shown(SHOWN))
    assert sum(isinstance(item, Output) for item in displayed) == 1
    assert Output.cleared >= 2
    displayed.clear()
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    progress.watch(shown(SHOWN))
    said = [str(text._repr_mimebundle_([], [])["text/plain"]) for text in displayed]
    assert "slow seed" in said[-1]
    assert "done" in said[-1]


def test_status_ends_with_the_counts_and_the_time_left(tmp_path: Path) -> None:
    of = quadratic.experiment()
    store, runs = Store.with_runs(tmp_path / "results", of, of.runs)
    assert text(store).splitlines()[-1] == "4 runs: 4 waiting"
    quadratic.train_here(runs[0])
    stored.rewrite(runs[1].path, status="running")
    with quadratic.taken(runs[1]) as lease:
        lease.progress(20, 10.0)
        lease._beat()
        assert text(store).splitlines()[-1] == "4 runs: 2 waiting, 1 running, 1 done; about 16 s left"
        stored.rewrite(runs[2].path, status="running")
        with quadratic.taken(runs[2]) as other:
            other.progress(20, 5.0)
            other._beat()
            # 40 steps take 4 s and 8 s at 10 and 5 steps a second; then 60 steps take 8 s on the worker that is free.
            assert text(store).splitlines()[-1].endswith("; about 12 s left (9 s to 18 s)")
        stored.rewrite(runs[2].path, status="waiting")
    assert text(store).splitlines()[-2] == "4 runs: 2 waiting, 1 done, 1 interrupted"


def text(store: Store) -> str:
    written = io.StringIO()
    Terminal(file=written, width=200).print(progress.status_table(store))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def test_of_hundreds_of_runs_those_of_an_arm_that_are_alike_have_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = quadratic.experiment(seeds=5, controls={})
    store, runs = Store.with_runs(tmp_path / "results", of, of.runs)
    whole = text(store).splitlines()
    assert len(whole) == 1 + len(runs) + 1
    for run in (run for run in runs if run.name == "slow" and 0 < run.seed < 4):
        stored.rewrite(run.path, status="failed", message="no such luck")
    monkeypatch.setattr(progress, "MOST_ROWS", 2)
    shown = [line.split() for line in text(store).splitlines()]
    assert [line[:3] for line in shown[1:5]] == [
        ["slow", "0,", "4"],
        ["slow", "1", "failed"],
        ["slow", "2", "failed"],
        ["slow", "3", "failed"],
    ]
    assert " ".join(shown[-1]) == "... and 1 other run"
    assert " ".join(shown[-4]) == f"{len(runs)} runs: {len(runs) - 3} waiting, 3 failed"


def test_status_says_who_works_on_what_and_whose_beats_do_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LOOKED_FOR_S", 0.3)
    of = quadratic.experiment()
    store, runs = Store.with_runs(tmp_path / "results", of, of.runs)
    stored.rewrite(runs[1].path, status="running")
    holder = replace(lease_files.this_process(), host="node7", machine="another", pid=123, held_s=75.0, step=20)
    (runs[1].path / "lease").mkdir()
    (runs[1].path / "lease" / "000001.json").write_text(json.dumps(asdict(holder)))
    shown = text(store)
    assert "node7 123" in shown
    assert "1 min 15 s" in shown
    assert f"{runs[1].name} seed {runs[1].seed}: node7 123 has not reported for 0.3 s; if it stays silent for" in shown

"""Progress of runs in a terminal: a live table, or lines where there is no terminal.

A table has a row for each run. If there are hundreds of runs, similar runs of an arm share a row.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import track
from rich.table import Table
from rich.text import Text

from headway.base.files import inside
from headway.base.text import command_line, counted, duration, number
from headway.execute.queue import Progress, Snapshot, work_per_step
from headway.report.terminal import Terminal
from headway.store.directory import Store
from headway.store.document import runs_of
from headway.store.lease import last_holder
from headway.store.look_plans import damages
from headway.store.records import last_training_loss
from headway.store.verify import directory_warnings
from headway.store.watch import moved

MOST_ROWS = 500
"""Nobody reads more, and drawing them would take longer than looking at the runs."""


def rows_of(runs: Sequence[Progress]) -> list[tuple[str, Progress]]:
    """Return, for each row, its seeds in words, and the run that it shows, or the first that is done or waits.

    Examples:
        >>> shared = dict(message="", steps=9, steps_per_s=None, work_per_step=1.0, name="h2")
        >>> runs = [Progress(seed=seed, status="done", step=9, **shared) for seed in range(998)]
        >>> [seeds for seeds, _ in rows_of([*runs, Progress(seed=999, status="failed", step=4, **shared)])]
        ['0-997', '999']
    """
    if len(runs) <= MOST_ROWS:
        return [(str(run.seed), run) for run in runs]
    alike: dict[object, list[Progress]] = {}
    for run in runs:
        folded = run.status in ("done", "waiting")
        key = (run.name, run.status, run.step, run.steps) if folded else (run.name, run.seed)
        alike.setdefault(key, []).append(run)
    return [(spans(run.seed for run in found), found[0]) for found in alike.values()]


def spans(numbers: Iterable[int]) -> str:
    """Whole numbers, those that follow one another by the first and the last of them.

    Examples:
        >>> spans([0, 1, 2, 3, 7, 9, 8, 12])
        '0-3, 7-9, 12'
    """
    found: list[list[int]] = []
    for value in sorted(numbers):
        if found and value == found[-1][-1] + 1:
            found[-1][1:] = [value]
        else:
            found.append([value])
    return ", ".join("-".join(map(str, span)) for span in found)


COLORS = {
    "waiting": "dim",
    "running": "cyan",
    "done": "green",
    "failed": "red",
    "interrupted": "yellow",
    "damaged": "red",
}
_SAID_EVERY_S = 30.0
_REMEMBERED_S, _KNOWN_AFTER_S = 120.0, 5.0
"""How long an expectation counts, and how long expectations are collected before one is told."""
_LOSSES = 4
"""The most runs whose losses a line tells."""
_LOOKED_FOR_S = 2.5
"""The time to wait for beats of workers on other machines, which come every second."""


class Forecast:
    """The time at which all runs end, as expected over the last two minutes."""

    def __init__(self) -> None:
        self._expected: deque[tuple[float, float]] = deque()
        self._is_measured = False

    def of(self, snapshot: Snapshot) -> str:
        """Return words for the time left, a median and a range; empty while too little is known.

        The range leaves out a tenth of the expectations at each end.
        """
        left_s, now_s = snapshot.seconds_left, snapshot.elapsed_s
        if not self._is_measured and any(run.status == "done" and run.worked_s for run in snapshot.runs):
            self._is_measured = True
            self._expected.clear()  # they lack the evaluation of runs
        if left_s:
            self._expected.append((now_s, now_s + left_s))
        while self._expected and self._expected[0][0] < now_s - _REMEMBERED_S:
            self._expected.popleft()
        if not left_s or now_s - self._expected[0][0] < _KNOWN_AFTER_S:
            return ""
        ends_s = [end_s for _, end_s in self._expected]
        low_s, middle_s, high_s = np.quantile(ends_s, (0.1, 0.5, 0.9)) - now_s
        return _left(middle_s, low_s, high_s)


def can_be_shown() -> bool:
    """Return whether someone can watch: at a terminal, or in a notebook."""
    console = Terminal()
    return console.is_terminal or console.is_jupyter


def _left(middle_s: float, low_s: float, high_s: float) -> str:
    low, middle, high = (duration(max(0.0, seconds)) for seconds in (low_s, middle_s, high_s))
    return f"; about {middle} left{f' ({low} to {high})' if low != high else ''}"


def watch(snapshots: Generator[Snapshot]) -> None:
    """Show runs until they end: as a live table in a terminal or a notebook, else line by line."""
    console, forecast = Terminal(), Forecast()
    with closing(snapshots):
        if console.is_terminal or (console.is_jupyter and find_spec("ipywidgets")):
            with Live(console=console, refresh_per_second=4) as live:
                for snapshot in snapshots:
                    # In a notebook rich does not draw the last picture by itself.
                    live.update(_picture(snapshot, forecast.of(snapshot), console.height), refresh=console.is_jupyter)
        else:
            _say(snapshots, forecast, console)


def follow_trials(arms: Sequence[str]) -> Iterable[str]:
    """Go through the arms that are timed, one for each shape, and show how far that is."""
    console = Terminal(stderr=True)
    said = f"timing {counted(len(arms), 'shape')} on this machine (--no-timing skips this)"
    if len(arms) > 1 and not console.is_terminal:
        console.print(f"{said} ...", soft_wrap=True)
    return track(arms, said, console=console, transient=True, disable=not console.is_terminal)


def status_table(store: Store) -> Group:
    """Return the state of every run of a directory, in rows (`rows_of`), and messages of some.

    Of files their sizes are looked at, and nothing is read but what each run says of itself.
    """
    runs: list[Progress] = []
    work: dict[str, float] = {}  # of an arm, whose runs differ in their seeds alone
    for run in store.runs("sizes"):
        holder = last_holder(run.path / "lease") if run.status in ("running", "interrupted") else None
        worker = holder if run.status == "running" else None
        progress = Progress(
            name=run.name,
            seed=run.seed,
            status=run.status,
            message=run.message,
            step=run.steps if run.status == "done" else holder.step if holder else 0,
            steps=run.steps,
            steps_per_s=worker.steps_per_s if worker else None,
            work_per_step=work[run.name] if run.name in work else work.setdefault(run.name, work_per_step(run)),
            worker=worker.worker if worker else "",
            held_s=holder.held_s if holder else None,
            folder=run.path,
        )
        runs.append(progress)
    running = sum(run.status == "running" for run in runs)
    total = Snapshot(runs=tuple(runs), workers=max(1, running), elapsed_s=0.0)
    # What waits may be as fast as the fastest run of now, or as slow as the slowest.
    rates = [run.work_per_step * run.steps_per_s for run in runs if run.steps_per_s]
    left_s = total.seconds_left or 0.0
    left = _left(left_s, left_s * fmean(rates) / max(rates), left_s * fmean(rates) / min(rates)) if rates else ""
    said = Text(f"{counted(len(runs), 'run')}: {_counts(total)}{left}")
    doubts = [Text(f"warning: {doubt}", style="yellow") for doubt in directory_warnings(store.path)]
    doubts += [Text(said, style="yellow") for said in _silent(store.path, runs)]
    plan = [Text(line) for line in (*_dropped(store), *_planned(store.path))]
    return Group(_table(runs), said, *plan, *_messages(runs), *doubts)


def _dropped(store: Store) -> Iterator[str]:
    """Yield a sentence on dropped runs that the document still has an arm for, if there are any."""
    arms = {arm.full_name for arm in store.experiment.arms}
    seeds: dict[str, list[int]] = {}
    for arm, seed in sorted(runs_of(store.path)[1]):
        if arm in arms:
            seeds.setdefault(arm, []).append(seed)
    if seeds:
        named = "; ".join(f"{arm} seed {spans(found)}" for arm, found in seeds.items())
        n = sum(map(len, seeds.values()))
        again = f"`{command_line('run', store.path)}` trains {'it' if n == 1 else 'them'} again"
        yield f"{counted(n, 'dropped run')} missing: {named}; {again}"


def _planned(directory: Path) -> Iterator[str]:
    """Yield the state of a plan of interim analyses, if it is intact; the code for it is loaded only then."""
    if inside(directory, "looks").is_dir() and not any(damages(directory)):
        from headway.adaptive.messages import where_it_stands

        yield from where_it_stands(directory)


def _silent(directory: Path, runs: Sequence[Progress]) -> Iterator[str]:
    """A sentence for each run whose worker on another machine gave no beat while one looked."""
    running = {inside(directory, "runs", run.name, f"seed-{run.seed}", "lease"): run for run in runs if run.worker}
    for path, beats in moved(running, _LOOKED_FOR_S).items():
        if not beats:
            run = running[path]
            yield (
                f"{run.name} seed {run.seed}: {run.worker} has not reported for {_LOOKED_FOR_S:g} s; if it stays "
                "silent for a minute, another worker on this directory resumes the run"
            )


def _picture(snapshot: Snapshot, left: str, height: int) -> Group:
    """Return the table, current runs first, as many as fit; a line on all runs; and messages."""
    order = {"running": 0, "failed": 1, "interrupted": 1, "damaged": 1, "waiting": 2, "done": 3}
    runs = sorted(snapshot.runs, key=lambda run: order[run.status])
    shown = runs[: max(1, height - 5)]
    hidden = f"{len(runs) - len(shown)} more runs; " if len(shown) < len(runs) else ""
    return Group(_table(shown), Text(hidden + _summary(snapshot, left)), *_messages(runs))


def _messages(runs: Sequence[Progress]) -> list[Text]:
    """Return the messages of single runs over the whole width, since a column would wrap every word."""
    told = [run for run in runs if run.message]
    more = [Text(f"... and {counted(len(told) - MOST_ROWS, 'other run')}")] if len(told) > MOST_ROWS else []
    return [Text(_line(run), style=COLORS[run.status]) for run in told[:MOST_ROWS]] + more


def _line(run: Progress) -> str:
    return f"{run.name} seed {run.seed} {run.status}" + (f": {run.message}" if run.message else "")


def _loss(run: Progress) -> str:
    """Return the training loss that a run recorded last, in four digits; empty before the first, and once it is done.

    The last record of a finished run may be of a single step, so its report has better numbers.
    """
    loss = None if run.folder is None or run.status == "done" else last_training_loss(run.folder)
    return "" if loss is None else number(loss, 4)


def _losses(runs: Iterable[Progress]) -> str:
    """Return the training losses of the runs that are being trained, the first few by name."""
    known = [f"{run.name} seed {run.seed} {loss}" for run in runs if run.status == "running" and (loss := _loss(run))]
    more = f" and {len(known) - _LOSSES} more" if len(known) > _LOSSES else ""
    return f"training loss: {', '.join(known[:_LOSSES])}{more}" if known else ""


def _table(runs: Sequence[Progress]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Who works on them is told where several may: the table has room for it then alone.
    who = ("worker", "for") if any(run.worker for run in runs) else ()
    for heading in ("arm", "seed", "status", "progress", "step", "training loss", "steps/s", "time left", *who):
        left = heading in ("arm", "status", "worker")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for seeds, run in rows_of(runs):
        left_s, held_s = run.seconds_left, run.held_s
        table.add_row(
            Text(run.name),
            seeds,
            Text(run.status, style=COLORS[run.status]),
            f"{run.step / run.steps:.0%}" if run.steps else "",
            f"{run.step:,}" if run.steps else "",
            _loss(run),
            f"{run.steps_per_s:,.0f}" if run.steps_per_s else "",
            duration(left_s) if left_s is not None and run.status == "running" else "",
            *((Text(run.worker), duration(held_s) if run.worker and held_s is not None else "") if who else ()),
        )
    return table


def _summary(snapshot: Snapshot, left: str) -> str:
    at = f"after {duration(snapshot.elapsed_s)} on {counted(snapshot.workers, 'worker')}"
    return f"{_counts(snapshot)} {at}{left}"


def _counts(snapshot: Snapshot) -> str:
    counts = [f"{n} {status}" for status in COLORS if (n := snapshot.count(status))]  # type: ignore[arg-type]
    return ", ".join(counts) or "none yet"


def _say(snapshots: Iterator[Snapshot], forecast: Forecast, console: Console) -> None:
    """A line when a run starts or ends, and now and then one about all of them."""
    said: dict[tuple[str, int], str] = {}
    last_s = 0.0
    for snapshot in snapshots:
        left = forecast.of(snapshot)
        for run in snapshot.runs:
            key = (run.name, run.seed)
            if run.status != said.get(key, "waiting"):
                said[key] = run.status
                others = run.status == "running" and run.worker
                line = f"{run.name} seed {run.seed} is trained by {run.worker}" if others else _line(run)
                console.print(line, markup=False, soft_wrap=True)
        if snapshot.elapsed_s - last_s >= _SAID_EVERY_S:
            last_s = snapshot.elapsed_s
            for line in filter(None, (_summary(snapshot, left), _losses(snapshot.runs))):
                console.print(line, markup=False, soft_wrap=True)

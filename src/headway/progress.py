"""Door: runs while they are going on, as a live table, or as lines where there is no terminal."""

from collections.abc import Generator, Iterator
from contextlib import closing

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headway.lab.lease import last_holder
from headway.lab.progress import Progress, Snapshot
from headway.lab.store import Store
from headway.show.words import duration

COLORS = {"waiting": "dim", "running": "cyan", "done": "green", "failed": "red", "interrupted": "yellow"}
_SAID_EVERY_S = 30.0


def watch(snapshots: Generator[Snapshot]) -> None:
    """Show runs until they end."""
    console = Console()
    with closing(snapshots):
        if console.is_terminal:
            with Live(console=console, refresh_per_second=4) as live:
                for snapshot in snapshots:
                    live.update(_picture(snapshot, console.height))
        else:
            _say(snapshots, console)


def status_table(store: Store) -> Table:
    """How far every run of a directory is, one row each."""
    table = _table()
    for run in store.runs():
        holder = last_holder(run.path / "lease") if run.status in ("running", "interrupted") else None
        progress = Progress(
            name=run.name,
            seed=run.seed,
            status=run.status,
            message=run.message,
            step=run.steps if run.status == "done" else holder.step if holder else 0,
            steps=run.steps,
            steps_per_s=holder.steps_per_s if holder and run.status == "running" else None,
            work_per_step=1.0,
        )
        _add(table, progress)
    return table


def _picture(snapshot: Snapshot, height: int) -> Group:
    """The table, those that are going on first, as many as fit; and a line about all of them."""
    order = {"running": 0, "failed": 1, "interrupted": 1, "waiting": 2, "done": 3}
    runs = sorted(snapshot.runs, key=lambda run: order[run.status])
    shown = runs[: max(1, height - 5)]
    table = _table()
    for run in shown:
        _add(table, run)
    hidden = f"{len(runs) - len(shown)} more runs; " if len(shown) < len(runs) else ""
    return Group(table, Text(hidden + _summary(snapshot)))


def _table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("arm", "seed", "status", "progress", "step", "steps/s", "time left"):
        table.add_column(heading, justify="left" if heading in ("arm", "status") else "right", no_wrap=True)
    table.add_column("")
    return table


def _add(table: Table, run: Progress) -> None:
    left = run.seconds_left
    table.add_row(
        run.name,
        str(run.seed),
        Text(run.status, style=COLORS[run.status]),
        f"{run.step / run.steps:.0%}",
        f"{run.step:,}",
        f"{run.steps_per_s:,.0f}" if run.steps_per_s else "",
        duration(left) if left is not None and run.status == "running" else "",
        escape(run.message),
    )


def _summary(snapshot: Snapshot) -> str:
    left = snapshot.seconds_left
    counts = [f"{n} {status}" for status in COLORS if (n := snapshot.count(status))]  # type: ignore[arg-type]
    time_left = f"; about {duration(left)} left" if left else ""
    return f"{', '.join(counts)} after {duration(snapshot.elapsed_s)} on {snapshot.workers} workers{time_left}"


def _say(snapshots: Iterator[Snapshot], console: Console) -> None:
    """A line when a run starts or ends, and now and then one about all of them."""
    said: dict[tuple[str, int], str] = {}
    last_s = 0.0
    for snapshot in snapshots:
        for run in snapshot.runs:
            key = (run.name, run.seed)
            if run.status != said.get(key, "waiting"):
                said[key] = run.status
                message = f": {run.message}" if run.message else ""
                console.print(f"{run.name} seed {run.seed} {run.status}{message}", markup=False, soft_wrap=True)
        if snapshot.elapsed_s - last_s >= _SAID_EVERY_S:
            last_s = snapshot.elapsed_s
            console.print(_summary(snapshot), markup=False, soft_wrap=True)

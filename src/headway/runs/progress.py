"""Runs: how far many runs are, as values for a live table."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import UserError
from headway.runs.folder import Run, Status


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one run is.

    `work_per_step` weighs its steps against those of other runs. `steps_per_s` is its recent rate, None when it is
    not running. `worker` is who works on it, where that is to be told, and `held_s` for how long.
    """

    name: str
    seed: int
    status: Status
    message: str
    step: int
    steps: int
    steps_per_s: float | None
    work_per_step: float
    worker: str = ""
    held_s: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last step, at the recent rate."""
        return (self.steps - self.step) / self.steps_per_s if self.steps_per_s else None


def work_per_step(run: Run) -> float:
    """What a step of a run costs, to be weighed against those of other runs: its FLOPs, forward."""
    try:
        return float(run.spec.budget.flops_per_example * run.spec.training.batch_size)
    except UserError:  # a damaged run; or its worker says what is wrong
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How far all runs are, in the order in which they were given; `elapsed_s` since this process began with them."""

    runs: tuple[Progress, ...]
    workers: int
    elapsed_s: float
    stopped: str = ""
    """Why all of it ended before its end: the directory cannot be stored any more."""

    def count(self, status: Status) -> int:
        """Runs of a status."""
        return sum(run.status == status for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """About how long all of it takes from here, if what waits runs at the rate of what runs; None at first.

        Examples:
            >>> half = dict(message="", step=50, steps=100, work_per_step=1.0)
            >>> one = Progress(name="a", seed=0, status="running", steps_per_s=10.0, **half)
            >>> other = Progress(name="a", seed=1, status="waiting", steps_per_s=None, **half)
            >>> Snapshot(runs=(one, other), workers=1, elapsed_s=5.0).seconds_left
            10.0
        """
        ahead = [run for run in self.runs if run.status in ("waiting", "running")]
        running: Sequence[Progress] = [run for run in ahead if run.steps_per_s]
        if not ahead:
            return 0.0
        if not running:
            return None
        rate = sum(run.work_per_step * (run.steps_per_s or 0.0) for run in running) / len(running)
        work = sum(run.work_per_step * (run.steps - run.step) for run in ahead)
        longest = max(run.seconds_left or 0.0 for run in running)
        return max(longest, work / (rate * min(max(self.workers, len(running)), len(ahead))))

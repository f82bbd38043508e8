"""Settle: what runs take on this machine, and whether they fit into what may be spent."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from headway.declare.experiment import Arm, Experiment
from headway.runs.folder import Run
from headway.runs.store import Store

Wanted = Sequence[tuple[str, int]]
"""Runs, by arm and seed."""


@dataclass(kw_only=True)
class Spending:
    """Seconds since somebody began, and how long runs take.

    Attributes:
        seconds: that may be spent; None: as many as it takes.
        n_places: runs that are worked on at once.
        guessed: seconds of a run of an arm, before one was measured.
    """

    seconds: float | None
    n_places: int
    guessed: Mapping[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _slower: float = 1.0
    """Runs take longer than their own clocks say, since processes begin and end."""

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return float("inf") if self.seconds is None else self.seconds - (time.monotonic() - self._began)

    def expected_s(self, wanted: Wanted, runs: Sequence[Run]) -> float | None:
        """About how long runs take together, by those that are done; None where nothing is known.

        Args:
            wanted: arms and seeds.
            runs: of the directory.
        """
        known = self._seconds(runs)
        if not wanted or not known:
            return None if wanted else 0.0
        each = [known.get(name, fmean(known.values())) for name, _ in wanted]
        return self._slower * max(max(each), sum(each) / min(self.n_places, len(each)))

    def learn(self, wanted: Wanted, runs: Sequence[Run], took_s: float) -> None:
        """Compare how long runs took with what their own clocks say."""
        self._slower = 1.0
        if expected := self.expected_s(wanted, runs):
            self._slower = min(max(1.0, took_s / expected), 100.0)

    def _seconds(self, runs: Sequence[Run]) -> Mapping[str, float]:
        measured: dict[str, list[float]] = {}
        for run in runs:
            if run.status == "done" and run.metrics.get("wall_s"):
                measured.setdefault(run.name, []).append(float(run.metrics["wall_s"]))
        return {**self.guessed} | {name: median(found) for name, found in measured.items()}


@dataclass(frozen=True, kw_only=True)
class Hands:
    """What a search or a plan works with.

    Attributes:
        experiment: all of it.
        path: the results directory.
        run: works on runs to their end.
        tell: is given what is found.
        guess: says about how many seconds a run of an arm takes, before one is done; nothing where that is not known.
        spending: what it takes.
    """

    experiment: Experiment
    path: Path
    run: Callable[[Sequence[tuple[Arm, int]]], object]
    tell: Callable[[str], object]
    guess: Callable[[], Mapping[str, float]]
    spending: Spending

    def train(self, wanted: Wanted) -> None:
        """Work on runs, and learn how long they take."""
        began = time.monotonic()
        fresh = {(run.name, run.seed) for run in self.store().runs() if run.status != "done"} | set(wanted)
        self.run([(self.experiment.arm(name), seed) for name, seed in wanted])
        took_s = time.monotonic() - began
        self.spending.learn([one for one in wanted if one in fresh], self.store().runs(), took_s)

    def store(self) -> Store:
        """The directory as it is now."""
        return Store.open(self.path)

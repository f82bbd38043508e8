"""Show: what the probes of a run said of its heads while it trained, at steps that a slider goes over."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.compare.tokens.head_progress import scores_at
from headway.declare.log_spaced import thinned
from headway.heads.scores import HeadScores
from headway.runs.folder import Run

MOST = 60
"""Steps of a slider."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The heads at a step of training."""

    step: int
    scores: Mapping[str, HeadScores]


@dataclass(frozen=True, kw_only=True)
class HeadCourse:
    """A run's heads over training, at some of the steps that were probed."""

    moments: tuple[Moment, ...]
    n_probed: int


def course(folder: Path | None, most: int = MOST) -> HeadCourse:
    """The probes of a run, at most so many, evenly on a log scale; nothing of a model that no run trained.

    Raises:
        ResultsError: when a file is damaged.
    """
    if folder is None:
        return HeadCourse(moments=(), n_probed=0)
    run = Run.open(folder)
    steps = run.head_steps()
    kept = [steps[at] for at in thinned(steps, most)] if steps else []
    moments = tuple(Moment(step=step, scores=scores_at(run, step)) for step in kept)
    return HeadCourse(moments=moments, n_probed=len(steps))

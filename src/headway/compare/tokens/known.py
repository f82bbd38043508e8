"""Compare: what is possible at all on a task whose answer is known."""

from collections.abc import Sequence

from headway.declare.metrics import METRICS
from headway.declare.tokens.known import KnownTask
from headway.declare.tokens.run import TokensRun
from headway.runs.folder import Run


def baselines(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """The best of any model among the arms, where theory says it, and chance; what each could reach stands with it."""
    found: dict[str, float] = {}
    for run in runs:
        for metric, value in run.spec.best_possible.items():
            better = max if METRICS[metric].better == "higher" else min
            found[metric] = better(found.get(metric, value), value)
    chance = _by_chance(runs)
    return {
        **({"possible": found} if found else {}),
        **({"chance": {"accuracy": chance}} if chance is not None else {}),
    }


def _by_chance(runs: Sequence[Run]) -> float | None:
    if not runs:
        return None
    spec = runs[0].spec
    assert isinstance(spec, TokensRun)
    assert isinstance(spec.task, KnownTask)
    return spec.task.by_chance()

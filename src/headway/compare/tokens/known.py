"""Compare: what is possible at all on a task whose answer is known."""

from collections.abc import Sequence

from headway.runs.folder import Run


def baselines(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """The best of any model among the arms, where theory says it; what each arm could reach stands with its runs."""
    found: dict[str, float] = {}
    for run in runs:
        for metric, value in run.spec.best_possible.items():
            found[metric] = max(found.get(metric, value), value)
    return {"possible": found} if found else {}

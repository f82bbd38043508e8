"""Compare: how long another seed of some arms takes, by their runs: the price of knowing more."""

from collections.abc import Iterable

from headway.compare.cells import RunsOfArm
from headway.runs.folder import Run


def run_seconds(run: Run) -> float | None:
    """What a finished run took; None where that was not measured. Runs that were trained together share their time."""
    seconds = run.metrics.get("wall_s") if run.status == "done" else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return None
    return seconds / max(1, (run.execution or {}).get("together", 1))


def arm_seconds(arm: str, runs: RunsOfArm) -> float | None:
    """The lower quartile over an arm's runs: what else a machine does makes some of them slower, and none faster."""
    found = sorted(seconds for run in runs.get(arm, {}).values() if (seconds := run_seconds(run)) is not None)
    return found[(len(found) - 1) // 4] if found else None


def seed_seconds(arms: Iterable[str], runs: RunsOfArm) -> float | None:
    """Of a run of each arm, one after the other; None where one is not known."""
    found = [arm_seconds(arm, runs) for arm in arms]
    return sum(one for one in found if one is not None) if found and None not in found else None

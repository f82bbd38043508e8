"""Notes beside a verdict: runs without a result, omitted values, and pairs with different execution."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headway.base.text import counted

EXECUTION_KEYS = (
    "device",
    "trainer",
    "instruction_set",
    "instruction_sets",
    "threads",
    "compile",
    "versions",
    "processor",
    "system",
)
"""The keys of a run's execution that can change its bits or its speed; the two runs of a pair should agree in them.

The runs should also agree in `together`, the size of their batches; the other members of a batch change nothing.
"""


def shortfall(label: str, statuses: Sequence[str]) -> list[str]:
    """A clause for each way in which runs of an arm gave no result.

    Examples:
        >>> shortfall("8 heads", ["done", "failed", "failed", "waiting"])
        ['2 of 4 runs of 8 heads failed', '1 of 4 runs of 8 heads is not finished']
    """
    known = ("failed", "damaged")
    counts = Counter(status if status in known else "open" for status in statuses if status != "done")
    said = {
        "failed": "failed",
        "damaged": "is damaged" if counts["damaged"] == 1 else "are damaged",
        "open": "is not finished" if counts["open"] == 1 else "are not finished",
    }
    return [f"{counts[how]} of {counted(len(statuses), 'run')} of {label} {said[how]}" for how in said if counts[how]]


def left_out(seeds: Sequence[int]) -> list[str]:
    """A clause for the seeds whose values are missing or not finite.

    Examples:
        >>> left_out([3])
        ['seed 3 is left out, where a value is not finite']
    """
    if not seeds:
        return []
    are = "seed {} is" if len(seeds) == 1 else "seeds {} are"
    return [f"{are.format(', '.join(map(str, seeds)))} left out, where a value is not finite"]


def execution_warning(
    arm: str, baseline: str, executions: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> str | None:
    """A warning when the two halves of pairs were not executed alike, else None.

    Args:
        arm: label of the arm.
        baseline: label of the baseline.
        executions: what `run.json` holds under `execution`, of the arm and of the baseline, for each pair.

    Examples:
        >>> execution_warning("2 heads", "1 head", [({"threads": 1}, {"threads": 2}), ({"threads": 1}, {"threads": 1})])
        '2 heads and 1 head were not executed alike in 1 of 2 pairs (threads 1 against 2): a difference between them may come from that, above all in speed and memory'
    """  # noqa: E501 - a doctest's output stands on one line
    differing = [_differences(*pair) for pair in executions]
    affected = sum(bool(found) for found in differing)
    if not affected:
        return None
    kinds = dict.fromkeys(text for found in differing for text in found)
    return (
        f"{arm} and {baseline} were not executed alike in {affected} of {counted(len(executions), 'pair')} "
        f"({'; '.join(kinds)}): a difference between them may come from that, above all in speed and memory"
    )


def _differences(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    mine, theirs = _flat(arm), _flat(baseline)
    # What only one of them records (torch's version, by a run that needs none) is no difference of its own.
    return [
        f"{key.replace('_', ' ')} {mine[key]} against {theirs[key]}"
        for key in sorted(mine.keys() & theirs.keys())
        if mine[key] != theirs[key]
    ]


def _flat(execution: Mapping[str, Any]) -> dict[str, Any]:
    # Who is trained alone does not record that.
    values: dict[str, Any] = {"runs trained together": execution.get("together", 1)}
    for key in EXECUTION_KEYS:
        value = execution.get(key)
        if key == "instruction_sets" and isinstance(value, Mapping):
            value = {f"instruction set of {library}": name for library, name in value.items()}
        values |= value if isinstance(value, Mapping) else {} if value is None else {key: value}
    return values

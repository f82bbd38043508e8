"""Runs: a run that two processes finished: the first result is kept, and the second says whether it is the same.

It takes a holder that was given up while it slept, and that nobody could tell, or a node that was thought lost. Both
computed the same function, so whatever is no time and no memory must be equal to the bit where both were executed
equally; where it is not, one of the machines is defect. Another instruction set sums in another order: no defect.
"""

import math
from collections.abc import Mapping
from typing import Any

from headway.errors import ResultsError
from headway.files import Content, plain
from headway.runs import seal
from headway.runs.execution import changes
from headway.runs.folder import Run, read
from headway.words import listed

_PASSING = ("_s", "_bytes")
"""How the names of times, rates and memory end."""
_WITH_TIMES = ("metrics.jsonl", "checkpoint/")
_OF_A_PLACE = ("host", "changes")


def finished(run: Run) -> Run | None:
    """The result of somebody else that a folder holds by now; None where there is none.

    Raises:
        ResultsError: when its run.json cannot be read.
    """
    found = read(run.path)
    return found if found.status == "done" and found.id == run.id and found.seal else None


def is_whole(first: Run) -> bool:
    """Whether the folder holds what the first one sealed."""
    try:
        first.check("whole")
    except ResultsError:
        return False
    return True


def differences(first: Run, metrics: Mapping[str, Any], contents: Mapping[str, Content]) -> list[str]:
    """Names of what the first result and a second one differ in, times and memory apart.

    Args:
        first: that is kept.
        metrics: of the second.
        contents: of its files, by path in the folder.
    """
    mine = plain(dict(metrics))
    names = sorted(name for name in first.metrics.keys() | mine.keys() if not name.endswith(_PASSING))
    found = [name for name in names if not _equal(first.metrics.get(name), mine.get(name))]
    try:
        sealed = seal.read(first.path, first.seal or "")
    except ResultsError:
        return found
    same = [name for name in sealed.keys() & contents.keys() if _is_of_bits(name)]
    return found + sorted(name for name in same if sealed[name] != contents[name])


def said(first: Run, execution: Mapping[str, Any], differing: list[str]) -> str:
    """What is to be said of a run that was finished twice; nothing where both results are the same."""
    if not differing:
        return ""
    before, now = ({k: v for k, v in one.items() if k not in _OF_A_PLACE} for one in (first.execution, execution))
    hosts = f"{first.execution.get('host')} and {execution.get('host')}"
    what = f"finished twice, on {hosts}, and {listed(differing)} differ"
    if changed := changes(before, now):
        return f"{what}; they were executed differently ({', '.join(changed)}), and the first result is kept"
    if ("instruction_sets" in before) != ("instruction_sets" in now):
        return (
            f"{what}; one of them does not record its instruction sets, which may differ, and the first result is kept"
        )
    return (
        f"{what} though both were executed equally: one of these machines is defect (memory, processor or disk); "
        "the first result is kept, and neither is to be trusted before it was run again elsewhere"
    )


def _is_of_bits(name: str) -> bool:
    """Whether a file must be the same in two executions: it holds no times."""
    return name.endswith(".safetensors") or not name.startswith(_WITH_TIMES)


def _equal(one: Any, other: Any) -> bool:
    both = isinstance(one, float) and isinstance(other, float)
    return one == other or (both and math.isnan(one) and math.isnan(other))

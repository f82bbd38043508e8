"""Declare: what pruning takes away at once: a head, or all heads that share their keys and values, with these.

A query head alone would leave its keys and values behind, which cost as much as before.
"""

import re
from collections.abc import Sequence

from headway.declare.tokens.layout import HeadLayout
from headway.errors import UserError
from headway.words import counted

Unit = tuple[tuple[int, int], ...]
"""Heads, each by layer and number."""

LAST_STAYS = ("alike", "alike-either")
"""Methods of pruning by which of the two most alike units of a layer one goes, so that the last always stays."""


def units_of(layout: HeadLayout) -> list[Unit]:
    """The heads of each KV head, in the order of the model.

    Examples:
        >>> units_of(HeadLayout.parse("4:2-1", 8))
        [((0, 0), (0, 1)), ((0, 2), (0, 3)), ((1, 0),)]
    """
    units: list[Unit] = []
    for layer, heads in enumerate(layout.layers):
        first = 0
        for count in heads.queries:
            units.append(tuple((layer, head) for head in range(first, first + count)))
            first += count
    return units


def heads_to_keep(keep: int | float | str, units: Sequence[Unit]) -> int:
    """How many heads are to stay.

    Args:
        keep: their number, or their share: `24`, `50%`, `0.5`.
        units: all that there are.

    Raises:
        UserError: for none, for all or more, for what is no number, and for a number that would take a query head from
            others that share its keys and values.

    Examples:
        >>> heads_to_keep("50%", units_of(HeadLayout.parse("4:2-4:2", 8)))
        4
    """
    total, sums = sum(map(len, units)), sums_of(units)
    number, is_share = _parsed(keep)
    if is_share:
        number *= total
    if is_share and 0 < number < total:
        number = float(min(sums - {0, total}, key=lambda n: (abs(n - number), n), default=0))
    if not 0 < number < total:
        raise UserError(
            f"keep {keep}: that is {_said(number)} of {counted(total, 'head')}; give from 1 to {total - 1}, or a share "
            "such as 50%"
        )
    asked = round(number)
    if asked not in sums:
        near = sorted(sums - {0, total}, key=lambda n: (abs(n - asked), n))[:2]
        raise UserError(
            f"keep {keep}: heads that share their keys and values go together, and {asked} would take one without its "
            f"KV head; give {' or '.join(map(str, sorted(near)))}"
        )
    return asked


def _parsed(keep: int | float | str) -> tuple[float, bool]:
    """A number, and whether it is a share."""
    if isinstance(keep, bool):
        raise UserError(f"keep {keep}: a number of heads or a share was expected, such as 24, 50% or 0.5")
    if isinstance(keep, int):
        return float(keep), False
    text = str(keep).strip()
    if re.fullmatch(r"-?\d+", text):
        return float(text), False
    if found := re.fullmatch(r"(-?\d+(?:\.\d+)?) ?%", text):
        return float(found[1]) / 100, True
    if re.fullmatch(r"-?\d*\.\d+(?:e-?\d+)?|-?\d+\.\d*", text):
        return float(text), True
    raise UserError(f"keep {keep}: a number of heads or a share was expected, such as 24, 50% or 0.5")


def least_to_keep(by: str, units: Sequence[Unit]) -> int:
    """The fewest heads that a method of pruning can leave.

    Examples:
        >>> units = units_of(HeadLayout.parse("4:2-0-1", 8))
        >>> least_to_keep("alike", units), least_to_keep("taylor", units)
        (3, 1)
    """
    if by not in LAST_STAYS:
        return min(map(len, units), default=0)
    smallest: dict[int, int] = {}
    for unit in units:
        layer = unit[0][0]
        smallest[layer] = min(smallest.get(layer, len(unit)), len(unit))
    return sum(smallest.values())


def sums_of(units: Sequence[Unit]) -> set[int]:
    """Numbers of heads that whole units can have."""
    found = {0}
    for unit in units:
        found |= {number + len(unit) for number in found}
    return found


def _said(number: float) -> str:
    return "none" if number <= 0 else f"{number:,.0f}"

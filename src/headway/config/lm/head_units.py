"""Units of pruning, and the declaration of a transformer without some of its heads.

A unit is one head, or all query heads that share keys and values, together with these. Removing one query head alone
would leave its keys and values behind, which cost as much as before.

The pruned declaration is an ordinary one of another layout. A KV head goes when the last query head that reads it has
gone. A low-rank map whose rank is above its new width becomes a whole matrix.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Literal

from headway.base.text import counted
from headway.config.lm.layout import HeadLayout, LayerHeads
from headway.config.lm.model import Ranks, TransformerModel
from headway.errors import UserError

Unit = tuple[tuple[int, int], ...]
"""A unit of pruning: heads, each as (layer, number)."""

LAST_STAYS = ("alike", "alike-either")
"""Methods that remove one of the two most alike units of a layer, so that each layer keeps one unit."""


def units_of(layout: HeadLayout) -> list[Unit]:
    """Return the units of a model in its order: the query heads of each KV head.

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
    """Return how many heads are to stay.

    Args:
        keep: the number of heads that stay, or their share: `24`, `50%`, `0.5`.
        units: all units of the model.

    Raises:
        UserError: if no head or every head would stay; if `keep` is no number, or splits query heads that share keys
            and values.

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
        amount = "none" if number <= 0 else f"{number:,.0f}"
        raise UserError(
            f"keep {keep}: that is {amount} of {counted(total, 'head')}; give from 1 to {total - 1}, or a share "
            "such as 50%"
        )
    asked = round(number)
    if asked not in sums:
        near = sorted(sums - {0, total}, key=lambda n: (abs(n - asked), n))[:2]
        raise UserError(
            f"keep {keep}: heads that share keys and values go together, and {asked} would take one without its "
            f"KV head; give {' or '.join(map(str, sorted(near)))}"
        )
    return asked


def _parsed(keep: int | float | str) -> tuple[float, bool]:
    """Return a number, and whether it is a share."""
    text = str(keep).strip()
    if re.fullmatch(r"-?\d+", text):
        return float(text), False
    if match := re.fullmatch(r"(-?\d+(?:\.\d+)?) ?%", text):
        return float(match[1]) / 100, True
    if re.fullmatch(r"-?\d*\.\d+(?:e-?\d+)?|-?\d+\.\d*", text):
        return float(text), True
    raise UserError(f"keep {keep}: a number of heads or a share was expected, such as 24, 50% or 0.5")


def least_to_keep(by: str, units: Sequence[Unit]) -> int:
    """Return the fewest heads that a method of pruning can leave.

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
    """Return the numbers of heads that whole units can have together."""
    sums = {0}
    for unit in units:
        sums |= {number + len(unit) for number in sums}
    return sums


Keep = Sequence[Sequence[bool]]
"""Per layer, whether each head stays; an empty entry for a layer without heads."""

PROJECTIONS: tuple[Literal["q", "k", "v", "o"], ...] = ("q", "k", "v", "o")
"""The matrices of an attention."""


def without_heads(model: TransformerModel, keep: Keep) -> TransformerModel:
    """Return the declaration of a model with the kept heads, given one value for each head of each layer.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2")
        >>> without_heads(declared, [[True, False, True, False], [False, False]]).n_heads
        '2x4-0'
    """
    kept = [_kept(heads, mask) for heads, mask in zip(model.layout.layers, keep, strict=True)]
    layout = HeadLayout(d_model=model.d_model, layers=tuple(kept))
    emptied = [i for i, n_heads in enumerate(model.layout.n_heads) if n_heads and not kept[i].queries]
    ranks = {name: _ranks(model, kept, name) for name in PROJECTIONS}
    values = {name: getattr(model, name) for name in type(model).model_fields}
    changed = {
        "n_heads": str(layout),
        "n_kv_heads": None,
        "d_head": None,
        "emptied": tuple(sorted({*model.emptied, *emptied})),
        "ranks": Ranks(**model.ranks.model_dump() | ranks),
    }
    return type(model)(**values | changed)


def spread_evenly(model: TransformerModel, number: int) -> TransformerModel:
    """Return the model with a number of heads, removed evenly from all layers: an estimate before pruning is done.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads=4)
        >>> spread_evenly(declared, 5).n_heads
        '2x4-3x4'
    """
    n_heads, left = model.layout.n_heads, model.layout.total
    keep = [[True] * n for n in n_heads]
    for unit in sorted(units_of(model.layout), key=lambda unit: -unit[0][1] / n_heads[unit[0][0]]):
        if left - len(unit) >= number:
            left -= len(unit)
            for layer, head in unit:
                keep[layer][head] = False
    return without_heads(model, keep)


def _kept(heads: LayerHeads, mask: Sequence[bool]) -> LayerHeads:
    readers = Counter(compress(heads.kv_of, mask))
    queries = tuple(count for _, count in sorted(readers.items()))
    return LayerHeads(queries=queries, d_head=heads.d_head if queries else 0)


def _ranks(
    model: TransformerModel, kept: Sequence[LayerHeads], name: Literal["q", "k", "v", "o"]
) -> tuple[int | None, ...] | None:
    """Return the rank in each layer; None, for a whole matrix, where the new width is below the rank."""
    ranks = []
    for layer, heads in enumerate(kept):
        rank, width = model.rank(name, layer), heads.d_head * (heads.n_heads if name in "qo" else heads.n_kv_heads)
        # A layer without heads has no such matrix.
        ranks.append(None if rank is None or width == 0 or rank > min(model.d_model, width) else rank)
    return tuple(ranks) if any(ranks) else None

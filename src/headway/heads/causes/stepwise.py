"""Heads: a model pruned to a number of heads, at once or in steps with importance measured anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headway.declare.tokens.head_units import Unit, sums_of, units_of
from headway.errors import UserError
from headway.heads.causes.importance import Order, PruningText
from headway.heads.causes.kinds import Head
from headway.heads.causes.pruning import pruned
from headway.model.transformer import Transformer
from headway.words import counted


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A pruned model, and the heads of the whole one that it has."""

    model: Transformer
    heads: tuple[Head, ...]


def pruned_to(
    model: Transformer,
    keep: int,
    order: Order,
    text: PruningText,
    *,
    steps: int = 1,
    tell: Callable[[str], object] = lambda _: None,
) -> Kept:
    """A new model with so many heads.

    Args:
        model: the model; it stays as it is.
        keep: a number of heads that whole units can have; see `heads_to_keep`.
        order: which units go first.
        text: what the order is told from.
        steps: importance is measured anew after each of them; each takes the same share of what goes.
        tell: is given what is done, where there are several steps.

    Raises:
        UserError: for no steps, or an order that ends before enough have gone.
    """
    if steps < 1:
        raise UserError(f"{steps} steps were asked for; give 1 or more")
    now, total = model, model.model.layout.total
    heads: list[Head] = [head for unit in units_of(model.model.layout) for head in unit]
    for step in range(1, steps + 1):
        target = total - round((total - keep) * step / steps)
        if len(heads) <= target:
            continue
        if steps > 1:
            tell(f"step {step} of {steps}: from {counted(len(heads), 'head')} to {target}")
        units = units_of(now.model.layout)
        gone = _going(units, order(now, units, replace(text, keep=target)), len(heads) - target, len(heads) - keep)
        names = [head for unit in units for head in unit]
        stays = [head not in gone for head in names]
        heads = [head for head, stay in zip(heads, stays, strict=True) if stay]
        n_heads, at = now.model.layout.n_heads, iter(stays)
        now = pruned(now, [[next(at) for _ in range(n)] for n in n_heads])
    return Kept(model=now, heads=tuple(heads))


def _going(units: Sequence[Unit], order: Sequence[int], number: int, in_all: int) -> set[Head]:
    """The heads that go: the first units of the order that fit, if the others of it can make up the number in all.

    Raises:
        UserError: when all of that number should go now, and cannot.
    """
    going: list[int] = []
    left, later = number, in_all
    for at in order:
        size = len(units[at])
        if size <= left and _fits([units[i] for i in order if i not in (*going, at)], later - size):
            going.append(at)
            left, later = left - size, later - size
    if later and number == in_all:
        raise UserError(
            f"{counted(number, 'head')} more are to go, but by this method only {number - later} can: heads that share "
            "keys and values go together, and of alike ones in a layer the last stays; keep more, or take another "
            "method"
        )
    return {head for at in going for head in units[at]}


def _fits(units: Sequence[Unit], number: int) -> bool:
    """Whether some of the units have so many heads together."""
    sizes = {len(unit) for unit in units}
    if len(sizes) < 2:
        return not number or (bool(sizes) and number % min(sizes) == 0)
    return number in sums_of(units)

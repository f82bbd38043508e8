"""Declare: which arms, controls and seeds are meant by what someone asks for."""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any

from headway.declare.document import MOST_SEEDS
from headway.errors import DeclarationError, near, shortened


def names_of(what: str, asked: str | Sequence[str], declared: Iterable[str]) -> tuple[str, ...]:
    """Names of arms or controls, all of them declared.

    Raises:
        DeclarationError: when one is not, with near names.
    """
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    for name in names:
        if name not in declared:
            raise DeclarationError(f"there is no {what} {name!r}; {near(name, declared)}")
    return names


RATES = "learning-rates"
"""Stands for all controls of a learning rate."""


def controls_of(asked: str | Sequence[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Names of controls, in the document's order.

    A name with a `*` stands for all that fit, and `learning-rates`, where there is none of the name, for
    `learning-rates-*`; no other name stands for those that begin with it.

    Raises:
        DeclarationError: when nothing fits, with near names.
    """
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    wanted: list[str] = []
    for name in names:
        pattern = f"{RATES}-*" if name == RATES and name not in declared else name
        if not (found := [each for each in declared if fnmatch.fnmatchcase(each, pattern.replace("[", "[[]"))]):
            several = [f"{name}-*"] if any(each.startswith(f"{name}-") for each in declared) else []
            names_of("control", name, [*declared, *several])
        wanted += found
    return tuple(name for name in declared if name in wanted)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def seeds_in(text: str) -> tuple[int, ...]:
    """The seeds that a text names.

    Raises:
        DeclarationError: when it names none.

    Examples:
        >>> seeds_in("2"), seeds_in("0,4-6")
        ((2,), (0, 4, 5, 6))
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (end.strip() for end in part.partition("-"))
        if not part.strip():
            continue
        ends = [first, last] if dash else [first]
        if not all(end.isdecimal() and len(end) < 20 for end in ends) or int(ends[-1]) - int(first) >= MOST_SEEDS:
            seeds.clear()
            break
        seeds += range(int(first), int(ends[-1]) + 1)
    if not seeds:
        raise DeclarationError(f"seeds {shortened(text)}: give the seeds by their numbers, such as 2, 0,2 or 0-2")
    return tuple(dict.fromkeys(seeds))


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds that are meant: so many from 0, or these.

    Raises:
        DeclarationError: when it is none, or what is given cannot be a seed.
    """
    chosen = tuple(range(min(seeds, MOST_SEEDS + 1))) if isinstance(seeds, int) else _listed(seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**63 for seed in chosen)
    if not chosen or not whole or len(set(chosen)) < len(chosen) or len(chosen) > MOST_SEEDS:
        raise DeclarationError(
            f"seeds {shortened(repr(seeds))}: give how many (1 to {MOST_SEEDS:,}), or different whole numbers from 0 up"
        )
    return chosen

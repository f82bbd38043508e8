"""Declare: which arms, controls and seeds are meant by what someone asks for."""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any

from headway.declare.document import MOST_SEEDS
from headway.errors import DeclarationError, near


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


def controls_of(asked: str | Sequence[str], declared: Sequence[str]) -> tuple[str, ...]:
    """Names of controls, in the document's order.

    A name with a `*` stands for all that fit, and `learning-rates`, where there is none of the name, for
    `learning-rates-*`.

    Raises:
        DeclarationError: when nothing fits, with near names.
    """
    names = (asked,) if isinstance(asked, str) else tuple(asked)
    wanted: list[str] = []
    for name in names:
        pattern = name if "*" in name or name in declared else f"{name}-*"
        wanted += fnmatch.filter(declared, pattern) or names_of("control", name, declared)
    return tuple(name for name in declared if name in wanted)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds that are meant: so many from 0, or these.

    Raises:
        DeclarationError: when it is none, or what is given cannot be a seed.
    """
    chosen = tuple(range(min(seeds, MOST_SEEDS + 1))) if isinstance(seeds, int) else _listed(seeds)
    whole = all(isinstance(seed, int) and 0 <= seed < 2**63 for seed in chosen)
    if not chosen or not whole or len(set(chosen)) < len(chosen) or len(chosen) > MOST_SEEDS:
        raise DeclarationError(
            f"seeds {seeds!r}: give how many (1 to {MOST_SEEDS:,}), or different whole numbers from 0 up"
        )
    return chosen

"""Contrasts: named questions about differences between arms, or between means of arms.

    contrasts:
      order: descending - ascending                          # two arms
      wide: [wide-*, [narrow-1, narrow-2]]                   # a mean of arms less another; * stands for anything
      dropout: {better: heads-*-dropout, than: heads-?}      # the same, in words
      interaction: {a-new: 1, a-old: -1, b-new: -1, b-old: 1}  # any weights that add up to 0

Contrasts decide only how results are read. They are no part of a run, and may be added later.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from headway.base.text import listed
from headway.errors import near

FORMS = "'one arm - another', [first, second], {better: ..., than: ...} or {arm: weight, ...}"
_SIDES = ("better", "than")
_NAMES = "names"
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A weighted sum of arms whose weights add up to 0.

    In a contrast of two sides the weights above 0 add up to 1, so it is the difference of two means of arms.
    """

    name: str
    label: str
    weights: Mapping[str, float]
    """Weights by arm, none of them 0."""
    sides: tuple[str, str] | None
    """The names of the first and the second side in a sentence; None for a contrast given by weights."""
    titles: tuple[str, str] | None = None
    """The names that the document gives to the sides; None if it gives none."""

    @property
    def first(self) -> Mapping[str, float]:
        """The arms that are added, with weights that add up to as much as those of the subtracted arms."""
        return {arm: weight for arm, weight in self.weights.items() if weight > 0}

    @property
    def second(self) -> Mapping[str, float]:
        """The arms that are subtracted, with the sizes of their weights."""
        return {arm: -weight for arm, weight in self.weights.items() if weight < 0}

    def among(self, arms: Collection[str]) -> "Contrast | None":
        """Return the contrast of the arms that are here; None if nothing is left of one side.

        Sides of equally many arms lose them in pairs, the first with the first, so that like is compared with like. A
        contrast that is given by weights needs all of its arms.

        Examples:
            >>> (order,) = contrasts_of({"order": [["new-1", "new-2"], ["old-1", "old-2"]]},
            ...     ["new-1", "new-2", "old-1", "old-2"])
            >>> dict(order.among(["old-2", "new-2", "new-1"]).weights)
            {'new-2': 1.0, 'old-2': -1.0}
        """
        if self.weights.keys() <= set(arms):
            return self
        if self.sides is None:
            return None
        first, second = list(self.first), list(self.second)
        if len(first) == len(second):
            pairs = [(one, other) for one, other in zip(first, second, strict=True) if one in arms and other in arms]
            first, second = [one for one, _ in pairs], [other for _, other in pairs]
        first, second = [arm for arm in first if arm in arms], [arm for arm in second if arm in arms]
        if not first or not second:
            return None
        weights = dict.fromkeys(first, 1 / len(first)) | dict.fromkeys(second, -1 / len(second))
        return replace(self, weights=MappingProxyType(weights))


def contrasts_of(declared: Mapping[str, Any], arms: Iterable[str]) -> tuple[Contrast, ...]:
    """Return the contrasts of a document.

    Args:
        declared: the contrasts by name, in any of the forms.
        arms: the names of the arms.

    Raises:
        ValueError: if an arm is unknown or stands on both sides; if a side is empty, or weights do not add up to 0; if
            two contrasts ask the same.

    Examples:
        >>> (one,) = contrasts_of({"order": "falling - rising-*"}, ["falling", "rising-1", "rising-2"])
        >>> dict(one.weights), one.sides
        ({'falling': 1.0, 'rising-1': -0.5, 'rising-2': -0.5}, ('falling', 'rising'))
    """
    names = tuple(arms)
    contrasts = tuple(_contrast(name, value, names) for name, value in declared.items())
    for at, later in enumerate(contrasts):
        for earlier in contrasts[:at]:
            if asks_the_same(earlier, later):
                raise ValueError(f"contrasts.{later.name}: it asks the same as contrasts.{earlier.name}; keep one")
    return contrasts


def scheme_contrasts(groups: Sequence[Sequence[tuple[str, str | None]]]) -> dict[str, Any]:
    """Return the contrasts implied by several groups: each scheme of layouts less the constant one.

    Args:
        groups: the arms of each, with their schemes; a group with several arms of a scheme asks nothing of it.

    Examples:
        >>> low, high = ([(f"{s}-{g}", s) for s in ("ascending", "constant")] for g in ("low", "high"))
        >>> scheme_contrasts([low, high])["ascending-constant"]["better"]
        ['ascending-low', 'ascending-high']
    """
    contrasts = {}
    for scheme in ("descending", "ascending"):
        pairs = [(_only(scheme, group), _only(_CONSTANT, group)) for group in groups]
        both = [(one, other) for one, other in pairs if one is not None and other is not None]
        better, than = ([pair[side] for pair in both] for side in (0, 1))
        # Two groups that share an arm have unequal weights.
        if len(both) > 1 and len(set(better)) == len(set(than)) == len(both):
            contrasts[f"{scheme}-{_CONSTANT}"] = {"better": better, "than": than}
    return contrasts


_CONSTANT = "constant"


def _only(scheme: str, group: Sequence[tuple[str, str | None]]) -> str | None:
    arms = [arm for arm, found in group if found == scheme]
    return arms[0] if len(arms) == 1 else None


def _contrast(name: str, value: Any, arms: Sequence[str]) -> Contrast:
    if isinstance(value, str):
        sides = value.split(" - ")
        if len(sides) != 2:
            raise ValueError(
                f"contrasts.{name}: {value!r} was given; write 'one arm - another', with spaces around the dash"
            )
        return _two_sided(name, sides, arms)
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError(f"contrasts.{name}: {len(value)} sides were given; give two (the second is subtracted)")
        return _two_sided(name, value, arms)
    if isinstance(value, Mapping) and any(isinstance(value.get(key), str | list | tuple) for key in _SIDES):
        for key in value:
            if key not in (*_SIDES, _NAMES):
                raise ValueError(f"contrasts.{name}.{key}: there is no such key; {near(str(key), (*_SIDES, _NAMES))}")
        if missing := [key for key in _SIDES if key not in value]:
            raise ValueError(f"contrasts.{name}.{missing[0]}: missing; name the arms of that side")
        contrast = _two_sided(name, [value[key] for key in _SIDES], arms, keys=_SIDES)
        return _titled(contrast, value[_NAMES]) if _NAMES in value else contrast
    if isinstance(value, Mapping):
        return _weighted(name, value, arms)
    raise ValueError(f"contrasts.{name}: {value!r} was given; write it as {FORMS}")


def _two_sided(
    name: str, sides: Sequence[Any], arms: Sequence[str], keys: Sequence[str] = ("first", "second")
) -> Contrast:
    chosen, named_as = [], []
    for key, side in zip(keys, sides, strict=True):
        named = [side] if isinstance(side, str) else side
        if not isinstance(named, list | tuple) or not all(isinstance(pattern, str) for pattern in named):
            raise ValueError(
                f"contrasts.{name}: its side {key!r} is {side!r}; give an arm, a pattern such as wide-*, or a list"
            )
        patterns = [pattern.strip() for pattern in named if pattern.strip()]
        if not patterns:
            raise ValueError(f"contrasts.{name}: its side {key!r} is empty; name an arm, or several")
        chosen.append(list(dict.fromkeys(arm for pattern in patterns for arm in _matching(name, pattern, arms))))
        named_as.append(patterns)
    both = [arm for arm in chosen[0] if arm in chosen[1]]
    if both:
        raise ValueError(f"contrasts.{name}: {', '.join(both)} is on both sides; leave it out of one")
    weights = {arm: sign / len(side) for sign, side in zip((1.0, -1.0), chosen, strict=True) for arm in side}
    first, second = (_said(patterns, arms) for patterns in named_as)
    # A common start names sides that differ in nothing else: `lane-half` against `plain-all` is not lane against plain.
    rests = [[name.removeprefix(said) for name in names] for said, names in zip((first, second), named_as, strict=True)]
    if first == second or (min(map(len, named_as)) > 1 and sorted(rests[0]) != sorted(rests[1])):
        first, second = map(listed, named_as)
    return Contrast(name=name, label=f"{first} - {second}", weights=MappingProxyType(weights), sides=(first, second))


def _titled(contrast: Contrast, names: Any) -> Contrast:
    """Return a contrast whose sides have the names that a document gives them."""
    is_pair = isinstance(names, list | tuple) and len(names) == 2 and all(isinstance(name, str) for name in names)
    if not is_pair or not all(names) or names[0] == names[1]:
        raise ValueError(
            f"contrasts.{contrast.name}.{_NAMES}: {names!r} was given; give two names, [first side, second side]"
        )
    first, second = names
    return replace(contrast, label=f"{first} - {second}", titles=(first, second))


def _weighted(name: str, value: Mapping[Any, Any], arms: Sequence[str]) -> Contrast:
    weights: dict[str, float] = {}
    for pattern, weight in value.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise ValueError(f"contrasts.{name}.{pattern}: {weight!r} was given; a weight is a number")
        matching = _matching(name, str(pattern), arms)
        for arm in matching:
            if arm in weights:
                raise ValueError(f"contrasts.{name}: {arm} has two weights; give it one")
            weights[arm] = weight / len(matching)
    weights = {arm: weight for arm, weight in weights.items() if weight}
    total = math.fsum(weights.values())
    if not weights:
        raise ValueError(f"contrasts.{name}: no arm has a weight that is not 0; write it as {FORMS}")
    if abs(total) > _ROUNDING * max(map(abs, weights.values())):
        raise ValueError(f"contrasts.{name}: its weights add up to {total:g}; the weights of a contrast add up to 0")
    return Contrast(name=name, label=name, weights=MappingProxyType(weights), sides=None)


def _matching(name: str, pattern: str, arms: Sequence[str]) -> list[str]:
    """Return the arms of a name, or of a pattern with `*` or `?`."""
    if pattern in arms:
        return [pattern]
    matching = [arm for arm in arms if fnmatchcase(arm, pattern)] if set(pattern) & set("*?") else []
    if not matching:
        what = "no arm fits" if set(pattern) & set("*?") else "there is no arm"
        raise ValueError(f"contrasts.{name}: {what} {pattern!r}; {near(pattern, arms)}")
    return matching


def _said(patterns: Sequence[str], arms: Sequence[str] = ()) -> str:
    """Return the common start of a side's names up to a dash, or else all names; never another arm's name.

    Examples:
        >>> _said(["rising-low", "rising-high"]), _said(["a", "b", "c"]), _said(["wide-*"]), _said(["*-wide-?"])
        ('rising', 'a, b and c', 'wide', 'the mean of *-wide-?')
    """
    if len(patterns) == 1:
        (pattern,) = patterns
        if pattern in arms or not set(pattern) & set("*?"):
            return pattern
        stem = re.sub(r"^\*-|-\*$", "", pattern)
        return stem if stem not in arms and not set(stem) & set("*?") else f"the mean of {pattern}"
    words = [pattern.split("-") for pattern in patterns]
    shared = []
    for parts in zip(*words, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "-".join(shared) or listed(patterns)


def asks_the_same(one: Contrast, other: Contrast) -> bool:
    """Return whether one contrast is a multiple of the other; the factor may be below 0."""
    if one.weights.keys() != other.weights.keys():
        return False
    factors = [other.weights[arm] / weight for arm, weight in one.weights.items()]
    return max(factors) - min(factors) <= _ROUNDING * max(map(abs, factors))

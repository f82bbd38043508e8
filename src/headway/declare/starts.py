"""Declare: which arm each arm of a document starts from; what it does to it is its laboratory's affair."""

from collections.abc import Mapping
from typing import Any

from headway.errors import near, shortened
from headway.words import listed

LONGEST_LINE = 100
"""Each waits for the one before it, so nobody means more."""


def starts_of(arms: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str | None]:
    """The arm that each arm starts from, None where it starts from nothing; those that others need come first.

    Raises:
        ValueError: for an arm that is missing, arms that start from one another, and a line of too many.

    Examples:
        >>> starts_of({"small": {"start": {"arm": "dense"}}, "dense": None})
        {'dense': None, 'small': 'dense'}
    """
    parents = {name: _parent(name, (arm or {}).get("start"), arms) for name, arm in arms.items()}
    ordered: dict[str, str | None] = {}
    for name in parents:
        line = [name]
        while (parent := parents[line[-1]]) is not None:
            if parent in line:
                circle = [*line[line.index(parent) :], parent]
                raise ValueError(
                    f"arms.{name}.start.arm: {', which starts from '.join(circle)}: no run would be the first; let one "
                    "of them start from the beginning"
                )
            line.append(parent)
            if len(line) > LONGEST_LINE:
                raise ValueError(
                    f"arms.{name}.start.arm: more than {LONGEST_LINE} arms start from one another in a line; let "
                    "one of them start from the beginning"
                )
        ordered |= {each: parents[each] for each in reversed(line)}
    return ordered


def _parent(name: str, start: Any, arms: Mapping[str, Any]) -> str | None:
    if start is None:
        return None
    at = f"arms.{name}.start"
    if not isinstance(start, Mapping):
        raise ValueError(
            f"{at}: {shortened(repr(start))} was given; it is a mapping, such as {{arm: {next(iter(arms))}}}"
        )
    for key in ("seed", "seeds"):
        if key in start:
            raise ValueError(
                f"{at}.{key}: a run starts from the run of its own seed, so that arms stay pairs; leave it out"
            )
    if "run" in start:
        raise ValueError(f"{at}.run: the run is that of an arm and of the same seed; name the arm, as {at}.arm")
    if "arm" not in start:
        raise ValueError(f"{at}.arm: missing; name the arm whose runs it starts from: {listed(list(arms)[:5])}")
    parent = start["arm"]
    if not isinstance(parent, str) or parent not in arms:
        raise ValueError(f"{at}.arm: there is no arm {shortened(repr(parent))}; {near(str(parent), arms)}")
    return parent

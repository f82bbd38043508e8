"""Heads: the ways of taking a head away, and what a head is called. Numpy alone, as `heads.scores`."""

from typing import Literal, get_args

Kind = Literal["zero", "mean", "resample"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a head's context becomes: zero, its mean over another text, or what it is on a sequence of another text."""

MeanOver = Literal["positions", "per-position"]
"""positions: over positions and sequences of the other text; per-position: over its sequences, each position apart."""

Head = tuple[int, int]
"""Layer and head, from 0."""


def named(head: Head) -> str:
    """What sentences call a head.

    Examples:
        >>> named((3, 7))
        'L3H7'
    """
    layer, number = head
    return f"L{layer}H{number}"

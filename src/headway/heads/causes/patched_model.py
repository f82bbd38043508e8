"""Heads: what patching showed of a finished model on pairs of texts, with the patterns of the heads on which it rests.

Numpy alone, as `heads.scores`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from headway.heads.causes.kinds import Head, named
from headway.heads.causes.patched import Patching, Through
from headway.heads.findings import Finding
from headway.heads.model_on_text import ModelOnText
from headway.heads.scores_json import five_digits
from headway.words import counted

_INTO = {"q": "queries", "k": "keys", "v": "values"}


@dataclass(frozen=True, kw_only=True)
class HeadPattern:
    """Where a head looks on both texts of the first pair."""

    head: Head
    clean: Float[np.ndarray, "query key"]
    corrupted: Float[np.ndarray, "query key"]


@dataclass(frozen=True, kw_only=True)
class StrongestPath:
    """The direct path between two heads that changes the metric most."""

    writer: Head
    reader: Head
    through: Through
    change: float

    @property
    def sentence(self) -> str:
        """In words."""
        return (
            f"the strongest direct path between heads: {named(self.writer)} into the {_INTO[self.through]} of "
            f"{named(self.reader)} changes the metric by {self.change:.3g}".replace("-", "−")
        )


@dataclass(frozen=True, kw_only=True)
class PatchedModel(ModelOnText):
    """A model on clean texts, and on corrupted ones into which its heads are put back one by one.

    Attributes:
        metric: what is asked about, in words.
        clean: the tokens of the clean text of the first pair, as written.
        corrupted: those of the corrupted one.
        positions: what each position is called over all pairs.
        patching: all that patching showed.
        patterns: of the heads of the strongest path, or where none was asked for of the head that restores most.
    """

    nothing: ClassVar[str] = "the two texts do not differ for this metric"

    metric: str
    clean: tuple[str, ...]
    corrupted: tuple[str, ...]
    positions: tuple[str, ...]
    patching: Patching
    patterns: tuple[HeadPattern, ...]

    @property
    def read(self) -> str:
        """How much of which texts was read, in words."""
        pairs, most = counted(self.n_sequences // 2, "pair"), "at most " if self.n_sequences > 2 else ""
        return f"{pairs} of texts of {most}{self.length:,} tokens, {self.n_tokens:,} tokens in all: {self.text}"

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The metric on both texts, which heads restore it, and by which path."""
        found = [Finding(about="patching", sentence=sentence) for sentence in self.patching.sentences]
        path = strongest_path(self.patching) if self.patching.differs else None
        return (*found, *([] if path is None else [Finding(about="paths", sentence=path.sentence)]))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, numbers to five digits."""
        return {
            "schema": 1,
            **super().to_json(),
            "metric": self.metric,
            "tokens": {"clean": list(self.clean), "corrupted": list(self.corrupted)},
            "patching": self.patching.to_json(),
            "patterns": [
                {
                    "head": named(each.head),
                    "clean": five_digits(each.clean),
                    "corrupted": five_digits(each.corrupted),
                }
                for each in self.patterns
            ],
            "findings": [vars(finding) for finding in self.findings],
            "notes": list(self.notes),
        }


def strongest_path(patching: Patching) -> StrongestPath | None:
    """Of all pairs of heads and inputs; None where none was measured, or there is no later head."""
    paths = patching.paths
    if paths is None:
        return None
    best: StrongestPath | None = None
    for through, changes in paths.through.items():
        if not np.isfinite(changes).any():
            continue
        row, column = np.unravel_index(np.nanargmax(np.abs(changes)), changes.shape)
        change = float(changes[row, column])
        if best is None or abs(change) > abs(best.change):
            best = StrongestPath(
                writer=paths.heads[int(row)], reader=paths.heads[int(column)], through=through, change=change
            )
    return best

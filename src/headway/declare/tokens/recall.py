"""Declare: multi-query associative recall: values of keys that were given once.

Paper: Arora et al. 2023 (Zoology, arXiv 2312.04927): two attention layers of one head recall all pairs, one layer stays
at chance. Heads were never varied there. There, keys are asked at places drawn from a power law; here at places that
are all alike likely, in the order of their draw.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headway import streams
from headway.declare.tokens.known import KnownTask

_DRAWS = 10_000
"""Of values, in which the most frequent is counted."""


class RecallTask(KnownTask):
    """The value that was given with a key."""

    examples: ClassVar[str] = "headway.data.tokens.recall.open_examples"

    kind: Literal["recall"]
    pairs: Annotated[int, Field(gt=0, le=10_000)] = Field(4, description="keys with values at the beginning")
    length: Annotated[int, Field(gt=2, le=100_000)] = Field(64, description="tokens: pairs, then keys among fillers")
    vocabulary: Annotated[int, Field(ge=4, le=1_000_000)] = Field(
        8192, description="tokens: 0 is the filler, of the others the first half are keys, the second half values"
    )

    @model_validator(mode="after")
    def _has_room(self) -> "RecallTask":
        if self.length < 3 * self.pairs:
            raise ValueError(
                f"length {self.length} has no room for {self.pairs} pairs and their keys once more; give "
                f"{3 * self.pairs} or more"
            )
        if self.pairs > self.vocabulary // 2 - 1:
            raise ValueError(
                f"pairs {self.pairs}: {self.vocabulary} tokens have {self.vocabulary // 2 - 1} keys; give a larger "
                "vocabulary"
            )
        return self

    @property
    def n_ctx(self) -> int:
        """All tokens."""
        return self.length

    @property
    def vocab_size(self) -> int:
        """Fillers, keys and values."""
        return self.vocabulary

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"recall of {self.pairs} pairs"

    def by_chance(self) -> float:
        """Of one that says the value that was given most often: a little more than one of the pairs.

        Examples:
            >>> round(RecallTask(kind="recall", pairs=4, length=24, vocabulary=64).by_chance(), 2)
            0.29
        """
        values = self.vocabulary - self.vocabulary // 2
        drawn = streams.generator(0, "recall by chance").integers(values, size=(_DRAWS, self.pairs))
        rows = np.arange(_DRAWS)[:, None] * values + drawn
        _, first, times = np.unique(rows, return_index=True, return_counts=True)
        most = np.zeros(_DRAWS, np.int64)
        np.maximum.at(most, first // self.pairs, times)
        return float(most.mean() / self.pairs)

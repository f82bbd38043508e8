"""Declare: multi-query associative recall: values of keys that were given once.

Paper: Arora et al. 2023 (Zoology, arXiv 2312.04927): two attention layers of one head recall all pairs, one layer stays
at chance. Heads were never varied there. There, keys are asked at places drawn from a power law; here at places that
are all alike likely, in the order of their draw.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headway.declare.tokens.known import KnownTask


class RecallTask(KnownTask):
    """The value that was given with a key."""

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

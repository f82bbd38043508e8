"""Declare: k hops of induction: depth, heads and width taken apart.

Paper: Sanford, Hsu and Telgarsky 2024, arXiv 2402.09268. One hop from a position goes to the latest earlier occurrence
of its letter, and on to the position after it; the answer of k hops is the letter there, or "none" where a hop finds
nothing. No letter follows itself; the first token says k; every position is asked. Depth log2 k + 2 suffices.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headway.declare.tokens.known import KnownTask


class HopsTask(KnownTask):
    """The letter that k hops end at, from every position."""

    primary: ClassVar[str] = "accuracy"
    examples: ClassVar[str] = "headway.data.tokens.hops.open_examples"

    kind: Literal["hops"]
    letters: Annotated[int, Field(ge=2, le=10_000)] = Field(4, description="letters")
    length: Annotated[int, Field(gt=1, le=100_000)] = Field(
        99, description="letters of a sequence; k stands before them"
    )
    hops: Annotated[int, Field(ge=0, le=10_000)] = Field(16, description="the most hops; k is drawn from 0 to it")

    @property
    def n_ctx(self) -> int:
        """K and the letters."""
        return self.length + 1

    @property
    def vocab_size(self) -> int:
        """The letters, and a token for each k."""
        return self.letters + self.hops + 1

    @property
    def n_answers(self) -> int:
        """A letter, or none."""
        return self.letters + 1

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"up to {self.hops} hops"

"""Declare: what followed the last time: two layers do it, one layer only where keys are smeared.

Paper: Olsson et al. 2022, arXiv 2209.11895. There, random tokens are repeated; here every position whose letter stood
earlier is asked for the letter after its latest occurrence, so that no fixed distance helps.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headway.declare.tokens.known import KnownTask


class InductionTask(KnownTask):
    """The letter that followed the latest earlier occurrence of the present one."""

    examples: ClassVar[str] = "headway.data.tokens.induction.open_examples"

    kind: Literal["induction"]
    letters: Annotated[int, Field(ge=2, le=100_000)] = Field(16, description="letters; none follows itself")
    length: Annotated[int, Field(gt=1, le=100_000)] = Field(64, description="letters of a sequence")

    @property
    def n_ctx(self) -> int:
        """The letters."""
        return self.length

    @property
    def vocab_size(self) -> int:
        """The letters."""
        return self.letters

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"induction over {self.letters} letters"

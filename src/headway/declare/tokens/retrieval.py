"""Declare: several maxima at once: a head for each of the things to be found.

Paper: "The Effect of Attention Head Count on Transformer Approximation", ICLR 2026, arXiv 2510.06662; read in notes
about it, not in the paper itself. y is the sum over i of the largest a_i . x_t. One layer of attention without residual
stream, an MLP for each input before it and one after it, the answer read at a class token. What is possible is not
known exactly: the theorem bounds sizes, and that layers times heads have to reach the number of things is a conjecture.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headway.declare.tokens.known import KnownTask
from headway.declare.tokens.transformer import TransformerModel


class RetrievalTask(KnownTask):
    """The sum of the largest projections of the inputs on some directions; the error is told over the variance."""

    primary: ClassVar[str] = "nmse"
    loss: ClassVar[str] = "mse"
    asked_last: ClassVar[int] = 1
    examples: ClassVar[str] = "headway.data.tokens.retrieval.open_examples"

    kind: Literal["retrieval"]
    targets: Annotated[int, Field(gt=0, le=1_000)] = Field(
        description="directions whose largest projections are summed"
    )
    length: Annotated[int, Field(gt=0, le=10_000)] = Field(16, description="inputs; the class token follows them")
    d_x: Annotated[int, Field(gt=0, le=1_000)] = Field(4, description="numbers of an input, each N(0, 1)")

    @property
    def n_ctx(self) -> int:
        """The inputs and the class token."""
        return self.length + 1

    @property
    def vocab_size(self) -> int:
        """Numbers of an input."""
        return self.d_x

    @property
    def n_answers(self) -> int:
        """One number."""
        return 1

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"retrieval of {self.targets} maxima"

    def check_model(self, model: TransformerModel) -> None:
        """It reads numbers, and answers with one at a class token.

        Raises:
            ValueError: naming what is missing.
        """
        wanted = {"encoder": model.encoder is not None, "class_token": model.class_token, "readout": model.readout == 1}
        if missing := [name for name, is_there in wanted.items() if not is_there]:
            raise ValueError(
                "task.kind retrieval reads numbers and answers with one: it needs a model with "
                f"{' and '.join(missing)}; set encoder to a width, class_token to true and readout to 1"
            )

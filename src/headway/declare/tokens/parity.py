"""Declare: the parity of n bits, which one layer of attention has if and only if it has n heads.

Paper: Rajaraman, Sundaram and Tesfaye 2026, arXiv 2609.04046: one attention-only layer, the answer read at a query
token after the bits as the larger of two logits. It is possible exactly with n heads or more, at any width and
precision; with joint embeddings of bit and position, and so with additive ones too. With an MLP the bound is gone.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headway.declare.tokens.known import KnownTask, is_one_attention
from headway.declare.tokens.transformer import TransformerModel


class ParityTask(KnownTask):
    """Whether the number of ones among n bits is odd."""

    asked_last: ClassVar[int] = 1
    examples: ClassVar[str] = "headway.data.tokens.parity.open_examples"

    kind: Literal["parity"]
    n_bits: Annotated[int, Field(ge=1, le=16)] = Field(description="bits of an input; a query token follows them")

    @property
    def n_inputs(self) -> int:
        """Every row of bits."""
        return 2**self.n_bits

    @property
    def n_ctx(self) -> int:
        """The bits and the query."""
        return self.n_bits + 1

    @property
    def vocab_size(self) -> int:
        """0, 1 and the query."""
        return 3

    @property
    def n_answers(self) -> int:
        """Even and odd."""
        return 2

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"{self.n_bits}-bit parity"

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:
        """One layer of fewer heads than bits misses an input or more.

        Examples:
            >>> from headway.declare.tokens.transformer import Gpt2
            >>> task = ParityTask(kind="parity", n_bits=3)
            >>> one = dict(family="gpt-2", d_model=16, n_layers=1, mlp="none", norm="none")
            >>> [dict(task.best_possible(Gpt2(n_heads=heads, **one))) for heads in (2, 4)]
            [{'accuracy': 0.875, 'solved': 0.0}, {'accuracy': 1.0, 'solved': 1.0}]
        """
        if not is_one_attention(model):
            return super().best_possible(model)
        accuracy = 1.0 if model.layout.total >= self.n_bits else 1 - 1 / self.n_inputs
        return {"accuracy": accuracy, "solved": float(self.is_solved(accuracy))}

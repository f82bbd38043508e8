"""Declare: which model is trained.

The in-context laboratory's models: `icl` is one attention layer with full-width heads and nothing else;
`icl-stack` is a causal stack of such layers with a final linear map.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734.
"""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from headway.declare.spec import Spec

Init = Literal["random", "small_id", "small_id_qk", "oppo_small_id"]
Attention = Literal["softmax", "linear-mean", "linear-sum"]


class InContextModel(Spec):
    """What one-layer models and stacks share."""

    attention: Attention = Field(
        "softmax", description="softmax, or linear attention divided by the number of keys (mean) or not (sum)"
    )
    n_heads: PositiveInt = Field(description="heads in each layer, every one as wide as a token")
    bias: bool = Field(False, description="biases on Q, K, V and O")
    init: Init = Field("random", description="initial weights")

    @model_validator(mode="after")
    def _halves(self) -> "InContextModel":
        if self.init == "oppo_small_id" and self.n_heads % 2:
            raise ValueError(
                f"init oppo_small_id gives the two halves of the heads opposite signs, but n_heads is {self.n_heads}, "
                f"which is odd; take {self.n_heads + 1} heads, or another init"
            )
        return self


class OneLayer(InContextModel):
    """One layer: the sum over heads of O_h V_h Z softmax(Z^T K_h^T Q_h z_q / sqrt(d_x + d_y))."""

    family: Literal["icl"]
    n_out: PositiveInt | None = Field(
        None, description="rows of O: the number of outputs; null: a whole token, of which the y part is read"
    )


class Stack(InContextModel):
    """Causal layers over (z_1, ..., z_L, z_q) and a final linear map to the outputs."""

    family: Literal["icl-stack"]
    n_layers: PositiveInt = Field(description="layers")
    tied: bool = Field(False, description="whether all layers share their weights")
    residual: bool = Field(False, description="whether a layer's output is added to its input")
    attend_self: bool = Field(False, description="whether a position sees itself; a row that sees nothing gives 0")


IclModel = Annotated[OneLayer | Stack, Field(discriminator="family")]

"""Declare: what is done to a trained model beside judging it."""

from typing import Annotated, Literal

from pydantic import Field

from headway.declare.spec import Spec


class AblateHeads(Spec):
    """Every head of the trained model is taken away in three ways; the effects are final metrics and an atlas's."""

    sequences: Annotated[int, Field(ge=2)] = Field(
        32, description="held-out sequences whose loss is measured; as many others stand in for heads"
    )
    mean: Literal["positions", "per-position"] = Field(
        "positions", description="what the mean context of a head is over: positions and sequences, or sequences"
    )


class AfterTraining(Spec):
    """What is done to the trained model; nothing by default."""

    ablate: AblateHeads | None = Field(None, description="what the loss does without each head; null: it is not asked")

"""Declare: on what a model is judged, and what it is made to write."""

from pydantic import Field, PositiveInt

from headway.declare.spec import Spec

PROMPT = "Once upon a time there was"
"""Where nobody asks for another; a tokenizer that makes nothing of it begins a text with none."""


class TokensEvaluation(Spec):
    """The fixed held-out sequences a model is judged on; they depend on the task alone."""

    every: PositiveInt = Field(1_000, description="steps between evaluations during training")
    sequences_during: PositiveInt = Field(64, description="sequences of an evaluation during training")
    sequences: PositiveInt | None = Field(None, description="sequences of the final evaluation; null: all held out")


class Samples(Spec):
    """What a model is made to write before and after training."""

    prompt: str = Field(PROMPT, description="how the text begins; token ids of no known text begin with none")
    tokens: PositiveInt = Field(500, description="tokens that are written, within the model's longest context")
    temperature: float = Field(0.9, ge=0, description="divides the logits; 0: always the likeliest token")
    top_k: PositiveInt | None = Field(None, description="only the k likeliest tokens; null: all")
    top_p: float | None = Field(None, gt=0, le=1, description="only the likeliest tokens of this joint probability")
    count: PositiveInt = Field(1, description="texts")

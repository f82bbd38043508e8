"""Declare: how a model is trained.

The optimizers follow torch.optim of the same name, term by term.
"""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from headway.declare.spec import Spec


class Training(Spec):
    """What every optimizer needs."""

    steps: PositiveInt = Field(description="optimizer steps")
    batch_size: PositiveInt = Field(description="examples in a step")
    learning_rate: float = Field(gt=0, description="step size")


class Sgd(Training):
    """Stochastic gradient descent."""

    optimizer: Literal["sgd"]
    momentum: float = Field(0.0, ge=0, lt=1, description="share of the previous update that is kept")
    weight_decay: float = Field(0.0, ge=0, description="added to the gradient: this times the weight")


class _Adaptive(Training):
    betas: tuple[float, float] = Field((0.9, 0.999), description="decay of the mean gradient and of its mean square")
    eps: float = Field(1e-8, gt=0, description="added to the root of the mean square")

    @model_validator(mode="after")
    def _betas_below_one(self) -> "_Adaptive":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas {list(self.betas)} must lie in [0, 1); the usual ones are [0.9, 0.999]")
        return self


class Adam(_Adaptive):
    """Adam (Kingma and Ba 2015, arXiv 1412.6980)."""

    optimizer: Literal["adam"]
    weight_decay: float = Field(0.0, ge=0, description="added to the gradient: this times the weight")


class AdamW(_Adaptive):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

    optimizer: Literal["adamw"]
    weight_decay: float = Field(0.01, ge=0, description="weights shrink by this times the learning rate each step")


TrainingSpec = Annotated[Sgd | Adam | AdamW, Field(discriminator="optimizer")]


class _TextTraining(Spec):
    """What the training of a language model needs; its length is given in one of three units."""

    steps: PositiveInt | None = Field(None, description="optimizer steps; or give tokens, or epochs")
    tokens: PositiveInt | None = Field(None, description="tokens that are trained on")
    epochs: float | None = Field(None, gt=0, description="passes over the corpus")
    batch_size: PositiveInt = Field(description="sequences in an optimizer step")
    accumulate: PositiveInt = Field(1, description="equal parts of a batch whose gradients are summed, to save memory")
    learning_rate: float = Field(gt=0, description="step size at its highest")
    warmup_steps: NonNegativeInt = Field(0, description="steps over which the step size rises from 0")
    decay: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="how the step size falls after that, to 0 at the last step"
    )
    clip: float | None = Field(1.0, gt=0, description="largest norm of the gradient; null: not clipped")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of matrix products; weights stay fp32")
    betas: tuple[float, float] = Field((0.9, 0.999), description="decay of the mean gradient and of its mean square")
    eps: float = Field(1e-8, gt=0, description="added to the root of the mean square")
    weight_decay: float = Field(0.0, ge=0, description="matrices shrink by this times the learning rate each step")

    @model_validator(mode="after")
    def _length_and_parts(self) -> "_TextTraining":
        given = [name for name in ("steps", "tokens", "epochs") if getattr(self, name) is not None]
        if len(given) != 1:
            said = "none was given" if not given else f"{' and '.join(given)} were given"
            raise ValueError(f"the length of training is given by one of steps, tokens and epochs; {said}")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"accumulate {self.accumulate} does not divide batch_size {self.batch_size}; "
                "the parts of a batch are equal"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas {list(self.betas)} must lie in [0, 1); the usual ones are [0.9, 0.999]")
        return self


class TextAdamW(_TextTraining):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

    optimizer: Literal["adamw"]


class Muon(_TextTraining):
    """Muon for the matrices of the blocks, AdamW for all else (Jordan et al. 2024)."""

    optimizer: Literal["muon"]
    momentum: float = Field(0.95, ge=0, lt=1, description="share of the previous direction that is kept")
    adamw_learning_rate: float = Field(gt=0, description="highest step size of what AdamW trains")


TextTraining = Annotated[TextAdamW | Muon, Field(discriminator="optimizer")]

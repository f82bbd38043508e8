"""Declare: how an in-context model is trained.

The optimizers follow torch.optim of the same name, term by term.
"""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from headway.declare.run import Training


class IclTraining(Training):
    """What every optimizer needs."""

    steps: PositiveInt = Field(description="optimizer steps")
    batch_size: PositiveInt = Field(description="examples in a step")
    learning_rate: float = Field(gt=0, description="step size")


class Sgd(IclTraining):
    """Stochastic gradient descent."""

    optimizer: Literal["sgd"]
    momentum: float = Field(0.0, ge=0, lt=1, description="share of the previous update that is kept")
    weight_decay: float = Field(0.0, ge=0, description="added to the gradient: this times the weight")


class _Adaptive(IclTraining):
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

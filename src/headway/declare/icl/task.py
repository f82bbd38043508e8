"""Declare: what a model is asked to do, and on what it is judged.

In-context linear regression: a prompt is `n_pairs` pairs (x_i, y_i) and a query x_q, with
y = beta . x + noise; the model predicts y_q. Each prompt draws its own beta.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734.
"""

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from headway.declare.run import Task
from headway.declare.spec import Spec


class Identity(Spec):
    """x ~ N(0, I)."""

    kind: Literal["identity"]


class Power(Spec):
    """x ~ N(0, Sigma) with Sigma_ij = rho^|i - j|."""

    kind: Literal["power"]
    rho: float = Field(description="correlation of neighbouring coordinates of x, between -1 and 1")

    @model_validator(mode="after")
    def _positive_definite(self) -> "Power":
        if not -1 < self.rho < 1:
            raise ValueError(
                f"rho {self.rho} makes the covariance of x singular or indefinite; give a number between -1 and 1"
            )
        return self


class Matrix(Spec):
    """x ~ N(0, Sigma) with Sigma given row by row."""

    kind: Literal["matrix"]
    rows: tuple[tuple[float, ...], ...] = Field(description="the covariance matrix of x, row by row")

    @model_validator(mode="after")
    def _positive_definite(self) -> "Matrix":
        n = len(self.rows)
        if n == 0 or any(len(row) != n for row in self.rows):
            raise ValueError(
                f"rows of lengths {[len(r) for r in self.rows]} are no square matrix; give d_x rows of d_x"
            )
        sigma = np.array(self.rows)
        if not np.allclose(sigma, sigma.T):
            raise ValueError("the covariance matrix is not symmetric; make entry (i, j) equal entry (j, i)")
        smallest, largest = np.linalg.eigvalsh(sigma)[[0, -1]]
        if smallest <= 1e-6 * abs(largest):
            raise ValueError(
                f"the covariance matrix is singular or indefinite (smallest eigenvalue {smallest:.3g}); "
                "drop a redundant coordinate or add to the diagonal"
            )
        return self


Covariance = Annotated[Identity | Power | Matrix, Field(discriminator="kind")]


class RegressionTask(Task):
    """In-context linear regression."""

    primary: ClassVar[str] = "eval_mse"

    kind: Literal["regression"]
    d_x: PositiveInt = Field(description="coordinates of x (d in the paper)")
    d_y: PositiveInt = Field(1, description="outputs: tasks that are solved at once")
    n_pairs: PositiveInt = Field(description="pairs in a training prompt (L in the paper)")
    beta_variance: Annotated[float, Field(gt=0)] | Literal["1/d_x"] = Field(
        1.0, description="variance of each coordinate of beta: a number, or `1/d_x`"
    )
    noise_variance: float = Field(0.0, ge=0, description="variance of the noise on y")
    noisy_query: bool = Field(False, description="whether the y to be predicted carries noise too")
    covariance: Covariance = Field(Identity(kind="identity"), description="covariance of x")
    reads: tuple[tuple[Annotated[int, Field(ge=0)], ...], ...] | None = Field(
        None, description="the coordinates of x that each output depends on; null: all of them"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "RegressionTask":
        if isinstance(self.covariance, Matrix) and len(self.covariance.rows) != self.d_x:
            raise ValueError(f"covariance has {len(self.covariance.rows)} rows but d_x is {self.d_x}; make them equal")
        if self.reads is not None:
            if len(self.reads) != self.d_y:
                raise ValueError(
                    f"reads names coordinates for {len(self.reads)} outputs but d_y is {self.d_y}; give d_y lists"
                )
            for coordinates in self.reads:
                if not coordinates or len(set(coordinates)) < len(coordinates) or max(coordinates) >= self.d_x:
                    raise ValueError(
                        f"reads {list(coordinates)} must name one or more different coordinates "
                        f"from 0 to d_x - 1 = {self.d_x - 1}"
                    )
        return self

    @property
    def d_token(self) -> int:
        """Width of a token z = (x, y): d_x + d_y."""
        return self.d_x + self.d_y

    @property
    def variance_of_beta(self) -> float:
        """`beta_variance` as a number."""
        return 1.0 / self.d_x if self.beta_variance == "1/d_x" else float(self.beta_variance)

    def covariance_matrix(self) -> np.ndarray:
        """Sigma as (d_x, d_x) float64."""
        if isinstance(self.covariance, Power):
            index = np.arange(self.d_x)
            return self.covariance.rho ** np.abs(index[:, None] - index)
        if isinstance(self.covariance, Matrix):
            return np.array(self.covariance.rows, dtype=float)
        return np.eye(self.d_x)

    def read_mask(self) -> np.ndarray:
        """(d_y, d_x) booleans: whether output k depends on coordinate j."""
        mask = np.ones((self.d_y, self.d_x), dtype=bool)
        if self.reads is not None:
            for row, coordinates in zip(mask, self.reads, strict=True):
                row[:] = False
                row[list(coordinates)] = True
        return mask


class LengthCurve(Spec):
    """Error against prompt length, on prompts that every run shares."""

    prompts: PositiveInt = Field(10_000, description="prompts it is averaged over")
    longest: PositiveInt = Field(500, le=1_000_000, description="longest prompt, in pairs")
    lengths: PositiveInt = Field(
        40, le=1_000, description="about how many lengths from 1 to the longest, evenly on a log scale"
    )
    resamples: PositiveInt = Field(200, description="bootstrap resamples of the prompts, for the intervals")

    def grid(self, n_pairs: int) -> tuple[int, ...]:
        """The prompt lengths, in pairs: distinct, ascending, from 1 to `longest`, the task's own among them."""
        points = [round(self.longest ** (i / max(1, self.lengths - 1))) for i in range(self.lengths)]
        dense = sorted({1, *points, self.longest, min(n_pairs, self.longest)})
        # A log grid repeats its first integers; fill up with the integers that it skips.
        missing = (n for n in range(1, math.ceil(self.longest) + 1) if n not in set(dense))
        while len(dense) < min(self.lengths, self.longest):
            dense.append(next(missing))
        return tuple(sorted(dense))


class PromptEvaluation(Spec):
    """The fixed prompts a regression run is judged on; they depend on the task alone."""

    every: PositiveInt = Field(1_000, description="steps between evaluations during training")
    prompts_during: PositiveInt = Field(500, description="prompts of an evaluation during training")
    prompts: PositiveInt = Field(100_000, description="prompts of the final evaluation, at the training length")
    curve: LengthCurve | None = Field(LengthCurve(), description="error against prompt length; null: not measured")


class CircuitProbes(Spec):
    """When the circuits of an in-context model are measured."""

    every: PositiveInt = Field(1_000, description="steps between records of w and mu of each head")
    circuits: tuple[PositiveInt, ...] = Field(
        (1, 1_000, 10_000, 100_000, 500_000), description="steps at which QK and OV of each head are kept whole"
    )

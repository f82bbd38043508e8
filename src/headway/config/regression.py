"""In-context linear regression: its task, models, training, cost and runs.

A prompt is `n_pairs` pairs (x_i, y_i) and a query x_q, with y = beta . x + noise; the model predicts y_q. Each prompt
draws its own beta. The model `icl` is one attention layer with full-width heads and nothing else; `icl-stack` is a
causal stack of such layers with a final linear map. The optimizers follow torch.optim of the same name, term by term.
Costs are counted as `run.Budget` defines them.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734.
"""

from functools import cached_property
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from headway.config.run import Budget, RunSpec, Task, Training, Traits
from headway.config.spec import BelowOne, Betas, Spec, check_numbers, whole


class Identity(Spec):
    """x ~ N(0, I)."""

    kind: Literal["identity"]


class Power(Spec):
    """x ~ N(0, Sigma) with Sigma_ij = rho^|i - j|."""

    kind: Literal["power"]
    rho: float
    """correlation of neighbouring coordinates of x, between -1 and 1"""

    @whole
    def _check_whole(self) -> None:
        if not -1 < self.rho < 1:
            raise ValueError(
                f"rho {self.rho} makes the covariance of x singular or indefinite; give a number between -1 and 1"
            )


class Matrix(Spec):
    """x ~ N(0, Sigma) with Sigma given row by row."""

    kind: Literal["matrix"]
    rows: tuple[tuple[float, ...], ...]
    """the covariance matrix of x, row by row"""

    @whole
    def _check_whole(self) -> None:
        n = len(self.rows)
        if n == 0 or any(len(row) != n for row in self.rows):
            raise ValueError(f"rows of lengths {list(map(len, self.rows))} form no square matrix; give d_x rows of d_x")
        sigma = np.array(self.rows)
        if not np.allclose(sigma, sigma.T):
            raise ValueError("the covariance matrix is not symmetric; make entry (i, j) equal entry (j, i)")
        smallest, largest = np.linalg.eigvalsh(sigma)[[0, -1]]
        if smallest <= 1e-6 * abs(largest):
            raise ValueError(
                f"the covariance matrix is singular or indefinite (smallest eigenvalue {smallest:.3g}); "
                "drop a redundant coordinate or add to the diagonal"
            )


Covariance = Annotated[Identity | Power | Matrix, Field(discriminator="kind")]


class RegressionTask(Task):
    """The task of in-context linear regression (He et al. 2025, arXiv 2503.12734)."""

    primary: ClassVar[str] = "eval_mse"
    n_ctx: ClassVar[None] = None

    kind: Literal["regression"]
    d_x: PositiveInt
    """number of coordinates of x (d in the paper)"""
    d_y: PositiveInt = 1
    """number of outputs; each output is a regression task, and one model solves all tasks"""
    n_pairs: PositiveInt
    """number of pairs (x, y) in a training prompt (L in the paper)"""
    beta_variance: PositiveFloat | Literal["1/d_x"] = 1.0
    """variance of each regression coefficient (beta): a number, or `1/d_x`"""
    noise_variance: NonNegativeFloat = 0.0
    """variance of the noise on y"""
    noisy_query: bool = False
    """whether the target y also has noise"""
    covariance: Covariance = Identity(kind="identity")
    """covariance matrix of x"""
    reads: tuple[tuple[NonNegativeInt, ...], ...] | None = None
    """the coordinates of x that each output depends on; null: all coordinates"""

    @whole
    def _check_whole(self) -> None:
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

    @property
    def d_token(self) -> int:
        """Width of a token z = (x, y): d_x + d_y."""
        return self.d_x + self.d_y

    @property
    def variance_of_beta(self) -> float:
        """`beta_variance` as a number."""
        return 1.0 / self.d_x if self.beta_variance == "1/d_x" else float(self.beta_variance)

    def covariance_matrix(self) -> np.ndarray:
        """Return Sigma as (d_x, d_x) float64."""
        if isinstance(self.covariance, Power):
            index = np.arange(self.d_x)
            return self.covariance.rho ** np.abs(index[:, None] - index)
        if isinstance(self.covariance, Matrix):
            return np.array(self.covariance.rows, dtype=float)
        return np.eye(self.d_x)

    def read_mask(self) -> np.ndarray:
        """Return (d_y, d_x) booleans: whether output k depends on coordinate j."""
        mask = np.ones((self.d_y, self.d_x), dtype=bool)
        if self.reads is not None:
            for row, coordinates in zip(mask, self.reads, strict=True):
                row[:] = False
                row[list(coordinates)] = True
        return mask


class LengthCurve(Spec):
    """The error by prompt length, on the same prompts for all runs."""

    prompts: PositiveInt = 10_000
    """number of prompts over which the error is averaged"""
    longest: PositiveInt = Field(500, le=1_000_000)
    """longest prompt, in pairs"""
    lengths: PositiveInt = Field(40, le=1_000)
    """approximate number of prompt lengths, evenly spaced on a log scale from 1 to `longest`"""
    resamples: PositiveInt = 200
    """number of bootstrap resamples of the prompts, for confidence intervals"""

    def grid(self, n_pairs: int) -> tuple[int, ...]:
        """Return the prompt lengths, in pairs: distinct, ascending, from 1 to `longest`, the task's own among them."""
        points = [round(self.longest ** (i / max(1, self.lengths - 1))) for i in range(self.lengths)]
        dense = {1, *points, self.longest, min(n_pairs, self.longest)}
        # A log grid repeats its first integers; fill up with the integers that it skips.
        missing = (n for n in range(1, self.longest) if n not in dense)
        while len(dense) < min(self.lengths, self.longest):
            dense.add(next(missing))
        return tuple(sorted(dense))


class PromptEvaluation(Spec):
    """The prompts on which models are evaluated; all runs of a task share these prompts."""

    every: PositiveInt = 1_000
    """steps between evaluations during training"""
    prompts_during: PositiveInt = 500
    """number of prompts in each evaluation during training"""
    prompts: PositiveInt = 100_000
    """number of prompts in the final evaluation, each as long as a training prompt"""
    curve: LengthCurve | None = LengthCurve()
    """the error by prompt length; null: not measured"""


class CircuitProbes(Spec):
    """The steps at which the QK and OV circuits of an in-context model are measured."""

    every: PositiveInt = 1_000
    """steps between measurements of each head's QK weight (w) and OV weight (mu)"""
    circuits: tuple[PositiveInt, ...] = (1, 1_000, 10_000, 100_000, 500_000)
    """steps at which the whole QK and OV matrices of each head are stored"""


Init = Literal["random", "small_id", "small_id_qk", "oppo_small_id"]
Attention = Literal["softmax", "linear-mean", "linear-sum"]


class InContextModel(Spec):
    """The settings that one-layer models and stacks share."""

    attention: Attention = "softmax"
    """kind of attention: softmax, or linear with the mean or the sum over keys"""
    n_heads: PositiveInt
    """number of heads in each layer; the width of each head is the width of a token"""
    bias: bool = False
    """whether Q, K, V and O have biases"""
    init: Init = "random"
    """initial weights: random, or small multiples of the identity for Q, K, V and a square O (small_id) or for Q and K
    (small_id_qk, oppo_small_id). In oppo_small_id, Q has opposite signs in the two halves of the heads"""

    @whole
    def _check_whole(self) -> None:
        if self.init == "oppo_small_id" and self.n_heads % 2:
            raise ValueError(
                f"init oppo_small_id gives the two halves of the heads opposite signs, but n_heads is {self.n_heads}, "
                f"which is odd; take {self.n_heads + 1} heads, or another init"
            )


class OneLayer(InContextModel):
    """One layer: the sum over heads of O_h V_h Z softmax(Z^T K_h^T Q_h z_q / sqrt(d_x + d_y))."""

    n_layers: ClassVar[int] = 1
    tied: ClassVar[bool] = False
    family: Literal["icl"]
    n_out: PositiveInt | None = None
    """number of rows of O, which must equal the number of outputs; null: the width of a token, whose y entries are the
    output"""


class Stack(InContextModel):
    """Causal layers over (z_1, ..., z_L, z_q) and a final linear map to the outputs."""

    n_out: ClassVar[None] = None
    family: Literal["icl-stack"]
    n_layers: PositiveInt
    """number of layers"""
    tied: bool = False
    """whether all layers share their weights"""
    residual: bool = False
    """whether a layer's output is added to its input"""
    attend_self: bool = False
    """whether a position attends to itself; the output at a position without keys is 0"""


IclModel = Annotated[OneLayer | Stack, Field(discriminator="family")]


class IclTraining(Training):
    """The settings that every optimizer of in-context models needs."""

    steps: PositiveInt
    """number of optimizer steps"""


class Sgd(IclTraining):
    """Stochastic gradient descent."""

    optimizer: Literal["sgd"]
    momentum: BelowOne = 0.0
    """momentum: the share of the previous update that is kept"""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty: this number times the weight is added to the gradient"""


class _Adaptive(IclTraining):
    betas: Betas = (0.9, 0.999)
    """decay rates of the running means of the gradient and of the squared gradient"""
    eps: PositiveFloat = 1e-8
    """epsilon: number added to the root of the mean squared gradient"""


class Adam(_Adaptive):
    """Adam (Kingma and Ba 2015, arXiv 1412.6980)."""

    optimizer: Literal["adam"]
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty: this number times the weight is added to the gradient"""


class AdamW(_Adaptive):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

    optimizer: Literal["adamw"]
    weight_decay: NonNegativeFloat = 0.01
    """decoupled weight decay: each step multiplies weights by 1 - learning_rate * weight_decay"""


TrainingSpec = Annotated[Sgd | Adam | AdamW, Field(discriminator="optimizer")]


def parameters_by_part(task: RegressionTask, model: IclModel) -> dict[str, int]:
    """Return the number of trained parameters by part: Q, K, V, O, and the rest."""
    heads, width = model.n_heads, task.d_token
    one = isinstance(model, OneLayer)
    layers = 1 if model.tied else model.n_layers
    square = layers * heads * width * width
    parameters = {"Q": square, "K": square, "V": square, "O": layers * heads * _rows(task, model) * width}
    if not one:
        parameters["final map"] = task.d_y * width
    if model.bias:
        parameters["biases"] = layers * (3 * heads * width + _rows(task, model)) + (0 if one else task.d_y)
    return parameters


def forward_flops(task: RegressionTask, model: IclModel) -> int:
    """Return the floating-point operations of a forward pass of one prompt.

    A head's work at a query token is its row of QK, its OV, and two products of tokens per token that it sees. In the
    last layer only the query looks; in lower layers every token looks at those before it.
    """
    width, length = task.d_token, task.n_pairs
    depth = model.n_layers
    looking = 1 + (depth - 1) * (length + 1)
    seen = length + (depth - 1) * (length + 1) * length // 2
    final = 0 if isinstance(model, OneLayer) else 2 * task.d_y * width
    return model.n_heads * (2 * width * (width + _rows(task, model)) * looking + 4 * width * seen) + final


def judging_bytes(task: RegressionTask, evaluation: PromptEvaluation) -> int:
    """Return the bytes of the largest evaluation's prompts in memory: pairs, queries and true coefficients.

    A length curve also stores how often each prompt stands in each bootstrap resample.
    """
    coefficients = 4 * task.d_x * task.d_y
    fixed = max(evaluation.prompts, evaluation.prompts_during) * (_prompt_bytes(task) + coefficients)
    curve = evaluation.curve
    if curve is None:
        return fixed
    return max(fixed, curve.prompts * (4 * (curve.longest + 1) * task.d_token + coefficients + 8 * curve.resamples))


def _prompt_bytes(task: RegressionTask) -> int:
    return 4 * (task.n_pairs + 1) * task.d_token


def _rows(task: RegressionTask, model: IclModel) -> int:
    """Return the rows of O: a whole token, or the outputs."""
    return task.d_token if model.n_out is None else task.d_y


class IclRun(RunSpec):
    """A run of the in-context laboratory."""

    traits: ClassVar[Traits] = Traits(
        laboratory="icl",
        example="prompt",
        judging_memory_advice="lower evaluation.prompts, evaluation.prompts_during, or prompts or longest of "
        "evaluation.curve",
    )

    task: RegressionTask
    model: IclModel
    training: TrainingSpec
    evaluation: PromptEvaluation = PromptEvaluation()
    """the held-out examples on which the model is evaluated"""
    probes: CircuitProbes = CircuitProbes()
    """metrics of heads that are measured during training"""

    @whole
    def _check_whole(self) -> None:
        width = self.task.d_token
        numbers = sum(parameters_by_part(self.task, self.model).values())
        batch = self.training.batch_size * (self.task.n_pairs + 1) * width
        check_numbers(numbers, batch, "task.d_x, task.d_y, model.n_heads or model.n_layers")
        if self.model.n_out not in (None, self.task.d_y):
            raise ValueError(
                f"model.n_out is {self.model.n_out} but task.d_y is {self.task.d_y}; make them equal, or n_out null"
            )

    @cached_property
    def budget(self) -> Budget:
        """The cost of this run."""
        parameters = parameters_by_part(self.task, self.model)
        return Budget(
            parameters=parameters,
            flops_per_example=forward_flops(self.task, self.model),
            tokens_per_example=self.task.n_pairs + 1,
            state_bytes=4 * (4 if isinstance(self.training, _Adaptive) else 2) * sum(parameters.values()),
            example_bytes=_prompt_bytes(self.task),
            batch_size=self.training.batch_size,
            judging_bytes=judging_bytes(self.task, self.evaluation),
            steps=self.training.steps,
        )

    @property
    def declared_steps(self) -> int:
        """Optimizer steps."""
        return self.training.steps

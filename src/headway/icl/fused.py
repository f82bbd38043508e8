"""The fused trainer: native code trains one-layer models, many steps a call, without torch.

`step.cpp` does a complete step: it draws the batch, goes forward and backward and updates the weights. This module
turns a declared run into the numbers that the step needs, and the step's arrays into weights and optimizer state by
name.
"""

import ctypes
import math

import numpy as np
from jaxtyping import Float64

from headway.base import rng
from headway.config.regression import IclRun, OneLayer
from headway.data import native
from headway.data.regression import Scales
from headway.errors import Diverged, UserError
from headway.icl.weights import Weights, weight_shapes

WIDEST = 32
"""The most coordinates of x for which the native step is tested; beyond, matrix libraries win."""

available = native.available

_ATTENTION = {"softmax": 0, "linear-mean": 1, "linear-sum": 2}
_KEPT = {"sgd": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq"), "adamw": ("exp_avg", "exp_avg_sq")}
"""The numbers that each optimizer keeps for every weight, in the order of `step.cpp`'s numbers of optimizers."""


class _Run(ctypes.Structure):
    """The structure `Run` of `step.cpp`."""

    arrays: list[np.ndarray | None]
    _fields_ = (
        ("task", native.NativeTask),
        ("key", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("batch_size", "n_heads", "rows_out", "attention", "optimizer")),
        *((name, ctypes.c_double) for name in ("learning_rate", "momentum", "beta1", "beta2", "eps", "weight_decay")),
    )


def obstacle(run: IclRun) -> str | None:
    """Return why a run cannot be trained by native code, in a sentence; None when it can."""
    if not isinstance(run.model, OneLayer):
        return "the fused trainer knows one-layer models only, and this is a stack"
    if run.model.bias:
        return "the fused trainer knows no biases, and this model has them"
    if run.task.d_x > WIDEST:
        return f"the fused trainer takes up to {WIDEST} coordinates of x, and this task has {run.task.d_x}"
    if available() is None:
        return f"{native.absence()}, to train far faster"
    return None


class FusedTrainer:
    """A trainer of a one-layer run in native code (a `train.loop.Trainer`).

    Advancing in other chunks changes no bit. Another instruction set, or another number of vector lanes, sums in
    another order and changes the last bits.
    """

    step: int
    """The number of steps done."""

    def __init__(self, run: IclRun, weights: Weights, *, instruction_set: native.InstructionSet | None = None) -> None:
        """Start at step 0 with a copy of these weights; `instruction_set` None: the fastest here.

        Raises:
            UserError: when the run cannot be fused, or the instruction set is not available here.
        """
        if (why := obstacle(run)) is not None:
            raise UserError(f"{why}; take the torch trainer")
        self._library = native.library(instruction_set)
        self._shapes = weight_shapes(run.model, run.task)
        self._optimizer = run.training.optimizer
        self._run = _native_run(run)
        self.step = 0
        # Rows of this array: the weights, and two numbers that the optimizer may keep for each.
        self._arrays = np.zeros((3, sum(map(math.prod, self._shapes.values()))), np.float32)
        self._fill(0, weights)

    @property
    def instruction_set(self) -> native.InstructionSet:
        """The instruction set that trains."""
        return self._library.instruction_set

    def advance(self, n: int) -> Float64[np.ndarray, " n"]:
        """Do n steps and return the loss of each before its update: mean squared error over batch and outputs.

        Raises:
            Diverged: when a loss is not finite; the weights are then those that gave it.
        """
        losses = np.empty(n)
        types = (ctypes.POINTER(_Run), *[native.FLOATS] * 3, ctypes.c_int64, ctypes.c_int64, native.DOUBLES)
        train = self._library.function("train", *types, returns=ctypes.c_int64)
        done = train(self._run, *self._arrays, self.step, n, losses)
        self.step += done
        if done < n:
            raise Diverged(f"the loss of step {self.step + 1} is {losses[done]}: training diverged")
        return losses

    def gradient(self) -> tuple[float, Weights]:
        """Return loss and gradient of the next step's batch; nothing moves."""
        gradient = np.empty_like(self._arrays[0])
        types = (ctypes.POINTER(_Run), native.FLOATS, ctypes.c_int64, native.FLOATS)
        function = self._library.function("gradient", *types, returns=ctypes.c_double)
        return function(self._run, self._arrays[0], self.step + 1, gradient), self._named(gradient)

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return self._named(self._arrays[0].copy())

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that a later `restore` needs, by name: `weights/W_Q`, `optimizer/exp_avg/W_Q`, ..."""
        return {
            f"{prefix}/{name}": array
            for row, prefix in self._prefixes()
            for name, array in self._named(self._arrays[row].copy()).items()
        }

    def restore(self, step: int, state: dict[str, np.ndarray]) -> None:
        """Restore the state of a trainer of the same run after `step` steps, as its `state` returned it."""
        for row, prefix in self._prefixes():
            self._fill(row, {name: state[f"{prefix}/{name}"] for name in self._shapes})
        self.step = step

    def _prefixes(self) -> list[tuple[int, str]]:
        return list(enumerate(["weights", *[f"optimizer/{name}" for name in _KEPT[self._optimizer]]]))

    def _named(self, flat: np.ndarray) -> Weights:
        parts = np.split(flat, np.cumsum(list(map(math.prod, self._shapes.values())))[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)}

    def _fill(self, row: int, arrays: Weights) -> None:
        for name, part in self._named(self._arrays[row]).items():
            part[:] = arrays[name]


def _native_run(run: IclRun) -> _Run:
    training = run.training
    beta1, beta2 = getattr(training, "betas", (0.0, 0.0))
    task = Scales.of(run.task).native(run.task.n_pairs)
    native_run = _Run(
        task=task,
        key=rng.key(run.seed, "training data"),
        batch_size=training.batch_size,
        n_heads=run.model.n_heads,
        rows_out=weight_shapes(run.model, run.task)["W_O"][2],
        attention=_ATTENTION[run.model.attention],
        optimizer=list(_KEPT).index(training.optimizer),
        learning_rate=training.learning_rate,
        momentum=getattr(training, "momentum", 0.0),
        beta1=beta1,
        beta2=beta2,
        eps=getattr(training, "eps", 0.0),
        weight_decay=training.weight_decay,
    )
    native_run.arrays = task.arrays  # copying a structure copies its addresses, not the arrays
    return native_run

"""Prompts of in-context linear regression, as a pure function of (task, key, step, example).

Each prompt has its own small generator: xoshiro128+ whose state is a hash of (key, step, example). So a batch is a
prefix of a larger one, and prompts can be drawn side by side in any number of vector lanes. A prompt's normals come in
one order: beta, the query token (x and noise), then the token of each pair. Noise is drawn even where its variance is
0, so tasks that differ only in their noise share beta and every x.

The numpy code here defines the bits: float32, one operation after another, each rounded once. The native code
(`draws.cpp`) does the same operations in the same order.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt32

from headway.base import rng
from headway.config.regression import RegressionTask
from headway.data import native
from headway.errors import UserError

AT_ONCE = 2_048
"""Prompts that the reference draws side by side; it bounds memory and changes no bit."""

# -2 log(1 + f) / f in powers of f, for f in [1/sqrt(2) - 1, sqrt(2) - 1]; relative error 7e-6.
LOG = (
    (-2.000009059906006, 0.9998043775558472),
    (-0.6651604771614075, 0.508065402507782),
    (-0.4411188066005707, 0.28584155440330505),
)
# sin(pi/2 q) / q and cos(pi/2 q) in powers of q^2, for q in [-1, 1]; errors 9e-7 (relative) and 7e-6.
SIN = (1.5707948207855225, -0.645920991897583, 0.07948765158653259, -0.004362468607723713)
COS = (0.9999933242797852, -1.2334845066070557, 0.2525802254676819, -0.019095733761787415)
MINUS_TWO_LN2 = np.float32(-1.3862943649291992)
ROOT_HALF = 0x3F3504F3  # the bits of sqrt(1/2): mantissas run from there to sqrt(2)


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts side by side: pairs, queries, the outputs to be predicted, and the true coefficients."""

    x: Float32[np.ndarray, "prompt pair d_x"]
    y: Float32[np.ndarray, "prompt pair d_y"]
    x_query: Float32[np.ndarray, "prompt d_x"]
    y_query: Float32[np.ndarray, "prompt d_y"]
    beta: Float32[np.ndarray, "prompt d_y d_x"]


@dataclass(frozen=True, kw_only=True)
class Scales:
    """The factors by which a task scales standard normals, in float32."""

    beta: Float32[np.ndarray, "d_y d_x"]  # 0 where the output does not read the coordinate
    noise: np.float32
    query_noise: np.float32
    cholesky: Float32[np.ndarray, "d_x d_x"] | None  # lower factor of the covariance of x; None: identity

    @classmethod
    def of(cls, task: RegressionTask) -> "Scales":
        """Return the scales of a task."""
        noise = np.float32(np.sqrt(task.noise_variance))
        plain = task.covariance.kind == "identity"
        return cls(
            beta=(task.read_mask() * np.sqrt(task.variance_of_beta)).astype(np.float32),
            noise=noise,
            query_noise=noise if task.noisy_query else np.float32(0),
            cholesky=None if plain else np.linalg.cholesky(task.covariance_matrix()).astype(np.float32),
        )

    def native(self, n_pairs: int) -> native.NativeTask:
        """Return these factors in the form that native code reads."""
        return native.NativeTask(self.beta, float(self.noise), float(self.query_noise), self.cholesky, n_pairs)


def draw(
    task: RegressionTask,
    *,
    key: int,
    step: int,
    batch_size: int,
    n_pairs: int | None = None,
    instruction_set: native.InstructionSet | None = None,
) -> Prompts:
    """Draw `batch_size` prompts: the bits of `draw_reference`, natively where that is built.

    Args:
        task: the task of the prompts.
        key: 64-bit key of the stream, from `rng.key`.
        step: the number of the batch in the stream, from 0 and below 2^32.
        batch_size: the number of prompts; more prompts begin with these.
        n_pairs: the number of pairs in a prompt; None: the task's. Longer prompts begin with these pairs.
        instruction_set: the native code that draws; None: the fastest here.

    Raises:
        UserError: when the step is out of range, or the instruction set is not available here.

    Examples:
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40)
        >>> prompts = draw(task, key=rng.key(0, "doc"), step=1, batch_size=3)
        >>> prompts.x.shape, prompts.y.shape
        ((3, 40, 5), (3, 40, 1))
    """
    if instruction_set is None and native.available() is None:
        return draw_reference(task, key=key, step=step, batch_size=batch_size, n_pairs=n_pairs)
    length = _checked(task, step, n_pairs)
    d_x, d_y = task.d_x, task.d_y
    shapes = {"x": (length, d_x), "y": (length, d_y), "x_query": (d_x,), "y_query": (d_y,), "beta": (d_y, d_x)}
    arrays = {name: np.empty((batch_size, *shape), np.float32) for name, shape in shapes.items()}
    native.library(instruction_set).draw(Scales.of(task).native(length), key, step, batch_size, *arrays.values())
    return Prompts(**arrays)


def draw_reference(
    task: RegressionTask, *, key: int, step: int, batch_size: int, n_pairs: int | None = None
) -> Prompts:
    """Draw `batch_size` prompts in numpy; this defines the bits (arguments as for `draw`)."""
    length = _checked(task, step, n_pairs)
    parts = [
        _draw_some(task, key, step, np.arange(first, min(first + AT_ONCE, batch_size), dtype=np.uint32), length)
        for first in range(0, max(batch_size, 1), AT_ONCE)
    ]
    return Prompts(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Prompts)})


def evaluation_prompts(task: RegressionTask, n: int) -> Prompts:
    """Return the first n of the prompts every run of this task is evaluated on."""
    return draw(task, key=rng.key(0, "evaluation"), step=0, batch_size=n)


def curve_prompts(task: RegressionTask, n: int, longest: int) -> Prompts:
    """Return the first n of the prompts for error against prompt length, `longest` pairs each."""
    return draw(task, key=rng.key(0, "length curve"), step=0, batch_size=n, n_pairs=longest)


def tuning_prompts(task: RegressionTask, n: int) -> Prompts:
    """Return the first n of the prompts on which estimators are tuned; never those of an evaluation."""
    return draw(task, key=rng.key(0, "tuning"), step=0, batch_size=n)


def _checked(task: RegressionTask, step: int, n_pairs: int | None) -> int:
    if not 0 <= step < 2**32:
        raise UserError(f"step {step} has no data: a stream has batches 0 to 2^32 - 1; take a step in that range")
    return task.n_pairs if n_pairs is None else n_pairs


def _draw_some(
    task: RegressionTask, key: int, step: int, examples: UInt32[np.ndarray, " prompt"], n_pairs: int
) -> Prompts:
    scales = Scales.of(task)
    d_x, d_y = task.d_x, task.d_y
    normals = standard_normals(key, step, examples, d_y * d_x + (n_pairs + 1) * (d_x + d_y))
    beta = scales.beta * normals[:, : d_y * d_x].reshape(-1, d_y, d_x)
    tokens = normals[:, d_y * d_x :].reshape(-1, n_pairs + 1, d_x + d_y)
    x, noise = tokens[..., :d_x], tokens[..., d_x:]
    if scales.cholesky is not None:
        x = np.stack([_ordered_dot(scales.cholesky[j, : j + 1], x) for j in range(d_x)], axis=-1)
    y = np.stack([_ordered_dot(beta[:, None, k], x) for k in range(d_y)], axis=-1)
    y[:, 0] += scales.query_noise * noise[:, 0]
    y[:, 1:] += scales.noise * noise[:, 1:]
    split = {"x": x[:, 1:], "y": y[:, 1:], "x_query": x[:, 0], "y_query": y[:, 0], "beta": beta}
    return Prompts(**{name: np.ascontiguousarray(array) for name, array in split.items()})


def _ordered_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the sum over the last axis of a * b, first to last: a matmul would round in its own order."""
    total = a[..., 0] * b[..., 0]
    for j in range(1, a.shape[-1]):
        total = total + a[..., j] * b[..., j]
    return total


def standard_normals(
    key: int, step: int, examples: UInt32[np.ndarray, " prompt"], count: int
) -> Float32[np.ndarray, "prompt normal"]:
    """Return the first `count` standard normals of each of these examples' generators.

    Box-Muller: one word gives a sign and the radius sqrt(-2 log u), u an odd multiple of 2^-31 below 1; the next word
    gives the angle, between -pi/2 and pi/2.
    """
    state = _seeded(key, step, examples)
    radius_bits, angle_bits = np.empty((2, (count + 1) // 2, len(examples)), np.uint32)
    for pair in range(len(radius_bits)):
        radius_bits[pair] = _next(state)
        angle_bits[pair] = _next(state)
    u = (radius_bits | 1).view(np.int32).astype(np.float32).view(np.uint32)  # times 2^31, and with a sign
    k = (u & 0x7FFFFFFF).view(np.int32) - (ROOT_HALF + (31 << 23))
    f = ((k & 0x7FFFFF) + ROOT_HALF).view(np.float32) - np.float32(1)
    log = _polynomial([_polynomial(pair, f) for pair in LOG], f * f)
    radius = np.sqrt(f * log + (k >> 23).astype(np.float32) * MINUS_TWO_LN2)
    radius = (radius.view(np.uint32) ^ (u & 0x80000000)).view(np.float32)
    q = angle_bits.view(np.int32).astype(np.float32) * np.float32(2.0**-31)
    q2 = q * q
    normals = np.stack([radius * _polynomial(COS, q2), radius * (q * _polynomial(SIN, q2))], axis=1)
    return np.ascontiguousarray(normals.reshape(-1, len(examples))[:count].T)


def _polynomial(coefficients: Sequence[Any], x: Float32[np.ndarray, "..."]) -> Float32[np.ndarray, "..."]:
    value: Any = np.float32(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + np.float32(coefficient)
    return value


def _seeded(key: int, step: int, examples: UInt32[np.ndarray, " prompt"]) -> UInt32[np.ndarray, "4 prompt"]:
    """Return each example's state: six ChaCha quarter rounds over (key, step, example), so no two are equal."""
    a = np.full_like(examples, 0x61707865 ^ (key & 0xFFFFFFFF))
    b = np.full_like(examples, 0x3320646E ^ (key >> 32))
    c = np.full_like(examples, 0x79622D32 ^ step)
    d = examples ^ np.uint32(0x6B206574)
    for _ in range(6):
        a = a + b
        d = _rotated(d ^ a, 16)
        c = c + d
        b = _rotated(b ^ c, 12)
        a = a + b
        d = _rotated(d ^ a, 8)
        c = c + d
        b = _rotated(b ^ c, 7)
    return np.stack([a, b, c, d])


def _rotated(x: UInt32[np.ndarray, "..."], by: int) -> UInt32[np.ndarray, "..."]:
    return (x << by) | (x >> (32 - by))


def _next(state: UInt32[np.ndarray, "4 prompt"]) -> UInt32[np.ndarray, " prompt"]:
    """Return the next word of each generator, and move the state.

    Paper: Blackman and Vigna 2021, arXiv 1805.01407 (xoshiro128+; its weak lowest bits are hardly used).
    """
    s0, s1, s2, s3 = state
    word = s0 + s3
    shifted = s1 << 9
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3[:] = _rotated(s3, 11)
    return word

"""Estimators that predict a query from its prompt, at many prompt lengths in one pass.

Every estimator here is a function of sums over the pairs seen so far. The prediction at each length therefore comes
from the sums up to it, never from a pass of its own. Softmax attention is such a sum too, once its running maximum is
carried along. One step of gradient descent, ridge and least squares are functions of the second moments of (1, x, y),
which `PrefixSums` holds.

A prediction has the shape (prompts, lengths, outputs). `lengths` are ascending numbers of pairs; None means all pairs.
`reads` are booleans (d_y, d_x), the coordinates of x that each output depends on (`task.read_mask()`); None means all
of them.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734. Its softmax is computed here with a running maximum, since
trained heads give logits of 90 and more below the largest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from headway.config.regression import Attention
from headway.data.regression import Prompts
from headway.errors import UserError
from headway.icl.theory import Lengths, Matrices

Predictions: TypeAlias = Float[np.ndarray, "prompt length d_y"]
Reads: TypeAlias = Bool[np.ndarray, "d_y d_x"]
PerKernel: TypeAlias = Float[np.ndarray, " head"] | Float[np.ndarray, "head d_y"]
Eta: TypeAlias = float | Float[np.ndarray, " d_y"] | Float[np.ndarray, "length d_y"]

_CHUNK_BYTES = 32_000_000
"""The most bytes of a chunk's arrays: small enough for the cache to help, and for any machine."""


def attend(
    prompts: Prompts,
    qk: Float[np.ndarray, "head D D"],
    ov: Float[np.ndarray, "head d_y D"],
    attention: Attention = "softmax",
    lengths: Lengths = None,
) -> Predictions:
    """Predict with the one-layer model without bias, from its circuits, float32.

    The score of pair i in head h is z_i . QK_h z_q with z_q = (x_q, 0), and QK_h is already divided by
    sqrt(d_x + d_y). Heads add up.

    Raises:
        UserError: when a length is not among 1 to the prompts' number of pairs, or they do not ascend.
    """
    ends = _ends(prompts, lengths)
    n_heads, d_y, _ = ov.shape
    seen_by_query = qk[:, :, : prompts.x.shape[2]].astype(np.float32)
    values_of = np.moveaxis(ov, 2, 0).reshape(-1, n_heads * d_y).astype(np.float32)
    predictions = np.empty((len(prompts.x), len(ends), d_y), dtype=np.float32)
    for chunk in _chunks(prompts, 4 * int(ends[-1]) * (n_heads * (2 + 2 * d_y) + len(values_of))):
        z = np.concatenate([prompts.x[chunk, : ends[-1]], prompts.y[chunk, : ends[-1]]], axis=2)
        scores = z @ np.einsum("hkq,nq->nkh", seen_by_query, prompts.x_query[chunk])
        values = (z @ values_of).reshape(*scores.shape, d_y)
        if attention == "softmax":
            predictions[chunk] = _softmax_means(scores, values, ends).sum(axis=2)
        else:
            starts = np.concatenate([[0], ends[:-1]])
            terms = np.einsum("nlh,nlhk->nlk", scores, values)
            sums = np.cumsum(np.add.reduceat(terms, starts, axis=1, dtype=np.float64), axis=1)
            predictions[chunk] = sums / ends[:, None] if attention == "linear-mean" else sums
    return predictions


def _softmax_means(
    scores: Float[np.ndarray, "prompt pair head"], values: Float[np.ndarray, "prompt pair head d_y"], ends: np.ndarray
) -> Float[np.ndarray, "prompt length head d_y"]:
    """Return means of the values under the softmax of the scores seen so far.

    Each segment between two lengths is taken relative to the largest score up to its end, never to a later one: a
    global maximum would let all weights of a short prompt underflow. Sums are then rescaled from end to end.
    """
    starts = np.concatenate([[0], ends[:-1]])
    largest = np.maximum.accumulate(np.maximum.reduceat(scores, starts, axis=1), axis=1)
    weights = np.exp(scores - np.repeat(largest, ends - starts, axis=1))
    mass = np.add.reduceat(weights, starts, axis=1)
    total = np.add.reduceat(weights[..., None] * values, starts, axis=1)
    for k in range(1, len(ends)):
        shrink = np.exp(largest[:, k - 1] - largest[:, k])
        mass[:, k] += shrink * mass[:, k - 1]
        total[:, k] += shrink[..., None] * total[:, k - 1]
    total /= mass[..., None]
    return total


def kernel(
    prompts: Prompts,
    w: PerKernel,
    mu: PerKernel,
    attention: Attention = "softmax",
    lengths: Lengths = None,
    *,
    reads: Reads | None = None,
) -> Predictions:
    """Predict with the kernel estimator sum_h mu_h sum_i y_i softmax_i(w_h x_q . x_i), float32.

    With several outputs each has its own w and mu, and a kernel over the coordinates that it reads.
    """
    qk, ov = kernel_circuits(w, mu, _reads(prompts, reads))
    return attend(prompts, qk, ov, attention, lengths)


def kernel_circuits(
    w: PerKernel,
    mu: PerKernel,
    reads: Reads,
) -> tuple[Float[np.ndarray, "kernel D D"], Float[np.ndarray, "kernel d_y D"]]:
    """Return QK and OV circuits that make attention the kernel estimator: a head for each w and output."""
    d_y, d_x = reads.shape
    w, mu = np.reshape(w, (-1, d_y)), np.reshape(mu, (-1, d_y))
    qk = np.zeros((len(w), d_y, d_x + d_y, d_x + d_y))
    ov = np.zeros((len(w), d_y, d_y, d_x + d_y))
    for k in range(d_y):
        qk[:, k, :d_x, :d_x] = w[:, k, None, None] * np.diag(reads[k])
        ov[:, k, k, d_x + k] = mu[:, k]
    return qk.reshape(-1, *qk.shape[2:]), ov.reshape(-1, *ov.shape[2:])


def gd(prompts: Prompts, eta: Eta = 1.0, lengths: Lengths = None, *, reads: Reads | None = None) -> Predictions:
    """Predict by one step of gradient descent from 0: eta/L sum_i y_i x_i . x_q, float64.

    `eta` is a number, one for each output (d_y,), or one for each length and output.
    """
    return preconditioned_gd(prompts, step_matrices(eta, _reads(prompts, reads)), lengths, debiased=False)


def debiased_gd(
    prompts: Prompts, eta: Eta = 1.0, lengths: Lengths = None, *, reads: Reads | None = None
) -> Predictions:
    """Predict by debiased gradient descent: eta/L sum_i y_i (x_i - mean of x so far) . x_q, float64.

    `eta` is a number, one for each output (d_y,), or one for each length and output.
    """
    return preconditioned_gd(prompts, step_matrices(eta, _reads(prompts, reads)), lengths, debiased=True)


def preconditioned_gd(
    prompts: Prompts,
    matrices: Matrices,
    lengths: Lengths = None,
    *,
    debiased: bool,
) -> Predictions:
    """Predict by one preconditioned step: 1/L sum_i y_i (x_i - [mean of x so far]) . P x_q, float64.

    `matrices` holds P for each length (or one for all) and output: eta Sigma^-1 for x ~ N(0, Sigma), or the best
    one (`theory.best_preconditioner`).
    """
    return _from_sums(prompts, lengths, lambda sums: sums.step(matrices, debiased=debiased))


def ridge(prompts: Prompts, penalty: float, lengths: Lengths = None, *, reads: Reads | None = None) -> Predictions:
    """Predict by ridge regression: x_q^T (X^T X + penalty I)^-1 X^T y, float64.

    It is the Bayes estimator at penalty = noise variance / variance of beta: v for beta ~ N(0, I), s2 d for
    beta ~ N(0, I/d). Penalty 0 means least squares of minimum norm, its limit.

    Raises:
        UserError: when the penalty is negative.
    """
    if penalty < 0:
        raise UserError(
            f"ridge with penalty {penalty} has no minimum; give 0 or more (noise over beta variance: Bayes)"
        )
    return _from_sums(prompts, lengths, lambda sums: sums.ridge(penalty, _reads(prompts, reads)))


def least_squares(prompts: Prompts, lengths: Lengths = None, *, reads: Reads | None = None) -> Predictions:
    """Predict by least squares, of minimum norm when there are fewer pairs than coordinates, float64.

    Its mean squared error does not exist when the pairs are as many as the coordinates or one more: report medians.
    """
    return ridge(prompts, 0.0, lengths, reads=reads)


def tuned_eta(
    prompts: Prompts, lengths: Lengths = None, *, debiased: bool, reads: Reads | None = None
) -> Float[np.ndarray, "length d_y"]:
    """Return the step that is best on these prompts: E[y p] / E[p^2], with p the prediction of step 1.

    The step is 0 where p is 0. Tune on other prompts than those of the evaluation
    (`headway.data.regression.tuning_prompts`).
    """
    p = (debiased_gd if debiased else gd)(prompts, 1.0, lengths, reads=reads)
    size = np.einsum("nlk,nlk->lk", p, p)
    return np.einsum("nk,nlk->lk", prompts.y_query.astype(np.float64), p) / np.where(size > 0, size, 1.0)


@dataclass(frozen=True, kw_only=True)
class PrefixSums:
    """Second moments of (1, x, y) over the first pairs of each prompt, on which the linear estimators depend.

    `first` holds the first d_x rows (1, x, y) themselves, for least squares of minimum norm.
    """

    lengths: np.ndarray
    moments: Float[np.ndarray, "prompt length moment moment"]
    first: Float[np.ndarray, "prompt first_pair moment"]
    x_query: Float[np.ndarray, "prompt d_x"]

    @classmethod
    def of(cls, prompts: Prompts, lengths: Lengths = None) -> "PrefixSums":
        """Return the sums of prompts, all at once; `prompt_chunks` gives prompts in numbers that fit in memory."""
        ends = _ends(prompts, lengths)
        n, _, d_x = prompts.x.shape
        rows = np.empty((n, ends[-1], 1 + d_x + prompts.y.shape[2]))
        rows[..., 0] = 1.0
        rows[..., 1 : 1 + d_x] = prompts.x[:, : ends[-1]]
        rows[..., 1 + d_x :] = prompts.y[:, : ends[-1]]
        moments = np.empty((n, len(ends), rows.shape[2], rows.shape[2]))
        for k, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            segment = rows[:, start:end]
            np.matmul(segment.swapaxes(1, 2), segment, out=moments[:, k])
        np.cumsum(moments, axis=1, out=moments)
        x_query = prompts.x_query.astype(np.float64)
        return cls(lengths=ends, moments=moments, first=rows[:, :d_x].copy(), x_query=x_query)

    def step(self, matrices: Matrices, *, debiased: bool) -> Predictions:
        """Return 1/L sum_i y_i (x_i - [mean of x]) . P x_q for P of each length and output."""
        d_x = self.x_query.shape[1]
        xy = self.moments[:, :, 1 + d_x :, 1 : 1 + d_x]
        if debiased:
            mean_x = self.moments[:, :, None, 0, 1 : 1 + d_x] / self.lengths[:, None, None]
            xy = xy - self.moments[:, :, 1 + d_x :, :1] * mean_x
        looks = np.einsum("lkij,nj->nlki", matrices, self.x_query, optimize=True)
        return np.einsum("nlki,nlki->nlk", xy, looks) / self.lengths[:, None]

    def ridge(self, penalty: float, reads: Reads) -> Predictions:
        """Return x_q^T (X^T X + penalty I)^-1 X^T y; penalty 0 takes the minimum norm with few pairs.

        Few pairs are fewer pairs than coordinates.
        """
        d_x = self.x_query.shape[1]
        every = np.arange(len(self.x_query))
        predictions = np.empty((*self.moments.shape[:2], len(reads)))
        for k, mask in enumerate(reads):
            at = 1 + np.flatnonzero(mask)
            is_few = (self.lengths <= len(at)) & (penalty == 0)
            enough, few = np.flatnonzero(~is_few), np.flatnonzero(is_few)
            xx = self.moments[np.ix_(every, enough, at, at)] + penalty * np.eye(len(at))
            beta = np.linalg.solve(xx, self.moments[np.ix_(every, enough, at, [1 + d_x + k])])[..., 0]
            predictions[:, enough, k] = np.einsum("nli,ni->nl", beta, self.x_query[:, mask])
            # With as many pairs as coordinates or fewer, least squares goes through the pairs' products with one
            # another, X X^T: those of a shorter prompt are a corner of those of a longer one.
            x, y = self.first[:, :, at], self.first[:, :, [1 + d_x + k]]
            products, looks = x @ x.swapaxes(1, 2), x @ self.x_query[:, mask, None]
            for j, n in zip(few, self.lengths[few], strict=True):
                predictions[:, j, k] = (np.linalg.solve(products[:, :n, :n], y[:, :n]) * looks[:, :n]).sum(axis=(1, 2))
        return predictions


def step_matrices(eta: Eta, reads: Reads) -> Matrices:
    """Return plain steps as preconditioners: eta times the identity on the coordinates that an output reads."""
    steps = np.atleast_2d(np.broadcast_to(eta, np.broadcast_shapes(np.shape(eta), (len(reads),))))
    return steps[:, :, None, None] * np.stack([np.diag(mask).astype(np.float64) for mask in reads])


def prompt_chunks(prompts: Prompts, lengths: Lengths = None) -> Iterator[tuple[slice, Prompts]]:
    """Yield the prompts in numbers whose `PrefixSums` fit in memory, each with its position."""
    ends = _ends(prompts, lengths)
    width = 1 + prompts.x.shape[2] + prompts.y.shape[2]
    for chunk in _chunks(prompts, 8 * (int(ends[-1]) * width + 3 * len(ends) * width**2)):
        yield chunk, Prompts(**{name: array[chunk] for name, array in vars(prompts).items()})


def _from_sums(prompts: Prompts, lengths: Lengths, predict: Callable[[PrefixSums], np.ndarray]) -> np.ndarray:
    predicted = [predict(PrefixSums.of(part, lengths)) for _, part in prompt_chunks(prompts, lengths)]
    return np.concatenate(predicted)


def _chunks(prompts: Prompts, bytes_per_prompt: int) -> Iterator[slice]:
    size = max(1, _CHUNK_BYTES // bytes_per_prompt)
    for start in range(0, len(prompts.x), size):
        yield slice(start, min(start + size, len(prompts.x)))


def _ends(prompts: Prompts, lengths: Lengths) -> np.ndarray:
    n_pairs = prompts.x.shape[1]
    ends = np.array([n_pairs] if lengths is None else lengths, dtype=np.int64)
    if len(ends) == 0 or ends[0] < 1 or ends[-1] > n_pairs or (np.diff(ends) <= 0).any():
        raise UserError(
            f"prompt lengths {ends.tolist()} were asked of prompts with {n_pairs} pairs; "
            f"give different lengths from 1 to {n_pairs}, ascending"
        )
    return ends


def _reads(prompts: Prompts, reads: Reads | None) -> Reads:
    return np.ones((prompts.y.shape[2], prompts.x.shape[2]), dtype=bool) if reads is None else reads

"""The true risk of softmax heads that follow the pattern (w_h, mu_h), with simulation where integrals are unknown.

A kernel estimator is a_1 y_1 + ... + a_L y_L with weights a that depend on the scores x_i . x_q alone. For x ~ N(0, I)
only g_i, the coordinate of x_i along x_q, and r = |x_q| enter them; beta, the noise and the other coordinates of x
integrate out. Given g and r the risk is exactly

    b [d - 2 r a.g + (a.g)^2 + (d - 1) |a|^2] + v |a|^2 + q v,

with b the variance of beta's coordinates, v the noise variance, q = 1 when the query is noisy. Its mean over draws of
(g, r) is adjusted by the same formula for the debiased step, a_i = eta*/L r (g_i - mean g), whose expectation is exact.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734, which has the large-L approximation (`theory.EffectiveLoss`)
and no finite-L risk.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headway.base import rng
from headway.config.regression import Identity, RegressionTask
from headway.errors import UserError
from headway.icl import theory
from headway.icl.evaluation import Control, Summary, adjusted
from headway.icl.theory import PerHead

PerPair = Float[np.ndarray, "draw pair"]


@dataclass(frozen=True, kw_only=True)
class OneHead:
    """The best single softmax head: its w, its mu and its risk."""

    w: float
    mu: float
    risk: Summary


@dataclass(frozen=True, kw_only=True)
class KernelRisk:
    """Fixed draws of the scores of a task with x ~ N(0, I), one output that reads all of x."""

    task: RegressionTask
    along: PerPair
    query_length: Float[np.ndarray, " draw"]

    @classmethod
    def of(cls, task: RegressionTask, draws: int = 50_000) -> "KernelRisk":
        """Draw what the scores depend on; equal tasks have equal draws.

        Raises:
            UserError: when x is anisotropic, or there are several outputs or coordinates that are not read.
        """
        if not isinstance(task.covariance, Identity) or task.d_y > 1 or not task.read_mask().all():
            raise UserError(
                "the risk of kernel heads is known only for isotropic tasks with one output that depends on all of x; "
                "estimate it with estimators.kernel on prompts"
            )
        from scipy.stats import chi

        generator = rng.generator(0, "kernel risk", task.d_x, task.n_pairs)
        # Lengths of the query at evenly spaced quantiles: one source of variance less.
        lengths = chi.ppf((np.arange(draws) + 0.5) / draws, task.d_x)
        along = generator.standard_normal((draws, task.n_pairs))
        return cls(task=task, along=along, query_length=generator.permutation(lengths))

    def risk(self, w: PerHead, mu: PerHead) -> Summary:
        """Return the mean squared error of the kernel estimator with these heads, and its standard error."""
        weights = sum(m * self._softmax(a) for a, m in zip(w, mu, strict=True))
        return adjusted(self._risks(np.asarray(weights)), self._control())

    def best_mu(self, w: PerHead) -> PerHead:
        """Return the mu of least risk given w, by a quadratic form; the least norm if equal w leave it open."""
        shares = np.stack(list(map(self._softmax, w)))
        towards = np.einsum("hnl,nl->hn", shares, self.along)
        b, v, d = self.task.variance_of_beta, self.task.noise_variance, self.task.d_x
        n = len(self.along)
        moment = b * towards @ towards.T + (b * (d - 1) + v) * np.einsum("hnl,gnl->hg", shares, shares, optimize=True)
        return np.linalg.pinv(moment / n, rcond=1e-12, hermitian=True) @ (b * towards @ self.query_length / n)

    def one_head(self) -> OneHead:
        """Return the optimum of a single head over w (searched in (0, 4/sqrt(d))), with mu in closed form."""
        from scipy.optimize import minimize_scalar

        def best_risk(w: float) -> float:
            at = np.array([w])
            return self.risk(at, self.best_mu(at)).mse

        optimum = minimize_scalar(best_risk, bounds=(0.0, 4 / self.task.d_x**0.5), options={"xatol": 1e-4})
        w = np.array([optimum.x])
        mu = self.best_mu(w)
        return OneHead(w=float(optimum.x), mu=float(mu[0]), risk=self.risk(w, mu))

    def _softmax(self, w: float) -> PerPair:
        scores = w * self.query_length[:, None] * self.along
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def _risks(self, weights: PerPair) -> Float[np.ndarray, " draw"]:
        b, v, d = self.task.variance_of_beta, self.task.noise_variance, self.task.d_x
        towards = np.einsum("nl,nl->n", weights, self.along)
        size = np.einsum("nl,nl->n", weights, weights)
        bias = d - 2 * self.query_length * towards + towards**2 + (d - 1) * size
        return b * bias + v * size + self.task.noisy_query * v

    def _control(self) -> Control:
        step = theory.best_eta(self.task, debiased=True)
        centred = self.along - self.along.mean(axis=1, keepdims=True)
        weights = step[0, 0] / self.task.n_pairs * self.query_length[:, None] * centred
        expected = theory.gd_risk(self.task, step[:, :, None, None] * np.eye(self.task.d_x), debiased=True)
        return Control(errors=self._risks(weights), expected=float(expected[0]))

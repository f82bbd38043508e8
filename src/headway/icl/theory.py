"""Theory of in-context linear regression: exact risks of one gradient step, and the effective loss of heads.

Exact: pairs x ~ N(0, Sigma), y = beta . x + noise of variance v, coordinates of beta of variance b. A step predicts 1/L
sum_i y_i (x_i - [mean of x]) . P x_q. The scatter matrix S = 1/L sum_i x_i (x_i - [mean])^T is Wishart with m = L
degrees of freedom, or L - 1 when debiased, so for Gaussian x

    E S = (m/L) Sigma,   E S^2 = (m/L^2) [(m + 1) Sigma^2 + tr(Sigma) Sigma]
    risk(P) = q v + b tr[(I - S P) Sigma (I - S P)^T] + (v/L) tr(S P Sigma P^T), in expectation,

with q = 1 when the query is noisy, else 0. For Sigma = I, P = eta I, b = 1/d this is the published q v + 1 - eta at eta
= L/(L + d + 1 + d v), and debiased q v + 1 - eta (1 - 1/L) at eta = L/(L + d + d v).

Effective: for large L the risk of H softmax heads depends on their (w_h, mu_h) alone, as `EffectiveLoss` gives it. It
is an approximation. At d 5, L 40 it lies about 0.02 below the true risk in its own units, those of the variance of beta
. x (0.11 for beta ~ N(0, I)). The true risk is in `headway.icl.kernel_risk`.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734. Its formulas assume beta ~ N(0, I/d). The formulas here take
any variance of beta, any covariance of x for the steps, and a clean query too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headway.config.regression import Identity, RegressionTask
from headway.errors import UserError

PerHead = Float[np.ndarray, " head"]
Lengths = Sequence[int] | Int[np.ndarray, " length"] | None
Matrices = Float[np.ndarray, "#length d_y d_x d_x"]


def gd_risk(
    task: RegressionTask, matrices: Matrices, lengths: Lengths = None, *, debiased: bool
) -> Float[np.ndarray, " length"]:
    """Return the exact mean squared error of one step with these preconditioners, at each length.

    The error is averaged over outputs.

    Examples:
        The notebook's setting, with step 1: d [(1 - eta)^2 + eta^2 (d + 1 + v)/L].

        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
        >>> gd_risk(task, np.eye(5)[None, None], debiased=False).round(4).tolist()
        [0.7501]
    """
    ends = _lengths(task, lengths)
    b, v = task.variance_of_beta, task.noise_variance
    degrees = ends - 1.0 if debiased else ends * 1.0
    risks = np.empty((len(ends), task.d_y))
    for k, sigma in enumerate(_covariances(task)):
        p = np.broadcast_to(matrices[:, k], (len(ends), *sigma.shape))
        spread = p @ sigma @ p.swapaxes(1, 2)
        bias = np.trace(sigma) - 2 * degrees / ends * np.einsum("ij,ljk,ki->l", sigma, p, sigma)
        trace_s = degrees / ends * np.einsum("ij,lji->l", sigma, spread)
        trace_ss = (degrees + 1) * np.einsum("ij,lji->l", sigma @ sigma, spread) * degrees / ends**2
        trace_ss += np.trace(sigma) * trace_s / ends
        risks[:, k] = task.noisy_query * v + b * (bias + trace_ss) + v / ends * trace_s
    return risks.mean(axis=1)


def best_eta(task: RegressionTask, lengths: Lengths = None, *, debiased: bool) -> Float[np.ndarray, "length d_y"]:
    """Return the step of least exact risk for each length and output, without a preconditioner.

    With t_j = tr(Sigma^j): t_2 / [a t_3 + (t_1 + v/b) t_2 / L], a = 1 + 1/L, or 1 when debiased. For an output that
    reads k coordinates of x ~ N(0, I): L/(L + k + 1 + v/b), debiased L/(L + k + v/b).

    Examples:
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
        >>> best_eta(task, debiased=True).round(4).tolist()
        [[0.8889]]
    """
    ends = _lengths(task, lengths)[:, None]
    ratio = task.noise_variance / task.variance_of_beta
    sigmas = _covariances(task)
    t1, t2, t3 = (np.array([np.trace(np.linalg.matrix_power(sigma, j)) for sigma in sigmas]) for j in (1, 2, 3))
    largest = 1.0 if debiased else 1 + 1 / ends
    return t2 / (largest * t3 + (t1 + ratio) * t2 / ends)


def best_preconditioner(
    task: RegressionTask, lengths: Lengths = None, *, debiased: bool
) -> Float[np.ndarray, "length d_y d_x d_x"]:
    """Return the matrix P of least exact risk for each length and output: [a Sigma + (tr Sigma + v/b)/L I]^-1.

    a = 1 + 1/L, or 1 when debiased; the inverse is taken over the coordinates that an output reads. Long prompts
    make it Sigma^-1; for Sigma = I it is `best_eta` times I.
    """
    ends = _lengths(task, lengths)
    ratio = task.noise_variance / task.variance_of_beta
    best = np.zeros((len(ends), task.d_y, task.d_x, task.d_x))
    for k, mask in enumerate(task.read_mask()):
        at = np.ix_(mask, mask)
        sigma = task.covariance_matrix()[at]
        largest = np.ones(len(ends)) if debiased else 1 + 1 / ends
        shift = (np.trace(sigma) + ratio) / ends
        inverse = np.linalg.inv(largest[:, None, None] * sigma + shift[:, None, None] * np.eye(len(sigma)))
        best[:, k][:, *at] = inverse
    return best


def least_squares_risk(task: RegressionTask, lengths: Lengths = None) -> Float[np.ndarray, " length"]:
    """Return the exact mean squared error of least squares: k v/(L - k - 1) beyond the query's noise.

    The error is averaged over outputs. It is infinite at lengths L up to k + 1, k being the coordinates that an output
    reads: there the mean does not exist or least squares is not unique.
    """
    ends = _lengths(task, lengths)[:, None].astype(np.float64)
    k = task.read_mask().sum(axis=1)
    spare = ends - k - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        risks = np.where(spare > 0, task.noise_variance * k / spare, np.inf)
    return risks.mean(axis=1) + task.noisy_query * task.noise_variance


def proportional_gd_risk(ratio: float, noise: float) -> float:
    """Return the risk of the best single step when d and L grow with d/L = ratio.

    beta ~ N(0, I/d), and the query is noisy.

    Examples:
        >>> round(proportional_gd_risk(0.2, 3.0), 5)
        3.44444
    """
    _check_limit(ratio, noise)
    return noise + ratio * (1 + noise) / (1 + ratio * (1 + noise))


def proportional_bayes_risk(ratio: float, noise: float) -> float:
    """Return the risk of ridge regression, the Bayes estimator, in the proportional limit.

    Examples:
        >>> round(proportional_bayes_risk(0.2, 3.0), 5)
        3.40512
    """
    _check_limit(ratio, noise)
    return (noise + (ratio - 1) / ratio + math.sqrt(4 * noise + (noise + (1 - ratio) / ratio) ** 2)) / 2


def _check_limit(ratio: float, noise: float) -> None:
    if not (ratio > 0 and noise >= 0):
        raise UserError(f"ratio d/L {ratio} and noise variance {noise} were given; they must be > 0 and >= 0")


@dataclass(frozen=True, kw_only=True)
class EffectiveLoss:
    """The loss of H softmax heads as a function of their w and mu, for beta ~ N(0, I/d) and a noisy query.

    1 + s2 - 2 mu.w + mu^T M mu with M = w w^T + (1 + s2)/L exp(d w w^T), entry by entry; `noise` is s2.

    Examples:
        >>> effective = EffectiveLoss(d_x=5, n_pairs=40, noise=0.0001)
        >>> round(effective.eta, 4)
        0.8889
        >>> [round(float(number[0]), 3) for number in effective.one_head()]
        [0.447, 1.669]
    """

    d_x: int
    n_pairs: int
    noise: float

    @classmethod
    def of(cls, task: RegressionTask, output: int = 0) -> "EffectiveLoss":
        """Return the effective loss of one output of a task, in units of the variance of its signal.

        Raises:
            UserError: when x is anisotropic, which these formulas do not cover.
        """
        if not isinstance(task.covariance, Identity):
            raise UserError(
                f"the effective loss was asked for covariance {task.covariance.kind!r}, but it holds for x ~ N(0, I) "
                "only; use best_preconditioner and gd_risk, which are exact for any covariance"
            )
        d_x = int(task.read_mask()[output].sum())
        return cls(d_x=d_x, n_pairs=task.n_pairs, noise=task.noise_variance / (d_x * task.variance_of_beta))

    @property
    def eta(self) -> float:
        """eta* = 1/(1 + (1 + s2) d/L), the value of mu.w along the valley of two or more heads."""
        return 1 / (1 + (1 + self.noise) * self.d_x / self.n_pairs)

    def second_moment(self, w: PerHead) -> Float[np.ndarray, "head head"]:
        """Return M(w) = w w^T + (1 + s2)/L exp(d w w^T)."""
        outer = np.outer(w, w)
        with np.errstate(over="ignore"):  # inf is the right answer for heads that attend to one pair
            return outer + (1 + self.noise) / self.n_pairs * np.exp(self.d_x * outer)

    def loss(self, w: PerHead, mu: PerHead) -> float:
        """Return the effective loss, with the query's noise."""
        return float(1 + self.noise - 2 * mu @ w + mu @ self.second_moment(w) @ mu)

    def gradients(self, w: PerHead, mu: PerHead) -> tuple[PerHead, PerHead]:
        """Return the gradients of the loss with respect to w and to mu."""
        kernel = np.exp(self.d_x * np.outer(w, w)) * np.outer(mu, mu)
        by_w = -mu + (mu @ w) * mu + self.d_x * (1 + self.noise) / self.n_pairs * kernel @ w
        return 2 * by_w, 2 * (self.second_moment(w) @ mu - w)

    def best_mu(self, w: PerHead) -> PerHead:
        """Return mu*(w) = M(w)^-1 w, of least norm where equal w make M singular."""
        return np.linalg.pinv(self.second_moment(w), rcond=1e-12, hermitian=True) @ w

    def one_head(self) -> tuple[Float[np.ndarray, " 1"], Float[np.ndarray, " 1"]]:
        """Return the minimum of one head: w = 1/sqrt(d), mu = sqrt(d)/(1 + (1 + s2) d e/L)."""
        mu = math.sqrt(self.d_x) / (1 + (1 + self.noise) * self.d_x * math.e / self.n_pairs)
        return np.array([1 / math.sqrt(self.d_x)]), np.array([mu])

    def valley_loss(self) -> float:
        """Return 1 + s2 - eta*, which two or more heads approach as their w tend to 0 with sum mu = 0."""
        return 1 + self.noise - self.eta


def effective_risk(task: RegressionTask, loss: float, output: int = 0) -> float:
    """Return an effective loss of one output as a squared error of its task, with a noisy query or a clean one."""
    effective = EffectiveLoss.of(task, output)
    return effective.d_x * task.variance_of_beta * (loss - effective.noise) + task.noisy_query * task.noise_variance


@dataclass(frozen=True, kw_only=True)
class Flow:
    """A path of gradient flow; `time` is step size times steps."""

    time: Float[np.ndarray, " point"]
    w: Float[np.ndarray, "point head"]
    mu: Float[np.ndarray, "point head"]
    loss: Float[np.ndarray, " point"]


def gradient_flow(
    effective: EffectiveLoss,
    w: PerHead,
    mu: PerHead,
    *,
    steps: int = 1_000,
    step_size: float = 0.01,
    every: int = 1,
) -> Flow:
    """Descend half the effective loss from (w, mu) in small steps; `small_start` is the published beginning.

    Returns:
        The path at step 0, at every `every` steps and at the last one.
    """
    times, path_w, path_mu = [], [], []
    for step in range(steps + 1):
        if step % every == 0 or step == steps:
            times.append(step * step_size)
            path_w.append(w)
            path_mu.append(mu)
        by_w, by_mu = effective.gradients(w, mu)
        w, mu = w - step_size / 2 * by_w, mu - step_size / 2 * by_mu
    losses = [effective.loss(a, b) for a, b in zip(path_w, path_mu, strict=True)]
    return Flow(time=np.array(times), w=np.array(path_w), mu=np.array(path_mu), loss=np.array(losses))


def small_start(n_heads: int, size: float = 1e-3) -> PerHead:
    """Return the initial values of gradient flow, for w and for mu: +size and -size in turn.

    Examples:
        >>> small_start(2).tolist()
        [0.001, -0.001]
    """
    return size * (-1.0) ** np.arange(n_heads)


def _lengths(task: RegressionTask, lengths: Lengths) -> np.ndarray:
    return np.array([task.n_pairs] if lengths is None else lengths)


def _covariances(task: RegressionTask) -> list[np.ndarray]:
    # An output sees only the coordinates that it reads: the others count as variance 0.
    return [np.where(np.outer(mask, mask), task.covariance_matrix(), 0.0) for mask in task.read_mask()]

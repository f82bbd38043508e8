"""The gain from a second head: the least risk of one softmax head over that of two, without noise.

By the effective loss of He et al. this ratio rises with the prompt to e, in any dimension. That loss takes |x_q|^2 for
d. The true risk (`kernel_risk`) does not. As prompts grow, a head that looks along w x_q with weights exp(w x_i . x_q)
misses

    L risk = d/w^2 (1 - 2 w^2)^(-d/2) [1 + w^2 / (1 - 2 w^2)],

the second moment of what it sees around its mean, averaged over |x_q|^2, chi-squared with d degrees of freedom. Two
heads of opposite sign, whose w tend to 0, miss d (d + 1). The ratio of the least of the first to the second is above e,
and tends to e only as d grows. In few dimensions one head suffers from queries of different lengths; two heads do not.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734, for the effective loss; the limit of the true risk is ours.
"""

import math

import numpy as np

from headway.config.regression import RegressionTask
from headway.icl.kernel_risk import KernelRisk
from headway.icl.theory import EffectiveLoss

_SMALLEST = 0.02
"""The least w sqrt(d) of two heads; below, they are a debiased gradient step up to rounding."""


def effective_worth(task: RegressionTask) -> float:
    """Return the ratio of least losses by the effective loss.

    Examples:
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40)
        >>> round(effective_worth(task), 2)
        2.28
    """
    effective = EffectiveLoss.of(task)
    return float(effective.loss(*effective.one_head()) / effective.valley_loss())


def effective_worth_at(length: float) -> float:
    """Return the effective gain in closed form; it depends only on the prompt's length over its dimension.

    Examples:
        >>> round(effective_worth_at(40 / 5), 2), round(effective_worth_at(1e9), 4)
        (2.28, 2.7183)
    """
    return (1 - 1 / (1 + math.e / length)) / (1 - 1 / (1 + 1 / length))


def exact_worth(task: RegressionTask, draws: int = 20_000) -> float:
    """Return the ratio of least true risks, partly by simulation."""
    from scipy.optimize import minimize_scalar

    risk = KernelRisk.of(task, draws)

    def of_two(w: float) -> float:
        opposite = np.array([w, -w])
        return risk.risk(opposite, risk.best_mu(opposite)).mse

    unit = task.d_x**-0.5
    optimum = minimize_scalar(of_two, bounds=(_SMALLEST * unit, 2 * unit), options={"xatol": 0.02 * unit})
    return risk.one_head().risk.mse / min(float(optimum.fun), of_two(_SMALLEST * unit))


def worth_in_the_limit(d_x: int) -> float:
    """Return the limit of the ratio of true risks as prompts grow.

    Examples:
        >>> [round(worth_in_the_limit(d), 3) for d in (2, 5, 10, 10_000)]
        [3.697, 3.193, 2.972, 2.719]
    """
    from scipy.optimize import minimize_scalar

    def of_one(u: float) -> float:
        """Return the logarithm of L risk / d at w^2 = u/d."""
        rest = 1 - 2 * u / d_x
        return math.log(d_x / u) - d_x / 2 * math.log(rest) + math.log1p(u / d_x / rest)

    optimum = minimize_scalar(of_one, bounds=(1e-3, min(2.0, 0.499 * d_x)), options={"xatol": 1e-9})
    return math.exp(optimum.fun) / (d_x + 1)

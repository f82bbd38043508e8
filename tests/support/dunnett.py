"""The bound of contrasts that share one baseline, by quadrature: slow, and certainly right."""

import math

from scipy import special
from scipy.integrate import quad
from scipy.optimize import brentq


def exact_star_p(q: float, n_contrasts: int, freedom: float) -> float:
    """The chance that the largest |T| of contrasts with one baseline (correlation .5) is at least q.

    Paper: Dunnett 1955; P(max |T| <= q) is an integral over the baseline and over the pooled spread.
    """

    def given_spread(s: float) -> float:
        def given_baseline(z: float) -> float:
            inside = special.ndtr(math.sqrt(2) * q * s + z) - special.ndtr(-math.sqrt(2) * q * s + z)
            return float(inside**n_contrasts * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

        return float(quad(given_baseline, -9, 9, epsabs=1e-11, limit=200)[0])

    def density(s: float) -> float:
        log = (freedom / 2) * math.log(freedom / 2) + math.log(2) - special.gammaln(freedom / 2)
        return math.exp(log + (freedom - 1) * math.log(s) - freedom * s * s / 2) if s > 0 else 0.0

    return 1 - float(quad(lambda s: density(s) * given_spread(s), 0, 6, epsabs=1e-9, limit=200)[0])


def exact_star_bound(n_contrasts: int, freedom: float, level: float = 0.05) -> float:
    """What the largest |T| exceeds with a chance of `level`."""
    return float(brentq(lambda q: exact_star_p(q, n_contrasts, freedom) - level, 1.5, 20, xtol=1e-8))

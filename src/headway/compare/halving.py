"""Compare: the best of many arms by sequential halving: seeds go to those that may still be the best.

Every round costs about as much as every other and keeps the better half by the mean over all seeds so far. What the
search picks is flattered by the seeds that picked it, so it makes no verdict: finalists get fresh seeds for that.

Paper: Karnin, Koren and Somekh 2013; there a round judges by its own pulls alone, here by all so far.
"""

import math

import numpy as np
from jaxtyping import Bool, Float

MOST_FINALISTS = 4
LEAST_CHANCE = 0.05
"""Two finalists at least; a third and a fourth only where they may as well be the best."""

_DRAWS = 20_000


def sizes(n_arms: int) -> tuple[int, ...]:
    """How many arms are left in each round.

    Examples:
        >>> sizes(32), sizes(5)
        ((32, 16, 8, 4, 2), (5, 3, 2))
    """
    found = [n_arms]
    while found[-1] > 2:
        found.append(math.ceil(found[-1] / 2))
    return tuple(found)


def new_seeds(n_arms: int, budget: int) -> tuple[int, ...]:
    """How many new seeds every arm that is left gets in each round, for so many runs in all.

    A round gets an equal part of the runs that are left, but a seed at least.

    Raises:
        ValueError: when there is not a seed for each.

    Examples:
        >>> new_seeds(32, 160)
        (1, 2, 4, 8, 16)
    """
    left, found = sizes(n_arms), []
    if budget < sum(left):
        raise ValueError(f"{budget} runs: a seed for each of {', '.join(map(str, left))} arms takes {sum(left)}")
    for place, n in enumerate(left):
        equal = budget // (len(left) - place) // n
        found.append(max(1, min(equal, (budget - sum(left[place + 1 :])) // n)))
        budget -= found[-1] * n
    return tuple(found)


def ranked(y: Float[np.ndarray, "arm seed"]) -> tuple[int, ...]:
    """Arms from the least to the greatest mean over their seeds, by place; those without a value come last.

    Runs that failed are missing: what a seed does to all arms is taken out first.
    """
    some = np.isfinite(y).any(0)
    beside = y[:, some] - np.nanmean(y[:, some], 0)
    valued = np.isfinite(beside).any(1)
    means = np.full(len(y), np.inf)
    means[valued] = np.nanmean(beside[valued], 1)
    return tuple(np.argsort(means, kind="stable").tolist())


def chances(y: Float[np.ndarray, "arm seed"], first: int) -> Float[np.ndarray, " arm"]:
    """How probable it is of each arm that it is truly the least, given all seeds.

    Arms scatter normally about a common mean, with a spread that is read off the first round; runs about their arm and
    seed, with the pooled spread. That arms of chance were dropped by the same seeds needs no correction then: given the
    data, the probability does not depend on who chose what was run.

    Args:
        y: in per cent, of all arms of the search and all its seeds; NaN where it was not run.
        first: seeds of the first round, which all arms have.
    """
    known = np.isfinite(y)
    if not known.any(1).sum() > 1:
        return known.any(1) / max(1, known.any(1).sum())
    counts, per_seed = known.astype(float), np.maximum(known.sum(0), 1)
    # Normal equations of arm + seed, with the seeds eliminated.
    precision = np.diag(counts.sum(1)) - (counts / per_seed) @ counts.T
    filled = np.where(known, y, 0.0)
    right = (filled - counts * (filled.sum(0) / per_seed)).sum(1)
    noise = _noise(filled, known, precision, right)
    early = np.where(known[:, :first], y[:, :first], np.nan)
    means = np.array([np.nanmean(row) for row in early[np.isfinite(early).any(1)]])
    between = max(float(means.var(ddof=1)) - noise / first, 1e-3 * noise) if len(means) > 1 else noise
    posterior = np.linalg.inv(precision / noise + np.eye(len(y)) / between)
    drawn = np.random.default_rng(0).multivariate_normal(
        posterior @ right / noise, posterior, _DRAWS, method="cholesky"
    )
    drawn[:, ~known.any(1)] = np.inf
    return np.bincount(drawn.argmin(1), minlength=len(y)) / _DRAWS


def _noise(
    filled: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    precision: Float[np.ndarray, "arm arm"],
    right: Float[np.ndarray, " arm"],
) -> float:
    """The variance of a run beside its arm and its seed."""
    arms = np.linalg.lstsq(precision, right, rcond=1e-10)[0]
    beside = np.where(known, filled - arms[:, None], 0.0)
    rest = np.where(known, beside - beside.sum(0) / np.maximum(known.sum(0), 1), 0.0)
    freedom = int(known.sum()) - int(known.any(1).sum()) - int(known.any(0).sum()) + 1
    return max(float((rest**2).sum()) / max(1, freedom), 1e-12)


def finalists(picked: int, chance: Float[np.ndarray, " arm"]) -> tuple[int, ...]:
    """The arm that was picked, and one to three others that may as well be the best, by place.

    Examples:
        >>> finalists(2, np.array([0.3, 0.1, 0.55, 0.03, 0.02]))
        (2, 0, 1)
    """
    others = [int(at) for at in np.argsort(-chance, kind="stable") if at != picked]
    near = [at for place, at in enumerate(others) if place == 0 or chance[at] >= LEAST_CHANCE]
    return (picked, *near[: MOST_FINALISTS - 1])

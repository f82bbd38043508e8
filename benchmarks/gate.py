"""How often `headway gate` keeps useless changes, and how many pairs it needs: the tables of docs/gate.md.

    python benchmarks/gate.py [--sequences 2000] [--challengers 50] [--rate 0.05] [--budget 24]

Useless changes: sequences of challengers whose runs have the distribution of the champion's, with spreads of several
kinds, and on machines that drift. Both runs of a pair move together, and the second one moves on; it is the champion's
and the challenger's in turn. A sequence is wrong if any challenger is kept. Beside the gate stand two habits: keep
whatever beats the best run so far (a running minimum), and a paired t test at the rate after every pair.

True changes: the share that is kept within a number of pairs of a budget of 24, the pairs after which 80 % are kept
without a budget, and the pairs of a t test with a fixed number of pairs.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from headway.gate.evidence import bound, fewest_pairs, spent_rate

NEVER = 10**6
"""The pairs of a challenger that is not kept."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

SPREADS: dict[str, Draw] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "t3": lambda rng, size: rng.standard_t(3, size),
    "lognormal": lambda rng, size: np.exp(rng.standard_normal(size)),
    "uniform": lambda rng, size: rng.random(size),
    "two values": lambda rng, size: (rng.random(size) < 0.5) * 1.0,
    "one in five stuck": lambda rng, size: 0.05 * rng.standard_normal(size) + (rng.random(size) < 0.2),
    "rounded to its spread": lambda rng, size: np.round(rng.standard_normal(size)),
}
"""Distributions of a run's metric."""

DRIFTS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "steady drift, 1 spread a run": lambda _, n, runs: np.tile(np.arange(runs), (n, 1)),
    "random walk, 1 spread a run": lambda rng, n, runs: np.cumsum(rng.standard_normal((n, runs)), 1),
    "ever faster drift": lambda _, n, runs: np.tile(0.25 * np.arange(runs) ** 2, (n, 1)),
    "the second run of a pair is 5 spreads worse": lambda _, n, runs: np.tile(5.0 * (np.arange(runs) % 2), (n, 1)),
}
"""What a machine adds to its runs in the order of time."""


def useless(rng: np.random.Generator, n: int, pairs: int, *, draw: Draw, unequal: float = 1.0) -> np.ndarray:
    """Return the differences (challenger, pair) of changes that change nothing, or the spread alone."""
    return draw(rng, (n, pairs)) - unequal * draw(rng, (n, pairs))


def drifting(rng: np.random.Generator, n: int, pairs: int, *, drift: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the differences of useless changes on a machine that drifts; runs of a pair change places each time."""
    added = drift(rng, n, 2 * pairs)
    sign = 1 - 2 * ((rng.integers(0, 2, (n, 1)) + np.arange(pairs)) % 2)
    return useless(rng, n, pairs, draw=SPREADS["normal"]) + sign * (added[:, 1::2] - added[:, ::2])


NULLS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    **{name: partial(useless, draw=draw) for name, draw in SPREADS.items()},
    "normal, the challenger varies 4 times as much": partial(useless, draw=SPREADS["normal"], unequal=4.0),
    **{name: partial(drifting, drift=drift) for name, drift in DRIFTS.items()},
}


def pairs_until_kept(differences: np.ndarray, level: float, budget: int | None = None) -> np.ndarray:
    """Return the pairs after which each challenger is kept, looked at after every pair; with a budget, if it lasts."""
    bounds = np.array([bound(n, level) for n in range(1, differences.shape[1] + 1)])
    with np.errstate(invalid="ignore"):
        normed = np.cumsum(differences, 1) / np.sqrt(np.cumsum(differences**2, 1))
    kept = first(normed >= bounds - 1e-9)
    return kept if budget is None else np.where(kept <= pairs_until_given_up(differences, level, budget), kept, NEVER)


def pairs_until_given_up(differences: np.ndarray, level: float, budget: int) -> np.ndarray:
    """Return the pairs after which the rest of a budget would hardly decide, as `is_hopeless` has it."""
    n = np.arange(1, budget + 1)
    sums, squares = (np.cumsum(differences[:, :budget] ** power, 1) for power in (1, 2))
    mean = sums / n
    with np.errstate(invalid="ignore", divide="ignore"):
        hoped = mean + np.sqrt(np.maximum(squares - n * mean**2, 0) / (n - 1))
        normed = (sums + (budget - n) * hoped) / np.sqrt(squares + (budget - n) * hoped**2)
    given_up = first((normed < bound(budget, level)) & (n >= fewest_pairs(level)))
    return np.minimum(given_up, budget)


def first(kept: np.ndarray) -> np.ndarray:
    """Return the number of the first pair after which a challenger is kept."""
    return np.where(kept.any(1), kept.argmax(1) + 1, NEVER)


def t_test_at_every_pair(differences: np.ndarray, level: float) -> np.ndarray:
    """Return the pairs after which a paired one-sided t test at the level, repeated after every pair, keeps."""
    n = np.arange(1, differences.shape[1] + 1)
    mean = np.cumsum(differences, 1) / n
    with np.errstate(invalid="ignore", divide="ignore"):
        sd = np.sqrt((np.cumsum(differences**2, 1) - n * mean**2) / (n - 1))
        return first((mean * np.sqrt(n) / sd >= stats.t.isf(level, n - 1)) & (n > 1))


def false_keeps(args: argparse.Namespace) -> None:
    """Print how many sequences keep a useless change, by the gate and by what people do instead."""
    rng = np.random.default_rng(0)
    print(f"{args.sequences:,} sequences of {args.challengers} useless changes, at most {args.budget} pairs each:")
    print("| runs | gate | pairs of each change | t test at every pair |\n|---|---|---|---|")
    for name, draw in NULLS.items():
        wrong, pairs = np.zeros((2, args.sequences), bool), 0.0
        for number in range(1, args.challengers + 1):
            differences = draw(rng, args.sequences, args.budget)
            level = spent_rate(args.rate, number, args.challengers)
            wrong[0] |= pairs_until_kept(differences, level, args.budget) < NEVER
            pairs += pairs_until_given_up(differences, level, args.budget).mean() / args.challengers
            wrong[1] |= t_test_at_every_pair(differences, args.rate) < NEVER
        print(f"| {name} | {100 * wrong[0].mean():.1f} % | {pairs:.0f} | {100 * wrong[1].mean():.0f} % |", flush=True)
    runs = rng.standard_normal((args.sequences, args.challengers + 1))
    kept = (runs[:, 1:] < np.minimum.accumulate(runs, 1)[:, :-1]).sum(1).mean()
    print(f"a running minimum of single runs keeps {kept:.1f} useless changes of {args.challengers}")


def fixed_pairs(effect: float, level: float, power: float = 0.8) -> int:
    """Return the pairs of a paired one-sided t test, fixed before, that finds an effect with a power."""
    n = np.arange(2, 2_000)
    chance = stats.nct.sf(stats.t.isf(level, n - 1), n - 1, effect * np.sqrt(n))
    return int(n[np.nanargmax(chance >= power)])


def power(args: argparse.Namespace, n: int = 20_000) -> None:
    """Print how often true changes are kept, by their worth in units of a run's spread."""
    rng = np.random.default_rng(1)
    columns = (6, 8, 10, 12, 16, 24)
    for number in (1, args.challengers + 1):
        level = spent_rate(args.rate, number, args.challengers)
        print(f"\nchallenger {number}, level {level:.2g}: kept within so many pairs")
        print(f"| worth | {' | '.join(map(str, columns))} | pairs for 80 % | fixed t test |")
        print("|---|" + "---|" * (len(columns) + 2))
        for worth in (1.0, 1.5, 2.0, 3.0, 4.0):
            differences = worth + useless(rng, n, 100, draw=SPREADS["normal"])
            pairs = pairs_until_kept(differences, level)
            within = pairs_until_kept(differences, level, columns[-1])
            shares = " | ".join(f"{np.mean(within <= column):.2f}" for column in columns)
            needed = np.quantile(pairs, 0.8, method="higher")
            print(f"| {worth:g} | {shares} | {needed} | {fixed_pairs(worth / 2**0.5, level)} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=2_000)
    parser.add_argument("--challengers", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--budget", type=int, default=24)
    args = parser.parse_args()
    false_keeps(args)
    power(args)


if __name__ == "__main__":
    main()

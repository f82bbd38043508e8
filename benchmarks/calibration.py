"""How often the verdicts err, simulated through the functions that give them: the table of LOG.md.

    python benchmarks/calibration.py [--sweeps 20000] [--processes 2]

Families: the 13 comparisons of head progression, its two declared order contrasts, and four arms with one baseline. A
sweep is wrong where an interval of the family misses the true difference, 0; with a plan, where any verdict of any look
is wrong. Detectable effects are those that the verdict itself states; equivalence is tested at a true difference of
exactly the margin.
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from headway.compare.blocks import judge
from headway.compare.look_plan import LookPlan, follow

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "laws"))
from test_family import FAMILIES

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""From a generator, a number of arms and of seeds to runs (arm, seed) of arms that do not differ."""


def runs(rng: np.random.Generator, arms: int, n: int, *, spread: str) -> np.ndarray:
    """What a seed does to all arms, and what each run does by itself, standard deviation 1."""
    deviations = {
        "mild": lambda: 1.6 ** rng.uniform(-1, 1, arms),
        "strong": lambda: 2.5 ** rng.uniform(-1, 1, arms),
        "odd arm": lambda: np.where(np.arange(arms) == 3 % arms, 3.0, 1.0),
        "odd baseline": lambda: np.where(np.arange(arms) == 4 % arms, 3.0, 1.0),
    }.get(spread, lambda: np.ones(arms))()
    size = (arms, n)
    rest = {
        "t3": lambda: rng.standard_t(3, size) / np.sqrt(3),
        "skewed": lambda: rng.exponential(size=size) - 1,
        "stuck": lambda: rng.normal(size=size) + 20 * (rng.random(size) < 0.05),
    }.get(spread, lambda: rng.normal(size=size))()
    return 0.5 * rng.normal(size=n) + deviations[:, None] * rest


SPREADS = ("normal", "mild", "strong", "odd arm", "odd baseline", "t3", "skewed", "stuck")


def misses(family: str, spread: str, n: int, sweeps: int, seed: int) -> int:
    """Sweeps in which an interval misses 0."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    for _ in range(sweeps):
        found = judge(runs(rng, weights.shape[1], n, spread=spread), weights).contrasts
        count += any(one.interval and not one.interval[0] <= 0 <= one.interval[1] for one in found)
    return count


def wrong_until(family: str, spread: str, margin: float, sweeps: int, seed: int) -> int:
    """Sweeps of a plan 3, 4, 6, 8, 12 in which anything that was settled is wrong: nothing differs."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    plan = LookPlan.until(12, margin)
    for _ in range(sweeps):
        found = follow(plan, runs(rng, weights.shape[1], 12, spread=spread), weights)
        count += any(one.outcome in ("apart", "small") for one in found.contrasts)
    return count


def found_of_stated(family: str, n: int, sweeps: int, seed: int) -> int:
    """Sweeps in which a planted difference of the stated size, at the true spread, is told apart."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    arms = weights.shape[1]
    stated = [judge(runs(rng, arms, n, spread="normal"), weights).contrasts[0] for _ in range(2_000)]
    effect = float(np.sqrt(np.mean([(one.detectable or 0.0) ** 2 for one in stated])))
    lift = effect * np.linalg.pinv(weights[:1])[:, 0]
    for _ in range(sweeps):
        one = judge(runs(rng, arms, n, spread="normal") + lift[:, None], weights).contrasts[0]
        count += bool(one.interval and one.interval[0] > 0)
    return count


def wrongly_same(family: str, n: int, sweeps: int, seed: int) -> int:
    """Sweeps in which arms that differ by exactly the margin are said to be the same."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    margin, arms = 3.0, weights.shape[1]
    lift = margin * np.linalg.pinv(weights[:1])[:, 0]
    for _ in range(sweeps):
        one = judge(runs(rng, arms, n, spread="normal") + lift[:, None], weights).contrasts[0]
        count += bool(one.interval and -margin < one.interval[0] and one.interval[1] < margin)
    return count


def share(pool: ProcessPoolExecutor, processes: int, sweeps: int, simulate: Callable[..., int]) -> float:
    """The share of sweeps, each process with its own seed."""
    portion = sweeps // processes
    return sum(pool.map(partial(simulate, portion), range(processes))) / (portion * processes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:

        def cell(simulate: Callable[..., int], *arguments: object) -> str:
            found = share(pool, asked.processes, asked.sweeps, partial(simulate, *arguments))
            return f"{found:.3f}"

        print(f"{asked.sweeps:,} sweeps each; an interval of the family misses\n")
        print("| family | seeds | " + " | ".join(SPREADS) + " |")
        print("|---" * (2 + len(SPREADS)) + "|")
        for family in FAMILIES:
            for n in (3, 5, 10):
                cells = [cell(misses, family, spread, n) for spread in SPREADS]
                print(f"| {family} | {n} | {' | '.join(cells)} |", flush=True)
        print("\nany wrong verdict of the plan 3, 4, 6, 8, 12 (margin 1 sd)\n")
        print("| family | " + " | ".join(SPREADS) + " |")
        print("|---" * (1 + len(SPREADS)) + "|")
        for family in ("13 comparisons", "order"):
            cells = [cell(wrong_until, family, spread, 1.0) for spread in SPREADS]
            print(f"| {family} | {' | '.join(cells)} |", flush=True)
        print(
            "\n| family | seeds | stated detectable effect found | wrongly the same at the margin |\n|---|---|---|---|"
        )
        for family in FAMILIES:
            for n in (3, 5, 10):
                print(
                    f"| {family} | {n} | {cell(found_of_stated, family, n)} | {cell(wrongly_same, family, n)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""How often the verdicts err, simulated through the functions that give them: the table of LOG.md.

    python benchmarks/calibration.py [--sweeps 20000] [--processes 2] [--tables families,plans,detectable,...]

Families: the 13 comparisons of head progression, its two declared order contrasts, and four arms with one baseline. A
sweep is wrong where an interval of the family misses the true difference, 0; with a plan, where any verdict of any look
is wrong, and an arm gets seeds only while a question that needs it is open, as `headway run --until` gives them.
Detectable effects are those that the verdict itself states; equivalence is tested at a true difference of exactly the
margin.  Associations are of a loss
with two numbers of heads that it does not depend on, or of which half of its deviations are; statements on heads are
those that were published, of models whose heads do nothing. Effects: how often intervals of ablation effects hold, of
lognormal effects and of real ones, where documents are drawn from those of a trained model (shared/data).
"""

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headway.stats.blocks import block_test, needed_arms, reading, run_plan
from headway.stats.sequential import LookPlan, looks_until

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from laws.test_associations_hold import KINDS, p_of
from laws.test_curves_hold import off_the_curve
from laws.test_effects_hold import covered, lognormal, normal
from laws.test_odd_arms import PLACES
from laws.test_statements_silent import verdicts
from support.many_families import FAMILIES as LARGER
from support.many_families import ODD, judged, missed, of_odd_arms, star, wrong_in_plans

FAMILIES = {"2 arms": np.array([[-1.0, 1.0]]), **LARGER}

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
        found = block_test(runs(rng, weights.shape[1], n, spread=spread), weights).contrasts
        count += any(one.interval and not one.interval[0] <= 0 <= one.interval[1] for one in found)
    return count


def verdicts_until(plan: LookPlan, drawn: np.ndarray, weights: np.ndarray) -> tuple[list[str], int]:
    """What a plan ends with, and how many runs it took, where arms leave when no open question needs them."""
    shown, ended, last = np.full_like(drawn, np.nan), np.zeros(drawn.shape, bool), None
    first = plan.looks[0]
    shown[:, :first], ended[:, :first] = drawn[:, :first], True
    for last in run_plan(plan, shown, weights, ended):
        arms = list(needed_arms(weights, last.open))
        n = plan.looks[min(last.look or 0, len(plan.looks) - 1)]
        shown[arms, :n], ended[arms, :n] = drawn[arms, :n], True
    assert last is not None
    return [one.outcome for one in last.contrasts], int(ended.sum())


def wrong_until(family: str, spread: str, margin: float, sweeps: int, seed: int) -> int:
    """Sweeps of a plan 3, 4, 6, 8, 12 in which anything that was settled is wrong: nothing differs."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    plan = LookPlan(looks=looks_until(12), margin=margin)
    for _ in range(sweeps):
        outcomes, _ = verdicts_until(plan, runs(rng, weights.shape[1], 12, spread=spread), weights)
        count += any(one in ("apart", "small") for one in outcomes)
    return count


def same_until(family: str, spread: str, margin: float, sweeps: int, seed: int) -> int:
    """Sweeps of a plan in which anything that differs by exactly the margin is said to be the same: all of it does."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    plan, lift = LookPlan(looks=looks_until(12), margin=margin), np.linalg.pinv(weights) @ np.full(len(weights), margin)
    for _ in range(sweeps):
        drawn = runs(rng, weights.shape[1], 12, spread=spread) + lift[:, None]
        count += "same" in verdicts_until(plan, drawn, weights)[0]
    return count


def spent_until(family: str, effect: float, margin: float, sweeps: int, seed: int) -> int:
    """Runs that a plan takes where effects are drawn; of 12 for each arm."""
    weights, rng, total = FAMILIES[family], np.random.default_rng(seed), 0
    used = (weights != 0).any(0)
    for _ in range(sweeps):
        drawn = runs(rng, weights.shape[1], 12, spread="normal") + effect * rng.normal(size=(weights.shape[1], 1))
        total += verdicts_until(LookPlan(looks=looks_until(12), margin=margin), drawn[used], weights[:, used])[1]
    return total


def followed(arms: int, n: int, margin: float, effect: float | None, sweeps: int, seed: int) -> np.ndarray:
    """Sums of three numbers: open differences, the stated chances to settle them, and those that the seeds settle.

    True differences of the first arm are `effect` times the margin, or drawn with the margin as standard deviation.
    """
    weights, rng, sums = np.eye(arms)[1:] - np.eye(arms)[0], np.random.default_rng(seed), np.zeros(3)
    plan = LookPlan(looks=(n,), margin=margin)
    for _ in range(sweeps):
        true = margin * (rng.normal() if effect is None else effect)
        before = runs(rng, arms, n, spread="normal") + true * np.eye(arms)[1][:, None]
        test = block_test(before, weights)
        if reading(test.contrasts[0], margin) == "open" and (settling := test.settling(plan, 0)):
            more = runs(rng, arms, settling[0], spread="normal") + true * np.eye(arms)[1][:, None]
            later = block_test(np.hstack([before, more]), weights).contrasts[0]
            sums += 1, settling[1], reading(later, margin) != "open"
    return sums


def found_of_stated(family: str, n: int, sweeps: int, seed: int) -> int:
    """Sweeps in which a planted difference of the median stated size is told apart."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    arms = weights.shape[1]
    stated = [block_test(runs(rng, arms, n, spread="normal"), weights).contrasts[0] for _ in range(2_000)]
    effect = float(np.median([one.detectable or 0.0 for one in stated]))
    lift = effect * np.linalg.pinv(weights[:1])[:, 0]
    for _ in range(sweeps):
        one = block_test(runs(rng, arms, n, spread="normal") + lift[:, None], weights).contrasts[0]
        count += bool(one.interval and one.interval[0] > 0)
    return count


def wrongly_same(family: str, n: int, sweeps: int, seed: int) -> int:
    """Sweeps in which arms that differ by exactly the margin are said to be the same."""
    weights, rng, count = FAMILIES[family], np.random.default_rng(seed), 0
    margin, arms = 3.0, weights.shape[1]
    lift = margin * np.linalg.pinv(weights[:1])[:, 0]
    for _ in range(sweeps):
        one = block_test(runs(rng, arms, n, spread="normal") + lift[:, None], weights).contrasts[0]
        count += bool(one.interval and -margin < one.interval[0] and one.interval[1] < margin)
    return count


def associated(kind: str, n: int, n_seeds: int, common: float, sweeps: int, seed: int) -> int:
    """Experiments in which the loss is told to go with the heads."""
    rng = np.random.default_rng(seed)
    return sum(p_of(rng, KINDS[kind], n, n_seeds, common) < 0.05 for _ in range(sweeps))


def odd(family: str, kind: str, n: int, sweeps: int, seed: int) -> float:
    """Families with an odd arm that are wrong: in a plan, or at n seeds."""
    weights, places = PLACES[family]
    y = of_odd_arms(kind, sweeps, weights.shape[1], n or 12, seed=seed, **places)
    return sweeps * (missed(y, weights) if n else wrong_in_plans(y, weights, margin=2.0))


def beside_the_curve(n: int, sweeps: int, seed: int) -> int:
    """Experiments in which one of seven models on the curve of plain models is said to lie off it."""
    return sum(off_the_curve(np.random.default_rng((seed, sweep)), n) for sweep in range(sweeps))


def held(kind: str, n: int, sweeps: int, seed: int) -> np.ndarray:
    """Of models with effects of so many documents, sums of three shares: see `covered`."""
    if kind in ("normal", "lognormal"):
        draw, truth = (normal, 0.0) if kind == "normal" else (lognormal, float(np.exp(0.5)))
        return sweeps * covered(draw, truth, n, sweeps, seed)
    every = real_effects()[kind]

    def some(random: np.random.Generator, n: int) -> np.ndarray:
        return every[:, random.choice(every.shape[1], n, replace=False)]

    return sweeps * covered(some, every.mean(1), n, sweeps, seed)


@cache
def real_effects() -> dict[str, np.ndarray]:
    """The effects of 40 heads of a TinyStories model on the beginnings of 1,000 stories, by kind of ablation."""
    import torch
    from support.stored import data
    from support.stories import BOS, MODEL, VOCAB_SIZE, Tokenizer, load

    from headway.causal.ablation import BatchedText
    from headway.models.transformer import Transformer

    torch.set_num_threads(1)
    model = Transformer(MODEL, VOCAB_SIZE, load(data("stories260K/weights.npz"))).eval()
    tokenizer = Tokenizer(data("stories260K/tok512.bin"))
    texts = []
    for file in ("valid.txt", "train.txt"):
        stories = data(f"tinystories/{file}").read_text().split("<|endoftext|>")
        tokens = ([BOS, *tokenizer.encode(story.strip()[:700])][:129] for story in stories)
        texts.append(torch.tensor(list(islice((one for one in tokens if len(one) == 129), 1000))))
    own, other = texts
    found = BatchedText.read(model, own[:, :-1], own[:, 1:], other[:, :-1]).exact()
    return {kind: np.concatenate(effects.per_sequence) for kind, effects in found.single.items()}


LAYER_STATEMENTS = ("orthogonality-falls", "disagreement-rises", "layer-0-settles", "early-layers-differ")


def stated(n_layers: int, n_seeds: int, together: float, sweeps: int, seed: int) -> np.ndarray:
    """Of experiments in which nothing happens, those in which each of four statements holds or does not."""
    found = verdicts(sweeps, n_layers, n_seeds, together=together, stream=seed)
    return np.array([found[name]["holds"] + found[name]["does not hold"] for name in LAYER_STATEMENTS])


def share(pool: ProcessPoolExecutor, processes: int, sweeps: int, simulate: Callable[..., Any]) -> Any:
    """The share of sweeps, each process with its own seed."""
    portion = sweeps // processes
    return sum(pool.map(partial(simulate, portion), range(processes))) / (portion * processes)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tables", default=",".join(TABLES), help="of " + ", ".join(TABLES))
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:

        def cell(simulate: Callable[..., int], *arguments: object) -> str:
            found = share(pool, asked.processes, asked.sweeps, partial(simulate, *arguments))
            return " | ".join(f"{one:.3f}" for one in np.atleast_1d(found))

        print(f"{asked.sweeps:,} sweeps each")
        for table in asked.tables.split(","):
            TABLES[table](cell)


Cell = Callable[..., str]


def families(cell: Cell) -> None:
    """How often an interval of a family misses."""
    print("\nan interval of the family misses\n\n| family | seeds | " + " | ".join(SPREADS) + " |")
    print("|---" * (2 + len(SPREADS)) + "|")
    for family in FAMILIES:
        for n in (3, 5, 10):
            cells = [cell(misses, family, spread, n) for spread in SPREADS]
            print(f"| {family} | {n} | {' | '.join(cells)} |", flush=True)


def plans(cell: Cell) -> None:
    """How often a plan of looks says anything wrong, and what it takes."""
    print("\nany wrong verdict of the plan 3, 4, 6, 8, 12 (margin 1 sd), nothing differs; arms leave when settled\n")
    print("| family | " + " | ".join(SPREADS) + " |")
    print("|---" * (1 + len(SPREADS)) + "|")
    for family in ("13 comparisons", "order"):
        cells = [cell(wrong_until, family, spread, 1.0) for spread in SPREADS]
        print(f"| {family} | {' | '.join(cells)} |", flush=True)
    print("\nanything wrongly the same at a look of that plan; all differ by exactly the margin (1 or 2 sd)\n")
    print("| family | margin | normal | strong | t3 |\n|---|---|---|---|---|")
    for family in ("order", "4 arms"):
        for margin in (1.0, 2.0):
            cells = [cell(same_until, family, spread, margin) for spread in ("normal", "strong", "t3")]
            print(f"| {family} | {margin:g} | {' | '.join(cells)} |", flush=True)
    print("\nruns that the plan takes (margin 2 sd; at most 120, 108, 48), true effects N(0, 4 sd)\n")
    for family in FAMILIES:
        print(f"{family}: {cell(spent_until, family, 4.0, 2.0)}", flush=True)


def detectable(cell: Cell) -> None:
    """How often stated detectable effects are found, and arms that differ by the margin are the same."""
    print("\n| family | seeds | stated detectable effect found | wrongly the same at the margin |\n|---|---|---|---|")
    for family in FAMILIES:
        for n in (3, 5, 10):
            print(
                f"| {family} | {n} | {cell(found_of_stated, family, n)} | {cell(wrongly_same, family, n)} |", flush=True
            )


def settling(cell: Cell) -> None:
    """How often open differences are settled by the seeds that verdicts state, and how often they were to be."""
    print("\n| arms | seeds | margin, sd | true difference, margins | open | stated | settled |\n" + "|---" * 7 + "|")
    for arms, n, margin in ((2, 3, 2.0), (4, 3, 2.0), (4, 6, 1.0)):
        for effect in (None, 0.0, 0.5, 1.0):
            found = cell(followed, arms, n, margin, effect)
            print(f"| {arms} | {n} | {margin} | {'drawn' if effect is None else effect} | {found} |", flush=True)


def associations(cell: Cell) -> None:
    """How often what goes with the loss is found, where it does so by chance and where half of it does."""
    print("\n| series | probes | seeds | by chance | with half in common |\n|---|---|---|---|---|")
    for kind in KINDS:
        for n in (15, 40):
            for n_seeds in (4, 5):
                cells = [cell(associated, kind, n, n_seeds, common) for common in (0.0, 0.5)]
                print(f"| {kind} | {n} | {n_seeds} | {' | '.join(cells)} |", flush=True)


def statements(cell: Cell) -> None:
    """How often anything is said of statements on heads where nothing happens, in two arms."""
    print("\n| layers | seeds | in common | " + " | ".join(LAYER_STATEMENTS) + " |")
    print("|---" * (3 + len(LAYER_STATEMENTS)) + "|")
    for n_layers in (4, 6, 12):
        for n_seeds in (3, 5):
            for together in (0.0, 0.5):
                print(
                    f"| {n_layers} | {n_seeds} | {together} | {cell(stated, n_layers, n_seeds, together)} |", flush=True
                )


def odd_arms(cell: Cell) -> None:
    """How often families with an odd arm or baseline are wrong, and how wide a quiet interval is beside them."""
    print("\nany wrong verdict of the plan 3, 4, 6, 8, 12 (margin 2 sd), then an interval that misses;")
    print("\n| arms | runs | plan | 3 seeds | 5 seeds | 10 seeds |")
    print("|---" * 6 + "|")
    for family in PLACES:
        for kind in ODD:
            print(
                f"| {family} | {kind} | {' | '.join(cell(odd, family, kind, n) for n in (0, 3, 5, 10))} |", flush=True
            )
    print("\na quiet interval beside a third arm of 30 times the spread, over that without it\n")
    for n in (3, 5, 10):
        y = of_odd_arms("odd arm 30x", 10_000, 3, n)
        alone = np.median(judged(y[:, :2], star(2))[1])
        print(f"{n} seeds: {np.median(judged(y, star(3))[1][:, 0]) / alone:.2f}")


def plain_curve(cell: Cell) -> None:
    """How often any of seven models on the curve of plain models is said to lie off it."""
    print("\n| seeds | any of seven models is said to lie off the curve |\n|---|---|")
    for n in (3, 5, 10):
        print(f"| {n} | {cell(beside_the_curve, n)} |", flush=True)


def effects(cell: Cell) -> None:
    """How often intervals of ablation effects hold."""
    print("\n| effects | documents | on its own | all heads at once | Bonferroni's t |\n|---|---|---|---|---|")
    for kind in ("normal", "lognormal", "zero", "mean", "resample"):
        for n in (8, 16, 32, 64):
            print(f"| {kind} | {n} | {cell(held, kind, n)} |", flush=True)


TABLES = {
    "families": families,
    "plans": plans,
    "detectable": detectable,
    "settling": settling,
    "associations": associations,
    "statements": statements,
    "odd_arms": odd_arms,
    "plain_curve": plain_curve,
    "effects": effects,
}


if __name__ == "__main__":
    main()

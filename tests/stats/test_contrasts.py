"""Contrasts over seeds, as results have them: their values, their family, and the sentence of the answer."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from stats.test_results import (
    DOCUMENT,
    FakeStore,
    calls,  # noqa: F401 - a fixture
)

from headway.config.load import resolve
from headway.config.metrics import METRICS
from headway.stats import results
from headway.stats.answer import answer
from headway.stats.contrasts import Question, judged
from headway.stats.sequential import Looking, LookPlan
from headway.stats.verdicts import scope, sentence_of

ARMS = {
    name: {"model": {"n_heads": heads}}
    for heads, name in enumerate(("down-a", "down-b", "flat-a", "flat-b", "other"), 1)
}
ORDER = {"better": "down-*", "than": "flat-*"}


@pytest.fixture
def made(tmp_path, calls):  # noqa: F811
    """Results of runs with some values, given by arm, of an experiment with some contrasts."""

    def make(found, contrasts, failed=(), **changes):
        document = {**DOCUMENT, "arms": ARMS, "baseline": None, "contrasts": contrasts, **changes}
        store = FakeStore(tmp_path, resolve(document))
        for arm, values in found.items():
            store.add(arm, values)
        for arm in failed:
            store.add(arm, [1.0], status="failed")
        return results.build(store)

    return make


def values(seeds=3, effect=0.0):
    drawn = np.random.default_rng(5).normal(2.0, 0.02, (len(ARMS), seeds))
    return {arm: [x - effect * arm.startswith("down") for x in row] for arm, row in zip(ARMS, drawn, strict=True)}


def log_values(found, seed):
    y = {arm: 100 * math.log(of_arm[seed]) for arm, of_arm in found.items() if arm != "other"}
    return (y["down-a"] + y["down-b"] - y["flat-a"] - y["flat-b"]) / 2


def test_a_seed_counts_where_every_arm_of_the_contrast_has_a_value(made):
    found = values(5)
    found["down-a"][0], found["down-b"][1], found["flat-a"][2] = math.nan, None, math.inf
    found["other"] = [math.nan]  # of no weight
    (one,) = made(found, {"order": ORDER}).contrasts
    assert one.values == pytest.approx({seed: log_values(found, seed) for seed in (3, 4)})
    assert (one.n_pairs, one.outcome) == (2, "few")
    assert one.sentence.startswith("down vs flat: too few seeds, evaluation MSE ")


def test_the_arms_of_a_contrast_share_their_spread_and_contrasts_are_told_first(made):
    built = made(values(4, effect=0.2), {"order": ORDER, "rest": ["down-a", "other"]}, baseline="other")
    asked, compared = built.families
    assert [(f.of, f.size) for f in (asked, compared)] == [("contrasts", 2), ("comparisons", 4)]
    assert asked.freedom == 4 * 3
    one, other = built.contrasts
    assert one.outcome == other.outcome == "apart"
    said = list(answer(built))
    assert said[0] == one.sentence
    assert said[2].startswith("The 95 % intervals hold for all 2 contrasts at once. ")
    assert one.sentence.startswith("down vs flat: better, evaluation MSE −10.")
    assert said[-2].startswith("The 95 % intervals hold for all 4 comparisons at once.")
    assert said[-1].startswith("Contrasts and comparisons are corrected separately for multiple testing. ")


def test_an_interaction_has_a_name_and_no_sides(made):
    weights = {"down-a": 1, "down-b": -1, "flat-a": -1, "flat-b": 1}
    (one,) = made(values(4), {"interaction": weights}).contrasts
    (twice,) = made(values(4), {"interaction": {arm: 2 * w for arm, w in weights.items()}}).contrasts
    assert twice.estimate == pytest.approx(2 * one.estimate)
    assert twice.p == pytest.approx(one.p)
    assert one.sentence.startswith("interaction (down-a − down-b − flat-a + flat-b): no clear difference, ")
    assert twice.sentence.startswith("interaction (2 x down-a − 2 x down-b − 2 x flat-a + 2 x flat-b): no clear ")


def test_a_side_that_is_a_row_of_arms_is_their_mean_and_the_question_has_its_name(tmp_path, calls):  # noqa: F811
    store = FakeStore(tmp_path, resolve({**DOCUMENT, "contrasts": {"many": [["h4", "h1"], "h2"]}}))
    for arm, level in (("h1", 1.0), ("h2", 1.0), ("h4", 1.001)):
        store.add(arm, [level * (1 + one) for one in ((0.04, 0.0, -0.04) if arm == "h1" else (0.0, 0.02, 0.01))])
    (one,) = results.build(store).contrasts
    assert one.sentence.startswith("many: the mean of 4 heads and 1 head vs 2 heads: no clear difference, ")
    store = FakeStore(tmp_path, resolve({**DOCUMENT, "contrasts": {"many": [["h4", "h1"], "h2"]}}))
    for arm, level in (("h1", 1.0), ("h2", 1.1), ("h4", 1.0)):
        store.add(arm, [level * (1 + one) for one in ((0.001, 0.0, -0.001) if arm == "h1" else (0.0, 0.002, 0.001))])
    (one,) = results.build(store).contrasts
    assert one.sentence.startswith("many: the mean of 4 heads and 1 head vs 2 heads: better, evaluation MSE −9.")


def test_an_arm_without_a_finished_run_is_named(made):
    found = {arm: of_arm for arm, of_arm in values(3).items() if arm != "flat-b"}
    (one,) = made(found, {"order": ORDER}, failed=["flat-b"]).contrasts
    assert one.sentence.startswith(
        "down vs flat: cannot be compared in evaluation MSE, since no seed has a result for every arm; no finished "
        "run of flat-b"
    )
    rest = ["down-b", "flat-a", "flat-b", "other"]
    few = made({"down-a": [1.0]}, {"order": ORDER, "rest": "down-a - other"}, failed=rest).contrasts
    assert [c.sentence.split("; ")[1] for c in few] == [
        "no finished run of down-b, flat-a and flat-b",
        "no finished run of other",
    ]


def test_a_contrast_shrinks_to_the_arms_that_were_chosen(made):
    found = {arm: of_arm for arm, of_arm in values(3).items() if arm != "flat-b"}
    shrunk = made(found, {"order": ORDER, "rest": "down-a - other", "weighted": {"down-a": 1, "flat-b": -1}})
    assert [c.name for c in shrunk.contrasts] == ["order", "rest"]
    assert all(c.sentence for c in shrunk.contrasts)
    order = [100 * math.log(found["down-a"][seed] / found["flat-a"][seed]) for seed in range(3)]
    assert list(shrunk.contrasts[0].values.values()) == pytest.approx(order), "down-b has lost its partner"
    assert shrunk.families[0].size == 2


def test_runs_that_gave_no_result_are_counted_in_the_sentence(tmp_path, calls):  # noqa: F811
    document = {**DOCUMENT, "arms": ARMS, "baseline": None, "contrasts": {"order": ORDER, "two": "down-a - other"}}
    store = FakeStore(tmp_path, resolve(document))
    for arm, of_arm in values(4).items():
        store.add(arm, of_arm)
    at = {(run.arm, run.seed): run for run in store.content}
    at["down-a", 3].status = at["flat-a", 3].status = "failed"
    at["flat-b", 2].metrics["eval_mse"] = None
    order, two = results.build(store).contrasts
    assert order.sentence.endswith("; seed 2 left out: a value is not finite; 2 of 16 runs of its arms failed")
    assert two.sentence.endswith("; 1 of 4 runs of down-a failed")
    at["down-b", 3].status = "running"
    order, two = results.build(store).contrasts
    assert order.sentence.endswith("; 2 of 16 runs of its arms failed; 1 of 16 runs of its arms not finished")
    assert two.sentence.endswith("; 1 of 4 runs of down-a failed")


def test_arms_are_taken_under_a_control_and_are_a_family_of_their_own(made):
    plain, cold = values(2), {f"{arm}+opposed": of_arm for arm, of_arm in values(3, effect=0.1).items()}
    built = made(plain | cold, {"order": ORDER})
    assert [(c.control, c.n_pairs) for c in built.contrasts] == [(None, 2), ("opposed", 3)]
    assert [f.control for f in built.families if f.of == "contrasts"] == [None, "opposed"]
    assert built.contrasts[1].values == pytest.approx({s: log_values(values(3, effect=0.1), s) for s in range(3)})
    assert built.contrasts[1].sentence.startswith("under halves opposed, down vs flat: better, ")


def test_contrasts_of_values_of_0_and_below_are_in_their_unit(made):
    found = {arm: [value - 2.0 for value in of_arm] for arm, of_arm in values(6, effect=0.05).items()}
    one, other = made(found, {"order": ORDER, "rest": ["down-a", "other"]}).contrasts
    by_seed = [
        (found["down-a"][s] + found["down-b"][s] - found["flat-a"][s] - found["flat-b"][s]) / 2 for s in range(6)
    ]
    test = stats.ttest_1samp(by_seed, 0.0)
    assert list(one.values.values()) == pytest.approx(by_seed)
    assert (one.estimate, one.difference) == pytest.approx((np.mean(by_seed),) * 2)
    assert 1 <= np.ptp(one.interval) / np.ptp(test.confidence_interval(0.95)) < 2
    assert one.relative == pytest.approx(np.mean(by_seed) / abs(np.mean(found["flat-a"] + found["flat-b"])))
    assert all(each.p <= each.p_family <= 2 * each.p for each in (one, other))


def test_schemes_in_groups_ask_by_themselves():
    layouts = {"low": ("1-2-4", "2-2-2", "4-2-1"), "high": ("4-8-16", "8-8-8", "16-8-4")}
    arms = {
        f"{scheme}-{group}": {"label": layout, "model": {"n_heads": layout}}
        for group, found in layouts.items()
        for scheme, layout in zip(("up", "flat", "down"), found, strict=True)
    }
    groups = {
        group: {"arms": [f"{s}-{group}" for s in ("up", "flat", "down")], "baseline": f"flat-{group}"}
        for group in layouts
    }
    text = {
        "name": "text",
        "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
        "model": {"family": "gpt-neo", "d_model": 32, "n_layers": 3},
        "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 10},
    }
    experiment = resolve({**text, "arms": arms, "groups": groups})
    assert {c.name: c.sides for c in experiment.contrasts} == {
        "descending-constant": ("down", "flat"),
        "ascending-constant": ("up", "flat"),
    }
    assert dict(experiment.contrasts[0].weights) == {
        "down-low": 0.5,
        "down-high": 0.5,
        "flat-low": -0.5,
        "flat-high": -0.5,
    }
    one_group = resolve({**text, "arms": arms, "groups": {"low": groups["low"]}})
    assert one_group.contrasts == ()
    asked = resolve({**text, "arms": arms, "groups": groups, "contrasts": {"mine": "up-low - up-high"}})
    assert [c.name for c in asked.contrasts] == ["mine"]


def accuracies(first, second, plan=None):
    """The family, the difference and the sentence of two arms' accuracies by seed."""
    runs = {
        arm: {
            seed: SimpleNamespace(name=arm, seed=seed, status="done", metrics={"accuracy": value}, execution=None)
            for seed, value in enumerate(of_arm)
        }
        for arm, of_arm in (("a", first), ("b", second))
    }
    question = Question.from_runs([{"a": 1.0, "b": -1.0}], runs, metric="accuracy")
    family, (found,) = judged(question, Looking(margin=1.0, plan=plan))
    said = sentence_of(found, family, metric=METRICS["accuracy"], sides=("2 heads", "1 head"))
    return family, found, f"{said}. {scope(family, [found])}"


def test_near_a_ceiling_errors_are_compared():
    family, found, said = accuracies([0.9990, 0.9991, 0.9989, 0.9990], [0.9980, 0.9981, 0.9979, 0.9980])
    assert (family.rule, found.outcome, found.of_errors) == ("blocks", "apart", True)
    assert said.startswith("2 heads vs 1 head: better, errors (1 − accuracy) −50.1 % (")
    assert said.endswith("Since many values are near 1, errors (1 − accuracy) are compared. Lower is better.")
    *_, said = accuracies([0.9988, 0.9992, 0.9989, 0.9990], [0.9990, 0.9989, 0.9991, 0.9990])
    assert said.startswith("2 heads vs 1 head: no clear difference, errors (1 − accuracy) ")


def test_full_accuracy_is_not_the_same_as_nearly_full():
    _, found, said = accuracies([0.9990, 0.9991, 0.9989, 0.9990], [1.0, 1.0, 1.0, 1.0])
    assert (found.rule, found.outcome, found.unit) == ("blocks", "apart", "fraction")
    assert said.startswith(
        "2 heads vs 1 head: worse, errors (1 − accuracy) +0.0010 (95 % CI 0.0009 to 0.0011; 4 seeds)"
    )


def test_far_from_a_ceiling_and_in_a_plan_that_is_open_accuracies_are_compared():
    low, plan = [0.5, 0.52, 0.51], LookPlan(looks=(3,), margin=1.0)
    assert not accuracies(low, [0.6, 0.61, 0.63])[1].of_errors
    assert not accuracies([0.999, 0.998, 0.997], [0.99, 0.98, 0.97], plan)[1].of_errors

"""Contrasts over seeds: their values, their test, and the sentence of the answer."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats

from headway.compare.contrasts import all_judged, contrast_values, judged
from headway.declare.contrasts import contrasts_of
from headway.declare.metrics import METRICS

LOSS = METRICS["eval_loss_nats"]
ARMS = ("down-a", "down-b", "flat-a", "flat-b", "other")


def contrast(value, name="order"):
    return contrasts_of({name: value}, ARMS)[0]


ORDER = contrast({"better": "down-*", "than": "flat-*"})


def values(seeds=3, effect=0.0):
    drawn = np.random.default_rng(5).normal(2.0, 0.02, (len(ARMS), seeds))
    return {
        arm: {seed: float(x) - effect * arm.startswith("down") for seed, x in enumerate(row)}
        for arm, row in zip(ARMS, drawn, strict=True)
    }


def test_a_seed_counts_where_every_arm_of_the_contrast_has_a_value():
    found = values(5)
    del found["down-a"][0]
    found["down-b"][1] = None
    found["flat-a"][2] = float("nan")
    found["flat-b"][9] = 2.0
    found["other"] = {}  # of no weight
    by_hand = {
        seed: (found["down-a"][seed] + found["down-b"][seed] - found["flat-a"][seed] - found["flat-b"][seed]) / 2
        for seed in (3, 4)
    }
    assert contrast_values(ORDER, found) == pytest.approx(by_hand)
    assert list(judged(ORDER, found, LOSS).values) == [3, 4]


def test_the_test_is_that_of_the_values_per_seed():
    found = values(6, effect=0.05)
    one = judged(ORDER, found, LOSS)
    per_seed = np.array(list(contrast_values(ORDER, found).values()))
    test = stats.ttest_1samp(per_seed, 0.0)
    assert one.estimate == pytest.approx(per_seed.mean())
    assert one.interval == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert one.p == pytest.approx(test.pvalue)
    flat = np.mean([list(found["flat-a"].values()), list(found["flat-b"].values())])
    assert one.relative == pytest.approx(per_seed.mean() / flat)
    assert (one.n_seeds, one.metric, one.control) == (6, "eval_loss_nats", None)
    assert json.loads(json.dumps(asdict(replace(one, values=dict(one.values)))))["label"] == "down-* - flat-*"


def test_the_negated_contrast_has_the_negated_answer():
    there, back = (judged(contrast([first, second]), values(4), LOSS) for first, second in
                   (("down-*", "flat-*"), ("flat-*", "down-*")))  # fmt: skip
    assert back.estimate == pytest.approx(-there.estimate)
    assert back.interval == pytest.approx((-there.interval[1], -there.interval[0]))
    assert (back.p, back.detectable) == pytest.approx((there.p, there.detectable))


def test_an_interaction_is_relative_to_a_mean_of_arms():
    weights = {"down-a": 1, "down-b": -1, "flat-a": -1, "flat-b": 1}
    one, twice = (judged(contrast({a: k * w for a, w in weights.items()}), values(4), LOSS) for k in (1, 2))
    found = values(4)
    mean = np.mean([list(found[arm].values()) for arm in ("down-b", "flat-a")])
    assert one.relative == pytest.approx(one.estimate / mean)
    assert twice.estimate == pytest.approx(2 * one.estimate)
    assert twice.relative == pytest.approx(2 * one.relative)
    assert twice.p == pytest.approx(one.p)
    assert one.sentence.startswith("order is ")
    assert " % of the mean of what is subtracted (interval " in one.sentence


def per_seed(*differences, base=2.0):
    return {
        "down-a": {seed: base + d for seed, d in enumerate(differences)},
        "flat-a": dict.fromkeys(range(len(differences)), base),
    }


PAIR = contrast("down-a - flat-a")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            per_seed(-0.010, -0.012, -0.011),
            "down-a is 0.5 % better than flat-a (interval 0.4 to 0.7 %, 3 seeds)",
        ),
        (
            per_seed(-0.010, 0.006, -0.014),
            "down-a is 0.3 % better than flat-a (interval -1.0 to 1.6 %, 3 seeds); it may as well be none",
        ),
        (per_seed(0.2, 0.21, 0.22, 0.2), "down-a is 10.4 % worse than flat-a (interval -11.1 to -9.6 %, 4 seeds)"),
        (per_seed(-0.02), "down-a is 1.0 % better than flat-a (one seed, no interval)"),
        (per_seed(0.0, 0.0), "down-a and flat-a do not differ (the same for all 2 seeds, so no interval)"),
        ({"down-a": {0: 2.0}}, "down-a - flat-a cannot be judged: no seed gave a result for all of its 2 arms"),
        (
            {"down-a": {0: 1.0, 1: 1.5}, "flat-a": {0: 0.0, 1: 0.0}},
            "down-a is 1.2 nats per token worse than flat-a (interval -4.4 to 1.9 nats per token, 2 seeds); "
            "it may as well be none",
        ),
    ],
)
def test_the_answer_is_a_sentence(found, sentence):
    assert judged(PAIR, found, LOSS).sentence == sentence


def test_without_a_better_direction_nothing_is_judged():
    neutral = METRICS["n_parameters"]
    assert judged(PAIR, per_seed(0.2, 0.3, 0.2, 0.2), neutral).sentence.startswith(
        "down-a is 11.3 % higher than flat-a ("
    )
    higher = LOSS.model_copy(update={"better": "higher"})
    assert judged(PAIR, per_seed(0.2), higher).sentence == "down-a is 10.0 % better than flat-a (one seed, no interval)"


def test_arms_are_taken_under_a_control():
    found = {f"{arm}+cold": by_seed for arm, by_seed in values(3, effect=0.1).items()} | values(2)
    assert judged(ORDER, found, LOSS, "cold").values == contrast_values(ORDER, values(3, effect=0.1))
    assert judged(ORDER, found, LOSS).n_seeds == 2


def test_p_is_corrected_for_the_number_of_contrasts():
    asked = contrasts_of(
        {"order": ["down-*", "flat-*"], "rest": ["down-a", "other"], "none": ["flat-a", "x"]}, (*ARMS, "x")
    )
    found = all_judged(asked, values(5, effect=0.05), LOSS)
    tested = sorted(one.p for one in found if one.p is not None)
    assert len(tested) == 2
    assert min(one.p_holm for one in found if one.p_holm) == pytest.approx(2 * tested[0])
    assert found[2].p_holm is None


@pytest.mark.slow
def test_a_planted_effect_is_found_and_a_planted_null_is_not():
    generator = np.random.default_rng(1)

    def share(effect):
        hits = 0
        for _ in range(400):
            drawn = generator.normal(2.0, 0.02, (4, 5))
            drawn[:2] -= effect
            found = {arm: dict(enumerate(row.tolist())) for arm, row in zip(ARMS[:4], drawn, strict=True)}
            hits += judged(ORDER, found, LOSS).p < 0.05
        return hits / 400

    assert share(0.0) == pytest.approx(0.05, abs=0.035)
    # Two arms a side: the sums have the spread of one arm, 0.02; five seeds find 1.68 of it in 80 %.
    assert share(1.68 * 0.02) == pytest.approx(0.8, abs=0.07)

"""The sentences of paired t tests: what is claimed, and what is not, by the rule of before."""

from dataclasses import replace

import pytest

from headway.config.metrics import METRICS, Metric
from headway.stats.evidence import Comparison
from headway.stats.verdicts import Sides, paired_finding

EVAL_MSE = METRICS["eval_mse"]

CLEAR = Comparison(
    metric="eval_mse",
    arm="h2",
    baseline="h1",
    control=None,
    group=None,
    rule="paired",
    n_pairs=5,
    means=(0.668, 1.431),
    difference=-0.763,
    relative=-0.533,
    estimate=-0.763,
    interval=(-0.769, -0.757),
    se=0.002,
    freedom=4.0,
    bound=2.776,
    p=1e-9,
    p_family=3e-9,
    outcome="apart",
    detectable=0.01,
    seeds_for_margin=(3,),
    verdict="",
)
CLOSE = replace(
    CLEAR,
    difference=0.001,
    relative=0.001,
    estimate=0.001,
    interval=(-0.004, 0.006),
    p=0.63,
    p_family=1.0,
    outcome="open",
    detectable=0.008,
    seeds_for_margin=(4,),
)
SINGLE = replace(
    CLEAR, n_pairs=1, interval=None, p=None, p_family=None, outcome="few", detectable=None, seeds_for_margin=None
)
NONE = replace(SINGLE, n_pairs=0, difference=None, relative=None, outcome="none")


def say(comparison, arm="2 heads", baseline="1 head", metric=EVAL_MSE):
    named = metric.name if metric.better is None or not metric.primary else None
    return paired_finding(comparison, metric, Sides(first=arm, second=baseline, better=metric.better, metric=named))


def test_a_clear_difference():
    assert say(CLEAR) == "2 heads beat 1 head by 53.3 % (95 % interval 52.9 to 53.7 %, p < .001, 5 paired seeds)"


def test_no_difference_says_what_could_have_been_seen():
    assert say(CLOSE, arm="8 heads", baseline="2 heads") == (
        "8 heads and 2 heads cannot be told apart (difference 0.1 %, interval −0.4 to 0.6 %; "
        "5 paired seeds would detect 0.8 %); a 1 % difference would need about 4 seeds"
    )


def test_one_pair_is_called_neither_better_nor_worse():
    assert say(SINGLE) == "2 heads differ from 1 head by −53.3 %, one paired seed: no interval; run at least 3 seeds"
    assert say(replace(SINGLE, difference=0.0, relative=0.0)) == (
        "2 heads and 1 head do not differ, one paired seed: no interval; run at least 3 seeds"
    )


def test_pairs_without_spread_and_no_pair():
    assert say(replace(SINGLE, n_pairs=4)) == (
        "2 heads differ from 1 head by −53.3 %, the same for all 4 seeds: no spread, so no interval"
    )
    assert say(NONE) == "2 heads and 1 head cannot be compared: no seed gave a result for both"


@pytest.mark.parametrize(
    ("better", "difference", "words"),
    [
        ("lower", -1.0, "2 heads beat 1 head in m by 53.3 %"),
        ("lower", 1.0, "2 heads lose to 1 head in m by 53.3 %"),
        ("higher", 1.0, "2 heads beat 1 head in m by 53.3 %"),
        ("higher", -1.0, "2 heads lose to 1 head in m by 53.3 %"),
        (None, -1.0, "m is lower for 2 heads than for 1 head by 53.3 %"),
        (None, 1.0, "m is higher for 2 heads than for 1 head by 53.3 %"),
    ],
)
def test_direction(better, difference, words):
    metric = Metric(name="m", sentence="a number", unit="1", better=better)
    c = replace(
        CLEAR, difference=difference, relative=0.533 * difference, interval=(difference - 0.1, difference + 0.1)
    )
    # The interval is turned with the difference: both are sizes.
    assert say(c, metric=metric) == f"{words} (95 % interval 48.0 to 58.6 %, p < .001, 5 paired seeds)"


def test_verbs_agree_with_labels():
    assert say(CLEAR, arm="1 head", baseline="2 heads").startswith("1 head beats 2 heads by")
    assert say(CLEAR, arm="2 layers, tied").startswith("2 layers, tied beat 1 head by")
    assert say(SINGLE, arm="softmax").startswith("softmax differs from 1 head by")
    assert say(SINGLE, arm="12 KV heads at x2").startswith("12 KV heads at x2 differ from")
    assert say(SINGLE, arm="2 layer model").startswith("2 layer model differs from")


def test_metrics_other_than_the_primary_one_are_named():
    assert "cannot be told apart in kernel_mse (" in say(CLOSE, metric=METRICS["kernel_mse"])
    assert "in steps_per_s by" in say(SINGLE, metric=METRICS["steps_per_s"])


def test_what_does_not_survive_the_correction_is_not_claimed():
    c = replace(CLEAR, difference=-0.03, relative=-0.03, interval=(-0.055, -0.005), p=0.03, p_family=0.09)
    assert say(c) == (
        "2 heads may beat 1 head by 3.0 % (95 % interval 0.5 to 5.5 %, p = .030, 5 paired seeds), "
        "but p = .090 corrected for the number of comparisons; more seeds would tell"
    )
    assert "p = .010, corrected p = .030, 5 paired seeds)" in say(replace(CLEAR, p=0.01, p_family=0.03))


def test_without_percentages_the_unit_stands():
    c = replace(CLOSE, relative=None, seeds_for_margin=None)
    assert say(c) == (
        "2 heads and 1 head cannot be told apart (difference 0.001 y squared, interval −0.004 to 0.006 y squared; "
        "5 paired seeds would detect 0.008 y squared)"
    )


def test_small_and_large_numbers_stay_readable():
    tiny = replace(CLOSE, difference=1e-6, relative=1e-6, interval=(-4e-6, 6e-6), detectable=8e-6)
    assert "difference 0.0001 %, interval −0.0004 to 0.0006 %" in say(tiny)
    vast = replace(CLEAR, difference=3e9, relative=3e9, interval=(2e9, 4e9))
    assert "by 3e+09 y squared (95 % interval 2e+09 to 4e+09 y squared" in say(vast)
    assert "need about 120 seeds" in say(replace(CLOSE, seeds_for_margin=(123,)))


def test_every_combination_of_nulls_makes_a_sentence():
    for relative in (None, 0.1):
        for p_family in (None, 0.2, 0.01):
            for p in (0.01, 0.3):
                text = say(replace(CLOSE, relative=relative, p=p, p_family=p_family))
                assert "None" not in text
                assert "nan" not in text

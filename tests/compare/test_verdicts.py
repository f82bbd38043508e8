"""The sentences of verdicts: what is claimed, and what is not."""

import math
from dataclasses import replace

import pytest

from headway.compare.statistics import Comparison
from headway.compare.verdicts import execution_warning, left_out, shortfall, verdict
from headway.declare.metrics import METRICS, Metric

EVAL_MSE = METRICS["eval_mse"]

CLEAR = Comparison(
    metric="eval_mse",
    arm="h2",
    baseline="h1",
    control=None,
    group=None,
    n_pairs=5,
    difference=-0.763,
    relative=-0.533,
    interval=(-0.769, -0.757),
    p=1e-9,
    p_holm=3e-9,
    detectable=0.01,
    seeds_for_1pct=3,
    verdict="",
)
CLOSE = replace(
    CLEAR,
    difference=0.001,
    relative=0.001,
    interval=(-0.004, 0.006),
    p=0.63,
    p_holm=1.0,
    detectable=0.008,
    seeds_for_1pct=4,
)
SINGLE = replace(CLEAR, n_pairs=1, interval=None, p=None, p_holm=None, detectable=None, seeds_for_1pct=None)
NONE = replace(SINGLE, n_pairs=0, difference=None, relative=None)


def say(comparison, arm="2 heads", baseline="1 head", metric=EVAL_MSE, notes=()):
    return verdict(comparison, metric=metric, arm=arm, baseline=baseline, notes=notes)


def test_a_clear_difference():
    assert say(CLEAR) == "2 heads beat 1 head by 53.3 % (95 % interval 52.9 to 53.7 %, p < .001, 5 paired seeds)"


def test_no_difference_says_what_could_have_been_seen():
    assert say(CLOSE, arm="8 heads", baseline="2 heads") == (
        "8 heads and 2 heads cannot be told apart (difference 0.1 %, interval −0.4 to 0.6 %; "
        "5 paired seeds would detect 0.8 %); a 1 % difference would need about 4 seeds"
    )


def test_one_pair():
    assert say(SINGLE) == (
        "2 heads differ from 1 head by −53.3 % (better), one paired seed: no interval; run at least 3 seeds"
    )
    assert "(worse)" in say(replace(SINGLE, difference=0.1, relative=0.2))
    assert say(replace(SINGLE, difference=0.0, relative=0.0)) == (
        "2 heads and 1 head do not differ, one paired seed: no interval; run at least 3 seeds"
    )


def test_pairs_without_spread():
    assert say(replace(SINGLE, n_pairs=4)) == (
        "2 heads differ from 1 head by −53.3 % (better), the same for all 4 seeds: no spread, so no interval"
    )


def test_no_pair_and_failed_runs():
    notes = [*shortfall("8 heads", ["failed"] * 3), *shortfall("1 head", ["done"] * 3)]
    assert say(NONE, arm="8 heads", notes=notes) == (
        "8 heads and 1 head cannot be compared: no seed gave a result for both; 3 of 3 runs of 8 heads failed"
    )
    assert say(CLEAR, notes=shortfall("2 heads", ["failed", "done", "failed", "done", "failed"])).endswith(
        "5 paired seeds); 3 of 5 runs of 2 heads failed"
    )


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
    assert say(CLEAR, arm="constant-low", baseline="1 head").startswith("constant-low beats 1 head by")
    assert say(CLEAR, arm="2 layers, tied").startswith("2 layers, tied beat 1 head by")
    assert say(SINGLE, arm="softmax").startswith("softmax differs from 1 head by")
    assert say(SINGLE, arm="four heads").startswith("four heads differ from 1 head by")
    assert say(SINGLE, arm="12 heads").startswith("12 heads differ from 1 head by")
    assert say(SINGLE, arm="12 KV heads at x2").startswith("12 KV heads at x2 differ from")
    assert say(SINGLE, arm="One head").startswith("One head differs from")
    assert say(SINGLE, arm="2 layer model").startswith("2 layer model differs from")


def test_metrics_other_than_the_primary_one_are_named():
    assert "cannot be told apart in kernel_mse (" in say(CLOSE, metric=METRICS["kernel_mse"])
    assert "in steps_per_s by" in say(SINGLE, metric=METRICS["steps_per_s"])


def test_what_does_not_survive_the_correction_is_not_claimed():
    c = replace(CLEAR, difference=-0.03, relative=-0.03, interval=(-0.055, -0.005), p=0.03, p_holm=0.09)
    assert say(c) == (
        "2 heads may beat 1 head by 3.0 % (95 % interval 0.5 to 5.5 %, p = .030, 5 paired seeds), "
        "but p = .090 corrected for the number of comparisons; more seeds would tell"
    )
    assert "may lose to" in say(replace(c, difference=0.03, relative=0.03, interval=(0.005, 0.055)))
    neutral = Metric(name="m", sentence="a number", unit="1")
    assert say(c, metric=neutral).startswith("m may be lower for 2 heads than for 1 head by")


def test_what_survives_the_correction_states_both():
    assert "p = .010, corrected p = .030, 5 paired seeds)" in say(replace(CLEAR, p=0.01, p_holm=0.03))


def test_without_percentages_the_unit_stands():
    c = replace(CLOSE, relative=None, seeds_for_1pct=None)
    assert say(c) == (
        "2 heads and 1 head cannot be told apart (difference 0.001 y squared, interval −0.004 to 0.006 y squared; "
        "5 paired seeds would detect 0.008 y squared)"
    )


def test_small_and_large_numbers_stay_readable():
    tiny = replace(CLOSE, difference=1e-6, relative=1e-6, interval=(-4e-6, 6e-6), detectable=8e-6)
    assert "difference 0.0001 %, interval −0.0004 to 0.0006 %" in say(tiny)
    vast = replace(CLEAR, difference=3e9, relative=3e9, interval=(2e9, 4e9))
    assert "by 3e+11 % (95 % interval 2e+11 to 4e+11 %" in say(vast)
    assert "need about 120 seeds" in say(replace(CLOSE, seeds_for_1pct=123))
    assert "need more than 1,000 seeds" in say(replace(CLOSE, seeds_for_1pct=123_456))
    assert "−0.0" not in say(replace(CLOSE, difference=-1e-9, relative=-1e-9)).replace("−0.04", "").replace("−0.4", "")


def test_every_combination_of_nulls_makes_a_sentence():
    for relative in (None, 0.1):
        for p_holm in (None, 0.2, 0.01):
            for p in (0.01, 0.3):
                text = say(replace(CLOSE, relative=relative, p=p, p_holm=p_holm))
                assert "None" not in text
                assert "nan" not in text


def test_shortfall_counts_by_kind():
    assert shortfall("1 head", ["done", "done"]) == []
    assert shortfall("1 head", []) == []
    assert shortfall("1 head", ["failed", "running", "waiting", "interrupted"]) == [
        "1 of 4 runs of 1 head failed",
        "3 of 4 runs of 1 head are not finished",
    ]


def test_left_out_names_the_seeds():
    assert left_out([]) == []
    assert left_out([1, 4]) == ["seeds 1, 4 are left out, where a value is not finite"]


ALIKE = {"device": "cpu", "trainer": "fused", "instruction_set": "avx512", "threads": 1, "versions": {"numpy": "2.4"}}


def test_equal_executions_are_no_news():
    assert execution_warning("a", "b", []) is None
    assert execution_warning("a", "b", [(ALIKE, {**ALIKE, "host": "other", "started": math.pi})]) is None


def test_differing_executions_are_named_once():
    other = {
        **ALIKE,
        "trainer": "torch",
        "instruction_set": None,
        "threads": 2,
        "versions": {"numpy": "2.4", "torch": "2.13"},
    }
    assert execution_warning("2 heads", "1 head", [(ALIKE, other), (ALIKE, other), (ALIKE, ALIKE)]) == (
        "2 heads and 1 head were not executed alike in 2 of 3 pairs "
        "(threads 1 against 2; trainer fused against torch): "
        "a difference between them may come from that, above all in speed and memory"
    )

"""What stands beside a verdict: runs without a result, values left out, pairs that were not executed alike."""

import math

from headway.stats import warnings
from headway.stats.verdicts import left_out, shortfall


def test_shortfall_counts_by_kind():
    assert shortfall("1 head", ["done", "done"]) == []
    assert shortfall("1 head", []) == []
    assert shortfall("1 head", ["failed", "running", "waiting", "interrupted"]) == [
        "1 of 4 runs of 1 head failed",
        "3 of 4 runs of 1 head not finished",
    ]


def test_left_out_names_the_seeds():
    assert left_out([]) == []
    assert left_out([1, 4]) == ["seeds 1 and 4 left out: a value is not finite"]


ALIKE = {"device": "cpu", "trainer": "fused", "instruction_set": "avx512", "threads": 1, "versions": {"numpy": "2.4"}}


def execution_warning(*sides):
    return [warning.sentence for warning in warnings.execution_warning(*sides)]


def test_equal_executions_are_no_news():
    assert execution_warning("a", "b", []) == []
    assert execution_warning("a", "b", [(ALIKE, {**ALIKE, "host": "other", "started": math.pi})]) == []


def test_differing_executions_are_named_once():
    other = {
        **ALIKE,
        "trainer": "torch",
        "instruction_set": None,
        "threads": 2,
        "versions": {"numpy": "2.4", "torch": "2.13"},
    }
    assert execution_warning("2 heads", "1 head", [(ALIKE, other), (ALIKE, other), (ALIKE, ALIKE)]) == [
        "2 heads and 1 head were executed differently in 2 of 3 pairs of runs (threads 1 against 2 and trainer fused "
        "against torch). Different execution may explain a difference between these arms, mainly in speed and memory."
    ]


def test_an_instruction_set_that_one_side_does_not_record_is_no_difference():
    new = {**ALIKE, "instruction_sets": {"ATen": "AVX512", "MKL": "AVX2"}}
    assert execution_warning("a", "b", [(ALIKE, new), (new, ALIKE)]) == []
    old = {**ALIKE, "instruction_sets": {"ATen": "DEFAULT"}}
    assert "(instruction set of ATen AVX512 against DEFAULT)" in execution_warning("a", "b", [(new, old)])[0]


def test_a_run_alone_and_one_in_a_batch_are_not_executed_alike():
    """Sums of batches of other sizes are rounded otherwise; who else is in a batch of that size changes nothing."""
    of_five, another = {**ALIKE, "together": 5, "batch": "a"}, {**ALIKE, "together": 5, "batch": "b"}
    assert execution_warning("a", "b", [(of_five, another)]) == []
    assert execution_warning("a", "b", [(of_five, ALIKE), (of_five, another)]) == [
        "a and b were executed differently in 1 of 2 pairs of runs (runs trained together 5 against 1). "
        "Different execution may explain a difference between these arms, mainly in speed and memory."
    ]
    (told,) = execution_warning("a", "b", [(of_five, {**another, "together": 3})])
    assert "runs trained together 5 against 3" in told

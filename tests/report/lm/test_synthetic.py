"""Figures of tasks whose answer is known: right answers beside limits, by hops, and errors by heads."""

from typing import Any, cast

import pytest
from support.figures import rows_of
from support.untrained import untrained

from headway.config.load import load
from headway.report.charts.page import svg_of
from headway.report.lm import report
from headway.report.lm.common import loss_metric
from headway.report.lm.size import loss_against_parameters
from headway.report.lm.synthetic import accuracies, by_kind, errors_by_heads, solved_map


def shares(*accuracies, **more):
    return [{"accuracy": a, "solved": float(a >= 1), **more} for a in accuracies]


@pytest.fixture
def endpoints():
    names = {"complete-h1": shares(0.5, 0.55), "complete-h2": shares(1.0, 1.0), "cycle-h1": shares(0.6, 0.7)}
    return untrained(load("heads-for-endpoints"), names)


def test_each_arm_has_its_own_limit(endpoints):
    limits = {r["arm"]: r["accuracy"] for r in rows_of(accuracies(endpoints)) if r.get("what") == "best possible"}
    assert limits == {
        "complete, 1 head of width 32": 0.75,
        "complete, 2 heads of width 16": 1.0,
        "a cycle, 1 head of width 32": pytest.approx(11 / 12),
    }


def test_chance_is_drawn_where_the_task_has_one():
    recall = untrained(
        load("heads-for-recall"), {"h1": shares(1.0), "one-layer": shares(0.3)}, {"chance": {"accuracy": 0.29}}
    )
    figure = accuracies(recall)
    assert {r["accuracy"] for r in rows_of(figure) if r.get("what") == "chance"} == {0.29}
    assert "Grey lines are the accuracy of guessing." in figure.caption


def test_hops_are_told_one_by_one():
    by = {"accuracy_by_kind": [1.0, 0.9, 0.5]}
    hops = untrained(load("heads-for-hops"), {"l2": shares(0.8, 0.8, **by), "l3": shares(0.9, **by)})
    assert {(r["at"], r["accuracy"]) for r in rows_of(by_kind(hops)) if "arm" in r} == {(0, 1.0), (1, 0.9), (2, 0.5)}
    guesses = [r["accuracy"] for r in rows_of(by_kind(hops)) if "arm" not in r]
    assert guesses[0] == 1.0
    assert len(guesses) == cast(Any, hops.experiment.arms[0].resolved_spec).task.hops + 1
    first = next(figure for figure in report.answers(hops) if figure is not None)
    assert first.name == "accuracy-by-kind"


def test_errors_are_drawn_against_heads_with_those_that_are_enough():
    errors = {"d2-h1": [2e-2, 3e-2], "d2-h2": [3e-4, 0.0], "d4-h3": [1e-2], "d4-h4": [3e-4], "d2-h2+layers-2": [1e-5]}
    experiment = load("heads-for-retrieval").select(controls=["layers-2"])
    found = untrained(experiment, {arm: [{"nmse": e} for e in of] for arm, of in errors.items()})
    figure = errors_by_heads(found)
    enough = {r["arm"]: r["enough"] for r in rows_of(figure)}
    assert enough["2 things, 2 heads"]
    assert enough["4 things, 4 heads"]
    assert not enough["2 things, 1 head"]
    assert not enough["4 things, 3 heads"]
    assert min(r["nmse"] for r in rows_of(figure)) > 0
    assert len(figure.spec["concat"]) == 2
    assert next(f for f in report.answers(found) if f is not None).name == "error-by-heads"


def test_keys_that_are_smeared_stand_apart_in_the_map():
    found = untrained(
        load("heads-for-induction"),
        {"one-layer": shares(0.3), "smeared": shares(1.0), "two-layers": shares(1.0), "first-heavy": shares(1.0)},
    )
    panels = solved_map(found).spec["vconcat"]
    assert [panel["title"] for panel in panels] == ["attention alone", "attention alone, keys smeared"]


def test_a_control_with_an_mlp_is_called_so():
    parity = untrained(
        load("heads-for-parity").select(controls=["mlp"]), {"n3-h1": shares(0.6), "n3-h1+mlp": shares(1.0)}
    )
    found = {row["arm"]: row["panel"] for row in rows_of(solved_map(parity)) if "panel" in row}
    assert set(found.values()) == {"attention alone", "with an MLP"}


def test_figures_of_text_are_drawn_of_text_alone():
    """Neither the curve of plain models of language nor ticks of n-grams."""
    named = {"n_parameters": 100, "eval_loss_nats": 0.5}
    material = untrained(
        load("heads-for-endpoints"),
        {"complete-h1": shares(0.5, **named), "complete-h2": shares(1.0, **{**named, "n_parameters": 200})},
    )
    assert loss_against_parameters(material) is None
    assert not loss_metric(material).references
    assert loss_metric(material).axis == "evaluation loss (nats per answer)"
    text = untrained(load("head-progression"), {load("head-progression").arms[0].full_name: [named]})
    assert loss_metric(text).axis == "evaluation loss (nats per token)"


def test_they_can_be_drawn(endpoints):
    for figure in filter(None, report.answers(endpoints)):
        assert svg_of(figure.spec).startswith("<svg")


def test_of_other_tasks_there_is_none():
    text = untrained(load("head-progression"), {"constant-low": [{"eval_loss_nats": 2.0}]})
    assert list(report.answers(text)) == [None] * 4

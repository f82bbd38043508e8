"""Figures of models that lost heads: what the loss does, by how many, by which rule, and when in training."""

from typing import Any

import pytest
from support import small_text
from support.figures import rows_of
from support.untrained import untrained

from headway.config.experiment import Experiment
from headway.report.charts.page import svg_of
from headway.report.experiment.data import ReportData
from headway.report.lm import training
from headway.report.lm.report import LABORATORY

KEEPS = (0.75, 0.5)


def at_once(by: str, keep: float, **start) -> dict[str, Any]:
    return {"init_from": {"arm": "dense", "prune": {"by": by, "keep": keep}, **start}, "training": {"steps": 0}}


MODEL = {"family": "gpt-neo", "d_model": 16, "n_layers": 2, "n_heads": 4}
METHODS = small_text.experiment(
    model=MODEL, baseline="dense",
    arms={"dense": {}, **{f"{by}-{keep:.0%}"[:-1]: at_once(by, keep) for by in ("random", "taylor") for keep in KEEPS}},
)  # fmt: skip
STEPS = small_text.experiment(
    model=MODEL, baseline="dense",
    arms={
        "dense": {}, "at": {"init_from": {"arm": "dense", "step": 10}, "training": {"steps": 0}},
        **{f"at-{keep:.0%}"[:-1]: at_once("taylor", keep, step=10) for keep in KEEPS},
        **{f"last-{keep:.0%}"[:-1]: at_once("taylor", keep) for keep in KEEPS},
    },
)  # fmt: skip


def material(of: Experiment, losses: dict[str, float], seeds: int = 3) -> ReportData:
    heads = {arm.name: arm.expected_spec.model.layout.total for arm in of.arms}  # type: ignore[attr-defined]
    found = {
        name: [{"eval_loss_nats": loss + 0.01 * seed, "total_heads": heads[name]} for seed in range(seeds)]
        for name, loss in losses.items()
    }
    return untrained(of, found)


LOSSES = {"dense": 2.0, "random-75": 2.2, "random-50": 2.6, "taylor-75": 2.0, "taylor-50": 2.1}


def test_a_line_for_each_method_from_all_heads_down():
    figure = training.against_kept(material(METHODS, LOSSES))
    assert figure is not None
    assert svg_of(figure.spec).startswith("<svg")
    taylor = "taylor (Michel's importance)"
    found = {row["x"]: row["rise"] for row in rows_of(figure) if row.get("what") == taylor}
    assert found == pytest.approx({100: 0.0, 75: 0.0, 50: 0.1})
    assert "its 95 % CI" in figure.caption


def test_how_many_can_go_is_said_for_every_step():
    losses = {"dense": 2.0, "at": 3.0, "at-75": 3.0, "at-50": 3.0, "last-75": 2.01, "last-50": 2.4}
    said = training.prunable(material(STEPS, losses))
    assert said is not None
    assert said.sentence == (
        "Largest tested share of heads whose pruning raises the loss by less than 1 % (upper end of the 95 % CI "
        "over seeds): 50 % at step 10 and 25 % at step 40"
    )
    assert training.prunable(material(METHODS, LOSSES)) is None


def test_a_mean_that_is_low_by_luck_lets_no_head_go():
    """The mean rise of 75 % is half of the bound, and its interval goes beyond it; of two seeds there is none."""
    losses = {"dense": 2.0, "at": 3.0, "at-75": 3.0, "at-50": 3.4, "last-75": 2.01, "last-50": 2.4}
    of = material(STEPS, losses)
    (arm,) = (arm for arm in of.arms if arm.name == "last-75")
    for at, finished in enumerate(arm.runs):
        finished.run.metrics["eval_loss_nats"] += (-0.01, 0.0, 0.01)[at]  # type: ignore[index]
    said = training.prunable(of)
    assert said is not None
    assert said.sentence.endswith(": 25 % at step 10 and none at step 40")
    assert training.prunable(material(STEPS, losses, seeds=2)) is None


def test_they_come_first_where_arms_start_from_others_and_nowhere_else():
    names = [figure.name for figure in LABORATORY.answers(material(METHODS, LOSSES)) if figure is not None]
    assert names == ["pruned"]
    plain = small_text.experiment(arms={"dense": {}}, baseline="dense")
    assert not any(LABORATORY.answers(material(plain, {"dense": 2.0})))


def test_one_seed_has_no_interval():
    figure = training.against_kept(material(METHODS, LOSSES, seeds=1))
    assert figure is not None
    assert "Each point is one seed." in figure.caption

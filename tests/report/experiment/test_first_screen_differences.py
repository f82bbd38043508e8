"""The differences of the first screen: paired by seed, in per cent or in the metric's unit."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.fabricate import compared, fabricate, material_of, small
from support.fabricate_text import fabricate_text, head_progression

from headway.report.experiment.data import ReportData
from headway.report.experiment.first_screen import first_screen, margin_of, shown_differences
from headway.store.directory import Store
from headway.store.look_plans import StoredPlan, keep_plan


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """1, 2 and 4 heads; 2 are the baseline, 1 is far worse."""
    chosen = small("icl-heads").select(arms=["h1", "h2", "h4"], seeds=3)
    return compared(fabricate(tmp_path_factory.mktemp("d") / "icl", chosen))


def test_a_value_per_seed_is_its_paired_difference_in_per_cent_of_the_baseline(material: ReportData) -> None:
    shown = next(shown_differences(material))
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    assert shown.verdict.unit is None
    assert shown.sides == ("1 head", "2 heads")
    assert shown.values == pytest.approx([100 * (h1[seed] / h2[seed] - 1) for seed in range(3)])
    assert shown.mean == pytest.approx(100 * shown.judged.share)
    assert (shown.low, shown.high) == pytest.approx([100 * end for end in shown.judged.share_interval])


@pytest.mark.slow
def test_the_margin_is_that_of_the_plan_which_verdicts_follow(tmp_path: Path) -> None:
    path = fabricate_text(tmp_path / "hp", head_progression())
    questions = {one.name: dict(one.weights) for one in Store.open(path).experiment.contrasts}
    asked = {"looks": (3, 4), "level": 0.05, "metric": "eval_loss_nats", "asked": questions, "are_declared": True}
    keep_plan(path, StoredPlan(margin=0.25, **asked))
    material = compared(path)
    assert (material.experiment.margin, margin_of(material.results)) == (1.0, 0.25)
    shown = first_screen(material, "").shown
    assert shown is not None
    assert "Within the shaded margin of ± 0.25 %, arms count as equally good." in shown.legend
    assert all("1 %" not in row.verdict for row in shown.rows)
    contrast = list(shown_differences(material))[1]
    assert contrast.sides == ("ascending", "constant")
    assert len(contrast.values) == 3


def test_of_values_of_0_and_below_it_is_in_units(material: ReportData) -> None:
    bare = tuple(
        replace(c, rule="paired", relative=None, estimate=c.difference, interval=None)
        for c in material.results.comparisons
    )
    shown = next(shown_differences(replace(material, results=replace(material.results, comparisons=bare))))
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    assert shown.verdict.unit == "y squared"
    assert shown.values[0] == pytest.approx(h1[0] - h2[0])
    assert not shown.has_interval


@pytest.mark.slow
def test_each_control_has_folded_rows_of_its_own(tmp_path: Path) -> None:
    chosen = head_progression().select(controls=["scaled-logits", "learning-rates-half"], seeds=1)
    folded = first_screen(material_of(Store.open(fabricate_text(tmp_path / "hp", chosen))), "").folded
    # A control of the learning rate has a table.
    assert [forest.title for forest in folded] == ["Each arm against its baseline", "Under scaled logits"]
    assert not any(row.seeds or row.ends for row in folded[0].rows), "one seed"


@pytest.mark.slow
def test_arms_of_different_tasks_are_left_out(tmp_path: Path) -> None:
    chosen = small("icl-anisotropic").select(arms=["h1", "h2"], controls=["stronger"], seeds=2)
    (folded,) = first_screen(compared(fabricate(tmp_path / "a", chosen)), "").folded
    assert [row.name for row in folded.rows] == ["1 head, rho 0.8 vs 2 heads, rho 0.8"]
    assert "Not shown: comparisons across tasks" in folded.legend

"""The first figure is the answer: paired differences as they are, on an axis that shows them."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.fabricate import fabricate, material_of, small
from support.fabricate_text import fabricate_text, head_progression

from headway.report.charts.figure import Figure
from headway.report.experiment.answer import differences
from headway.report.experiment.data import ReportData
from headway.report.experiment.page import figures
from headway.stats import results
from headway.store.directory import Store
from headway.store.look_plans import StoredPlan, keep_plan


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """1, 2 and 4 heads; 2 are the baseline, 1 is far worse."""
    store = Store.open(
        fabricate(tmp_path_factory.mktemp("d") / "icl", small("icl-heads").select(arms=["h1", "h2", "h4"], seeds=3))
    )
    results.write(store)
    return material_of(store)


def rows(figure: Figure) -> list[dict]:
    return [row for data in figure.spec["datasets"].values() for row in data]


def titles(figure: Figure) -> list[list[str]]:
    """Of the panels, without the columns of words."""
    return [[p["title"] for p in row["hconcat"] if "layer" in p] for row in figure.spec["vconcat"]]


def words(figure: Figure, column: str) -> dict[str, str]:
    return {row["arm"]: row[column] for row in rows(figure) if column in row}


def test_it_stands_first_in_the_report_of_both_laboratories(material: ReportData, tmp_path: Path) -> None:
    text = material_of(Store.open(fabricate_text(tmp_path / "hp", head_progression().select(seeds=1))))
    for one in (material, text):
        first = next(figures(one))
        assert (first.name, first.part, first.folded) == ("differences", "Outcome", False)


def test_a_point_per_seed_is_its_paired_difference_in_per_cent_of_the_baseline(material: ReportData) -> None:
    (figure,) = differences(material)
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    drawn = {row["seed"]: row["difference"] for row in rows(figure) if row.get("arm") == "1 head" and "seed" in row}
    assert drawn == {str(seed): pytest.approx(100 * (h1[seed] / h2[seed] - 1), rel=1e-5) for seed in range(3)}
    compared = next(c for c in material.results.judged if c.arm == "h1")
    mean = next(row for row in rows(figure) if row.get("arm") == "1 head" and "low" in row)
    assert mean["difference"] == pytest.approx(100 * compared.share, rel=1e-5)
    assert (mean["low"], mean["high"]) == pytest.approx([100 * end for end in compared.share_interval], rel=1e-5)
    assert {row["against"] for row in rows(figure) if "against" in row} == {"2 heads"}
    assert {"difference": 0.0} in rows(figure)
    assert "(% of it)" in str(figure.spec)
    assert "Left of the line is better." in figure.caption
    assert "the bar its 95 % interval; those of a question hold at once." in figure.caption


@pytest.mark.slow
def test_beside_stand_what_it_reads_and_what_a_run_costs(material: ReportData) -> None:
    (figure,) = differences(material)
    assert words(figure, "verdict")["1 head"] == "worse"
    assert words(figure, "verdict")["4 heads"] in ("no clear difference", "as good within 1 %")
    assert set(words(figure, "time").values()) == {"2.2 s | 2.2 s"}
    slow = replace(material.runs[0], metrics={**material.runs[0].metrics, "processor_s": 9_000.0})
    (figure,) = differences(replace(material, runs=(slow, *material.runs[1:])))
    assert set(words(figure, "time").values()) == {"2.2 s | 2.2 s"}, "a run that was slow for once does not count"
    assert {"from": -1.0, "to": 1.0} in rows(figure)
    assert "The band is ± 1 %: an arm is as good within 1 % if its whole interval lies inside." in figure.caption
    bare = [replace(run, metrics={k: v for k, v in run.metrics.items() if k != "processor_s"}) for run in material.runs]
    (figure,) = differences(replace(material, runs=tuple(bare)))
    assert words(figure, "time") == {}


@pytest.mark.slow
def test_what_is_asked_stands_before_the_single_arms(tmp_path: Path) -> None:
    asked, arms = differences(material_of(Store.open(fabricate_text(tmp_path / "hp", head_progression()))))
    assert (asked.name, asked.title, arms.name, arms.folded) == (
        "differences",
        "What is asked",
        "differences-arms",
        False,
    )
    assert list(words(asked, "verdict")) == ["descending - constant", "ascending - constant"]
    points = [row for row in rows(asked) if row.get("arm") == "ascending - constant" and "seed" in row]
    assert [row["seed"] for row in points] == ["0", "1", "2"]
    assert words(asked, "verdict")["ascending - constant"] == "worse"
    assert words(arms, "verdict")["descending-medium (48-24-12-6)"] == "as good within 1 %"
    assert "Each side a mean over its arms" in asked.caption


@pytest.mark.slow
def test_the_band_is_that_of_the_plan_which_verdicts_follow(tmp_path: Path) -> None:
    path = fabricate_text(tmp_path / "hp", head_progression())
    store = Store.open(path)
    questions = {one.name: dict(one.weights) for one in store.experiment.contrasts}
    asked = {"looks": (3, 4), "level": 0.05, "metric": "eval_loss_nats", "asked": questions, "are_declared": True}
    keep_plan(path, StoredPlan(margin=0.25, **asked))
    results.write(store)
    material = material_of(store)
    assert material.experiment.margin == 1.0
    for figure in differences(material):
        assert {"from": -0.25, "to": 0.25} in rows(figure)
        assert (
            "The band is ± 0.25 %: an arm is as good within 0.25 % if its whole interval lies inside." in figure.caption
        )
        read = words(figure, "verdict").values()
        assert read
        assert all("1 %" not in one for one in read)


def test_differences_far_smaller_than_the_largest_are_drawn_larger_beside_it(material: ReportData) -> None:
    (figure,) = differences(material)
    assert titles(figure) == [["against 2 heads", "drawn larger"]]
    near = replace(material, arms=tuple(arm for arm in material.arms if arm.name != "h1"))
    (figure,) = differences(near)
    assert titles(figure) == [["against 2 heads"]]
    assert "drawn larger" not in figure.caption


def test_of_values_of_0_and_below_it_is_in_units(material: ReportData) -> None:
    bare = tuple(
        replace(c, rule="paired", relative=None, estimate=c.difference, interval=None)
        for c in material.results.comparisons
    )
    (figure,) = differences(replace(material, results=replace(material.results, comparisons=bare)))
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    drawn = [row["difference"] for row in rows(figure) if row.get("arm") == "1 head" and row.get("seed") == "0"]
    assert drawn[0] == pytest.approx(h1[0] - h2[0], rel=1e-5)
    assert "(y squared)" in str(figure.spec)
    assert "The band" not in figure.caption


def test_colours_are_those_of_the_arms(material: ReportData) -> None:
    (figure,) = differences(material)
    expected = {arm.label: arm.colour for arm in material.arms}
    layers = figure.spec["vconcat"][0]["hconcat"][0]["layer"]
    scales = [layer["encoding"]["color"]["scale"] for layer in layers if "color" in layer["encoding"]]
    assert scales
    for scale in scales:
        assert dict(zip(scale["domain"], scale["range"], strict=True)).items() <= expected.items()


@pytest.mark.slow
def test_groups_have_panels_and_controls_a_folded_figure(tmp_path: Path) -> None:
    chosen = head_progression().select(controls=["scaled-logits", "learning-rates-half"], seeds=1)
    asked, plain, controls = differences(material_of(Store.open(fabricate_text(tmp_path / "hp", chosen))))
    assert [title for row in titles(plain) for title in row if title != "drawn larger"] == [
        *(f"{g}: against constant-{g} ({n}-{n}-{n}-{n})" for g, n in (("low", 12), ("medium", 24), ("high", 48))),
        "against constant-low (12-12-12-12)",
    ]
    assert not asked.folded
    assert not plain.folded
    assert controls.folded
    assert titles(controls)[0][0] == "scaled logits: what is asked"
    assert ["scaled logits: each against itself without it"] in [row[:1] for row in titles(controls)]
    assert "x0.5" not in str(controls.spec)  # a control of the learning rate has a table
    assert "One seed: a point per difference, and no interval." in plain.caption


@pytest.mark.slow
def test_arms_of_different_tasks_are_left_out_and_nothing_is_drawn_without_a_pair(tmp_path: Path) -> None:
    chosen = small("icl-anisotropic").select(arms=["h1", "h2"], controls=["stronger"], seeds=2)
    store = Store.open(fabricate(tmp_path / "a", chosen))
    results.write(store)
    _, controls = differences(material_of(store))
    assert titles(controls) == [["against 2 heads, rho 0.8"]]
    assert "Left out: what is judged on different tasks" in controls.caption
    alone = Store.open(fabricate(tmp_path / "b", small("icl-heads").select(arms=["h2"], seeds=1)))
    results.write(alone)
    assert list(differences(material_of(alone))) == []


def test_shares_of_seeds_are_told_in_their_unit_each_with_its_own_interval(material: ReportData) -> None:
    families = tuple(replace(family, rule="shares") for family in material.results.families)
    comparisons = tuple(replace(one, rule="shares") for one in material.results.comparisons)
    changed = replace(material.results, families=families, comparisons=comparisons)
    (figure,) = differences(replace(material, results=changed))
    assert "(% of it)" not in str(figure.spec)
    assert "hold at once" not in figure.caption
    assert "the bar its 95 % interval (Newcombe), which holds by itself" in figure.caption

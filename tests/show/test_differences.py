"""The first figure is the answer: paired differences as they are, on an axis that shows them."""

from dataclasses import replace
from pathlib import Path

import pytest
from fabricate import fabricate, material_of, small
from fabricate_text import fabricate_text, head_progression

from headway.compare import results
from headway.runs.store import Store
from headway.show.report.differences import differences
from headway.show.report.page import figures
from headway.show.report.report_data import ReportData
from headway.show.shared.figure import Figure


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
    return [[panel["title"] for panel in row["hconcat"]] for row in figure.spec["vconcat"]]


def test_it_stands_first_in_the_report_of_both_laboratories(material: ReportData, tmp_path: Path) -> None:
    text = material_of(Store.open(fabricate_text(tmp_path / "hp", head_progression().select(seeds=1))))
    for one in (material, text):
        first = next(figures(one))
        assert (first.name, first.part, first.folded) == ("differences", "Outcome", False)


def test_a_point_per_seed_is_its_paired_difference_in_per_cent_of_the_baseline(material: ReportData) -> None:
    (figure,) = differences(material)
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    level = sum(h2.values()) / 3
    drawn = {row["seed"]: row["difference"] for row in rows(figure) if row.get("arm") == "1 head" and "seed" in row}
    assert drawn == {str(seed): pytest.approx(100 * (h1[seed] - h2[seed]) / level, rel=1e-5) for seed in range(3)}
    compared = next(c for c in material.results.judged if c.arm == "h1")
    mean = next(row for row in rows(figure) if row.get("arm") == "1 head" and "low" in row)
    assert mean["difference"] == pytest.approx(100 * compared.relative, rel=1e-5)
    scale = 100 * compared.relative / compared.difference
    assert (mean["low"], mean["high"]) == pytest.approx([scale * end for end in compared.interval], rel=1e-5)
    assert {row["against"] for row in rows(figure) if "against" in row} == {"2 heads"}
    assert {"difference": 0.0} in rows(figure)
    assert "(% of it)" in str(figure.spec)
    assert "Left of the line is better." in figure.caption
    assert "the bar its 95 % interval (t)" in figure.caption


def test_differences_far_smaller_than_the_largest_are_drawn_larger_beside_it(material: ReportData) -> None:
    (figure,) = differences(material)
    assert titles(figure) == [["against 2 heads", "drawn larger"]]
    near = replace(material, arms=tuple(arm for arm in material.arms if arm.name != "h1"))
    (figure,) = differences(near)
    assert titles(figure) == [["against 2 heads"]]
    assert "drawn larger" not in figure.caption


def test_without_a_relative_difference_it_is_in_units(material: ReportData) -> None:
    bare = tuple(replace(c, relative=None) for c in material.results.comparisons)
    (figure,) = differences(replace(material, results=replace(material.results, comparisons=bare)))
    h1, h2, _ = (arm.by_seed("eval_mse") for arm in material.arms)
    drawn = [row["difference"] for row in rows(figure) if row.get("arm") == "1 head" and row.get("seed") == "0"]
    assert drawn[0] == pytest.approx(h1[0] - h2[0], rel=1e-5)
    assert "(y squared)" in str(figure.spec)


def test_colours_are_those_of_the_arms(material: ReportData) -> None:
    (figure,) = differences(material)
    expected = {arm.label: arm.colour for arm in material.arms}
    layers = figure.spec["vconcat"][0]["hconcat"][0]["layer"]
    scales = [layer["encoding"]["color"]["scale"] for layer in layers if "color" in layer["encoding"]]
    assert scales
    for scale in scales:
        assert dict(zip(scale["domain"], scale["range"], strict=True)).items() <= expected.items()


def test_groups_have_panels_and_controls_a_folded_figure(tmp_path: Path) -> None:
    chosen = head_progression().select(controls=["scaled-logits", "learning-rates-half"], seeds=1)
    plain, controls = differences(material_of(Store.open(fabricate_text(tmp_path / "hp", chosen))))
    assert [title for row in titles(plain) for title in row if title != "drawn larger"] == [
        *(f"{g}: against constant-{g} ({n}-{n}-{n}-{n})" for g, n in (("low", 12), ("medium", 24), ("high", 48))),
        "against constant-low (12-12-12-12)",
    ]
    assert not plain.folded
    assert controls.folded
    assert titles(controls)[0][0] == "scaled logits: each against itself without it"
    assert "x0.5" not in str(controls.spec)  # a control of the learning rate has a table
    assert "One seed: a point per arm, and no interval." in plain.caption


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

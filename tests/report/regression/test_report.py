"""Figures: each has its words, is valid, draws, and gives a head or an arm the same colour everywhere."""

import json
import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import stored
from support.fabricate import fabricate, material_of, small
from support.figures import have_words_and_warn_of_nothing
from support.tolerance import assert_same

from headway.errors import ResultsError
from headway.report.charts.figure import ARM_COLOURS, inline
from headway.report.charts.page import svg_of
from headway.report.experiment.data import ReportData
from headway.report.experiment.laboratory import by_task
from headway.report.experiment.outcome import final_outcome
from headway.report.experiment.page import figures
from headway.report.regression import heads as dynamics
from headway.report.regression import heads as maps
from headway.report.regression import theory, training
from headway.report.regression.heads import circuits_of
from headway.report.regression.report import ERROR, LABORATORY
from headway.store.directory import Store

final_error = partial(final_outcome, measure=ERROR)


def found(value: Any, key: str) -> list[Any]:
    """Everything that stands under a key, at any depth."""
    if isinstance(value, dict):
        here = [value[key]] if key in value else []
        return here + [hit for inner in value.values() for hit in found(inner, key)]
    return [hit for inner in value for hit in found(inner, key)] if isinstance(value, list) else []


def names(material: ReportData) -> list[str]:
    return [figure.name for figure in figures(material)]


@pytest.mark.slow
def test_every_figure_of_the_laboratory_is_there(heads: ReportData) -> None:
    per_arm = [f"{kind}-{arm}" for arm in ("h1", "h2", "h4", "h8") for kind in ("circuits", "steps")]
    whole = ["final-error", "lengths", "lengths-by-arm", "loss", "dynamics"]
    assert names(heads) == [*whole, *per_arm, "proportional-regime"]


@pytest.mark.slow
def test_every_figure_has_words_draws_offline_and_warns_of_nothing(
    heads: ReportData, capfd: pytest.CaptureFixture[str]
) -> None:
    have_words_and_warn_of_nothing(figures(heads), capfd)


@pytest.mark.slow
def test_captions_say_how_many_seeds_and_what_the_bands_are(heads: ReportData) -> None:
    captions = {figure.name: figure.caption for figure in figures(heads)}
    assert "means over seeds (up to 2), and bands span the range over seeds" in captions["loss"]
    assert "means over seeds (up to 2)" in captions["lengths"]
    assert "95 % bootstrap intervals" in captions["lengths-by-arm"]
    assert "Dark lines are seed 0, and faint lines are other seeds (at most 4)" in captions["dynamics"]
    assert "large points are their means." in captions["final-error"]


@pytest.mark.slow
def test_with_one_seed_there_is_no_band_and_captions_say_so(directory: Path) -> None:
    material = material_of(Store.open(fabricate(directory, small("icl-heads").select(seeds=1))))
    captions = {figure.name: figure.caption for figure in figures(material)}
    assert "band" not in captions["loss"].lower()
    assert "faint" not in captions["dynamics"]
    loss = training.loss(material)
    assert loss is not None
    assert "area" not in [mark["type"] for mark in found(loss.spec, "mark")]


def with_luck(directory: Path, luck: float, seeds: int) -> ReportData:
    """Runs whose validation on few prompts has a standard error, and whose final evaluation is known."""
    path = fabricate(directory, small("icl-heads").select(arms=["h1", "h2"], seeds=seeds))
    for folder in path.glob("runs/*/seed-*"):
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        text = "".join(json.dumps({**line, "eval_mse_adjusted_se": luck}) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        final = json.loads((folder / "run.json").read_text())["metrics"]
        stored.rewrite(folder, metrics={**final, "eval_mse_adjusted": final["eval_mse"]})
        stored.seal(folder)
    return material_of(Store.open(path))


@pytest.mark.parametrize("seeds", [1, 2])
def test_validation_on_few_prompts_has_a_band_of_their_luck_and_the_final_error(directory: Path, seeds: int) -> None:
    material = with_luck(directory, 0.2, seeds)
    figure = training.loss(material)
    assert figure is not None
    assert "points are the final evaluation on 100,000 prompts." in figure.caption
    assert "Bands around the validation loss also cover the 95 % interval over prompts." in figure.caption
    _, validation = figure.spec["hconcat"] if "hconcat" in figure.spec else figure.spec["concat"]
    marks = [layer["mark"]["type"] for layer in validation["layer"]]
    assert {"area", "point"} <= set(marks)
    (point,) = (layer for layer in validation["layer"] if layer["mark"]["type"] == "point")
    rows = figure.spec["datasets"][point["data"]["name"]]
    expected = [float(np.mean(arm.final("eval_mse"))) for arm in material.arms]
    assert_same([row["mse"] for row in rows], expected, dtype=np.float32)
    area = next(layer for layer in validation["layer"] if layer["mark"]["type"] == "area")
    curve = [row for row in figure.spec["datasets"][area["data"]["name"]] if row["what"] == "1 head"]
    last = max(curve, key=lambda row: row["step"])
    reach = math.exp(1.96 * 0.2 / last["mse"])
    spread = reach**2 if seeds == 1 else last["high"] / last["low"]
    assert_same(last["high"] / last["low"], spread, dtype=np.float32)
    assert last["high"] / last["low"] > 0.999 * reach**2


@pytest.mark.parametrize(
    ("w", "mu", "dead"),
    [
        ([0.5], [1.5], 0),
        ([0.14, -0.14], [3.2, -3.2], 0),
        ([0.14, -0.14, 0.14], [3.2, -3.2, 0.001], 1),
        ([0.14, -0.14, 0.0, 0.14], [3.2, -3.2, 5.0, 0.001], 2),
        ([[0.1, 0.0], [0.0, 0.1], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 1),
    ],
)
def test_a_head_is_dead_whose_part_of_the_step_is_below_a_hundredth(w: Any, mu: Any, dead: int) -> None:
    run = SimpleNamespace(metrics={"w": w, "mu": mu})
    assert dynamics.dead_heads(run) == dead  # type: ignore[arg-type]


def test_dead_heads_are_counted_beside_what_each_head_becomes(heads: ReportData) -> None:
    (_, table), *_ = LABORATORY.heads(heads.arms[1])
    assert table.caption == ("Dead heads: 0 of 2. A head is dead if its |mu w| is below 1 % of the sum over heads.")


def test_with_three_seeds_there_is_an_interval(directory: Path) -> None:
    material = material_of(Store.open(fabricate(directory, small("icl-heads").select(arms=["h2", "h4"], seeds=3))))
    figure = final_error(material)
    assert figure is not None
    assert "95 % CIs (t distribution)" in figure.caption


@pytest.mark.slow
def test_arms_are_coloured_the_same_in_every_figure_whatever_has_finished(directory: Path, heads: ReportData) -> None:
    statuses = {("h1", seed): "failed" for seed in (0, 1)}
    without = material_of(Store.open(fabricate(directory, small("icl-heads").select(seeds=2), statuses)))
    expected = dict(zip(("1 head", "2 heads", "4 heads", "8 heads"), ARM_COLOURS, strict=False))
    for material in (heads, without):
        for draw in (training.loss, training.lengths, training.lengths_by_arm, final_error, theory.proportional):
            figure = draw(material)
            assert figure is not None
            for colour in (c for c in found(figure.spec, "color") if isinstance(c, dict) and "scale" in c):
                drawn = dict(zip(colour["scale"]["domain"], colour["scale"]["range"], strict=True))
                assert {arm: c for arm, c in drawn.items() if arm in expected}.items() <= expected.items()


def test_maps_are_centred_at_zero_with_one_scale_and_part_x_from_y(heads: ReportData) -> None:
    figure = maps.circuit_steps(heads.arms[-1])
    assert figure is not None
    spec = figure.spec
    scales = [c["scale"] for c in found(spec, "color") if isinstance(c, dict) and "scale" in c]
    assert len(scales) == 1
    low, high = scales[0]["domain"]
    assert low == -high
    assert scales[0]["domainMid"] == 0
    assert {"bandPosition": 0, "datum": "y"}.items() <= found(spec, "x")[1].items()
    largest = max(np.abs(heads.arms[-1].shown.run.head_arrays(step)["qk"]).max() for step in (1, 20, 200, 2_000))
    assert high == pytest.approx(largest)


def test_a_circuit_map_shows_the_entries_of_the_circuit(heads: ReportData) -> None:
    arm = heads.arms[1]
    data = {
        (row["across"], row["row"], row["column"]): row["value"]
        for rows in maps.final_circuits(arm).spec["datasets"].values()
        for row in rows
        if "value" in row
    }
    circuits = circuits_of(arm.shown)
    assert data["head 1", "x2", "x2"] == pytest.approx(circuits["qk"][0, 1, 1, 1], rel=1e-4)
    assert data["head 1", "x5", "y"] == pytest.approx(circuits["qk"][0, 1, 4, 5], rel=1e-4)


def test_long_curves_are_thinned(heads: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "POINTS", 20)
    figure = training.loss(heads)
    assert figure is not None
    per_arm = [len(rows) / 4 for rows in figure.spec["datasets"].values() if "step" in rows[0]]
    assert max(per_arm) <= 20


def test_numbers_that_are_not_finite_become_null() -> None:
    rows = inline([{"a": np.nan, "b": np.int64(3), "c": 1 / 3, "d": "x"}]).to_dict()["values"]
    assert json.loads(rows) == [{"a": None, "b": 3, "c": 0.3333333, "d": "x"}]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["icl-depth", "icl-two-tasks", "icl-linear-attention"])
def test_other_experiments_leave_out_what_they_do_not_have(name: str, directory: Path) -> None:
    experiment = small(name)
    experiment = experiment.select(arms=list(experiment.document.arms)[:3], seeds=1)
    material = material_of(Store.open(fabricate(directory, experiment)))
    drawn = names(material)
    assert ("dynamics" in drawn) == (name != "icl-depth")
    for figure in figures(material):
        svg_of(figure.spec)


def test_two_tasks_show_a_w_and_a_mu_for_each_output(directory: Path) -> None:
    material = material_of(Store.open(fabricate(directory, small("icl-two-tasks").select(arms=["h3"], seeds=1))))
    figure = dynamics.dynamics(material)
    assert figure is not None
    titles = {title for title in found(figure.spec, "title") if isinstance(title, str)}
    assert {"w, output 1", "w, output 2", "mu, output 1", "mu, output 2"} <= titles


@pytest.mark.slow
def test_arms_of_different_tasks_share_no_axis(directory: Path) -> None:
    experiment = small("icl-anisotropic").select(arms=["h1", "h2"], controls=["stronger"], seeds=1)
    material = material_of(Store.open(fabricate(directory, experiment)))
    assert not material.one_task
    assert [name for name, _ in material.tasks] == ["no control", "rho 0.8"]
    for draw in (training.loss, final_error, training.lengths):
        figure = by_task(draw, material)
        assert figure is not None
        panels = figure.spec["vconcat"]
        assert [panel["title"] for panel in panels] == ["no control", "rho 0.8"]
        assert figure.spec["resolve"]["scale"]["color"] == "independent"
        for panel, (_, part) in zip(panels, material.tasks, strict=True):
            used = {data["name"] for data in found(panel, "data") if isinstance(data, dict)}
            rows = [row for name in used for row in figure.spec["datasets"][name]]
            drawn = {row.get("what", row.get("arm")) for row in rows}
            assert drawn & {arm.label for arm in material.arms} == {arm.label for arm in part.arms}
            assert "debiased GD, best step" in drawn  # the estimators on its own task
    assert by_task(training.loss, material.under(None)).spec == training.loss(material.under(None)).spec


def test_tasks_without_a_control_are_named_by_their_arms(directory: Path) -> None:
    experiment = small("icl-heads", **{"arms.h1.task.n_pairs": 20}).select(arms=["h1", "h2", "h4"], seeds=1)
    material = material_of(Store.open(fabricate(directory, experiment)))
    assert [name for name, _ in material.tasks] == ["1 head", "2 heads and 4 heads"]


def test_nothing_is_drawn_before_a_run_has_finished(directory: Path) -> None:
    experiment = small("icl-heads").select(arms=["h1"], seeds=1)
    material = material_of(Store.open(fabricate(directory, experiment, {("h1", 0): "failed"})))
    assert names(material) == []


def test_runs_without_curves_are_drawn_without_them(directory: Path) -> None:
    fabricate(directory, small("icl-heads").select(arms=["h1", "h2"], seeds=1))
    for path in directory.glob("runs/*/*/curves.json"):
        path.unlink()
    assert not {"lengths", "lengths-by-arm"} & set(names(material_of(Store.open(directory))))


def test_results_that_are_missing_or_damaged_say_what_to_do(directory: Path) -> None:
    fabricate(directory, small("icl-heads").select(arms=["h1"], seeds=1))
    (directory / "results.json").write_text('{"runs": [')
    with pytest.raises(ResultsError, match=r"cannot be read .*headway compare"):
        material_of(Store.open(directory))
    (directory / "results.json").unlink()
    with pytest.raises(ResultsError, match="not there yet; `headway compare"):
        material_of(Store.open(directory))


def test_a_curve_ends_where_it_crosses_the_floor() -> None:
    rows = [{"what": "a", "n_pairs": n, "mse": mse, "low": mse, "high": mse} for n, mse in ((1, 1), (10, 0.01))]
    kept = list(training._above(rows, floor=0.1))
    assert [(round(row["n_pairs"], 3), row["mse"]) for row in kept] == [(1, 1), (3.162, 0.1)]
    other = [*rows, {**rows[0], "what": "b"}]
    assert [row["what"] for row in training._above(other, floor=0.1)] == ["a", "a", "b"]

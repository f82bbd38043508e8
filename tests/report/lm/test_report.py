"""The report on language models: which figures the results call for, their words, and what must not overlap."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support import stored
from support.fabricate import material_of
from support.fabricate_text import data_lane, fabricate_text, head_progression, shipped
from support.figures import have_words_and_warn_of_nothing, rows_of

from headway.report.charts import intervals as labels
from headway.report.experiment.data import ReportData, arm_styles
from headway.report.experiment.laboratory import by_task
from headway.report.experiment.outcome import final_outcome
from headway.report.experiment.page import figures, page
from headway.report.lm import samples, size, training
from headway.report.lm import size as heads
from headway.report.lm.common import LOSS
from headway.report.lm.report import LABORATORY as text_report
from headway.store.directory import Store


@pytest.fixture(scope="module")
def progression(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    path = tmp_path_factory.mktemp("text") / "hp"
    return material_of(Store.open(fabricate_text(path, head_progression().select(controls=["learning-rates"]))))


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    path = tmp_path_factory.mktemp("text") / "lane"
    chosen = data_lane().select(controls=["positions-outside-lane"])
    return material_of(Store.open(fabricate_text(path, chosen)))


def names(material: ReportData) -> list[str]:
    return [figure.name for figure in figures(material)]


@pytest.mark.slow
def test_figures_are_those_that_the_results_call_for(progression: ReportData, lanes: ReportData) -> None:
    # Controls that change the learning rate only have a table, and no figures of their own.
    expected = ["heads", "final-loss", "learning", "cost", "repetition"]
    assert names(progression) == expected
    per_control = ["learning", "cost", "lane-use", "repetition"]
    expected = ["parameters", "final-loss", "lane-diagram"]
    expected += [f"{name}{end}" for name in per_control for end in ("", "-positions-outside-lane")]
    assert sorted(names(lanes)) == sorted(expected)


@pytest.mark.slow
def test_every_figure_has_words_draws_offline_and_warns_of_nothing(
    progression: ReportData, lanes: ReportData, capfd: pytest.CaptureFixture[str]
) -> None:
    have_words_and_warn_of_nothing((*figures(progression), *figures(lanes)), capfd)


def test_points_are_labelled_with_layouts_and_the_tenth_is_not_in_the_fit(progression: ReportData) -> None:
    figure = heads.loss_against_heads(progression.under(None))
    assert figure is not None
    points = {row["label"]: row for row in rows_of(figure) if "label" in row}
    assert len(points) == 10
    assert points["96-48-24-12"]["heads"] == 180
    assert [label for label, row in points.items() if row["unfitted"]] == ["16-16-16-16"]
    assert "Hollow points are not used in a fit." in figure.caption
    assert any("as many parameters as points (3)" in row.get("note", "") for row in rows_of(figure))


def test_the_curves_have_a_column_per_group_and_the_tenth_arm_in_each(progression: ReportData) -> None:
    figure = training.learning(progression.under(None))
    assert figure is not None
    upper, lower = figure.spec["vconcat"]
    assert [panel["title"] for panel in upper["hconcat"]] == ["low", "medium", "high"]
    assert len(lower["hconcat"]) == 3
    assert re.match(
        r"Curves show the loss on 64 held-out sequences; tables show the final loss, on (all|[\d,]+) sequences\.",
        figure.caption,
    )
    assert "means over seeds (up to 3), and bands span" in figure.caption


def test_costs_are_from_solo_timings_alone(progression: ReportData, lanes: ReportData) -> None:
    without = replace(lanes.under(None), timings={})
    assert size.cost(without) is None
    drawn = size.cost(progression.under(None))
    assert drawn is not None
    found = {row["arm"]: row for row in rows_of(drawn) if "step_s" in row}
    assert found["constant-high (48-48-48-48)"]["step_s"] == pytest.approx(
        progression.timings["constant-high"]["step_s"], rel=1e-4
    )
    assert "separate from training" in drawn.caption
    assert "(on cpu, 1 thread)" in drawn.caption


def test_the_curve_of_sizes_joins_plain_models_only(lanes: ReportData) -> None:
    figure = size.loss_against_parameters(lanes)
    assert figure is not None
    points = [row for row in rows_of(figure) if "plain" in row]
    assert {row["label"] for row in points if row["plain"]} == {"NoDL-96-5.5M", "NoDL-384-27M", "NoDL-768-69M"}
    assert "The line interpolates the loss of plain models" in figure.caption


def test_lane_use_ends_before_the_final_norm(lanes: ReportData) -> None:
    figure = training.lane_use(lanes.under("positions-outside-lane"))
    assert figure is not None
    shares = {(row["what"], row["place"]): row["share"] for row in rows_of(figure) if "what" in row}
    assert shares["DL-768-96-35M, positions outside", "layer 0"] == 0.0
    assert shares["DL-768-96-35M, positions outside", "final norm"] == 0.61


def test_names_beside_points_cover_nothing() -> None:
    points = [labels.Named(x=100 + 4 * i, y=100 + 3 * i, name="48-24-12-6") for i in range(9)]
    chosen = labels.sides(points, width=600, height=300)
    boxes = [labels._box(point, side) for point, side in zip(points, chosen, strict=True)]
    assert not any(labels._overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(labels._inside(box, 600, 300) for box in boxes)


def test_the_table_ends_with_what_needs_no_training(progression: ReportData) -> None:
    table = text_report.final(progression)
    assert table.columns[:3] == ("", "evaluation loss (nats per token)", "against its baseline")
    by_name = {row.cells[0]: row.cells for row in table.rows}
    assert by_name["unigram model"][1] == "5.740"
    assert by_name["bigram model"][1] == "3.420"
    assert by_name["ascending-low (3-6-12-24)"][2].startswith("+7.")
    assert by_name["constant-low (12-12-12-12)"][2] == "–"


def test_the_table_names_the_baselines_where_there_are_several(progression: ReportData, lanes: ReportData) -> None:
    table = text_report.final(progression.under(None))
    which = {row.cells[0].partition(" ")[0]: row.cells[table.columns.index("baseline")] for row in table.rows}
    assert which["ascending-low"] == which["descending-low"] == "12-12-12-12"
    assert which["ascending-high"] == which["descending-high"] != "12-12-12-12"
    assert which["constant-low"] == "–"
    assert "baseline" not in text_report.final(lanes.under(None)).columns


@pytest.mark.parametrize(("n_tokens", "drawn"), [(350, {100, 200, 300}), (299, set()), (120, set())])
def test_whole_blocks_of_samples_are_drawn_where_there_are_three(tmp_path: Path, n_tokens: int, drawn: set) -> None:
    path = fabricate_text(tmp_path / "hp", head_progression().select(arms=["constant-low"], seeds=1))
    file = path / "runs" / "constant-low" / "seed-0" / "samples.jsonl"
    blocks = [0.0] * (n_tokens // 100)
    short = {"n_tokens": n_tokens, "repetition": [*blocks, 0.5]}
    file.write_text("".join(json.dumps({**json.loads(line), **short}) + "\n" for line in file.read_text().splitlines()))
    stored.seal(file.parent)
    material = material_of(Store.open(path))
    figure = samples.repetition(material)
    assert ({row["token"] for row in rows_of(figure)} if figure else set()) == drawn
    assert (
        f"; 50 % of the 4-grams in the last {n_tokens % 100} tokens occur earlier"
        in samples.writings(material)[0].samples[1].note
    )


def test_the_published_sentence_stands_in_the_answer(progression: ReportData) -> None:
    said = [statement.sentence for statement in text_report.statements(progression)]
    assert said[0].startswith("At 180 heads, no clear difference between descending and constant: −0.30 %, 95 %")
    assert "with a fitted amplitude" in said[0]
    assert any("learning rate" in sentence for sentence in said)
    assert sum("heads," in sentence and sentence.startswith("At 180") for sentence in said) == 2


def test_the_page_holds_the_texts_and_obeys_none_of_them(tmp_path: Path) -> None:
    evil = "</blockquote><script>alert(1)</script>"
    path = fabricate_text(tmp_path / "hp", head_progression().select(arms=["constant-low"], seeds=1))
    file = path / "runs" / "constant-low" / "seed-0" / "samples.jsonl"
    first, second = file.read_text().splitlines()
    file.write_text(first + "\n" + json.dumps({**json.loads(second), "text": evil}) + "\n")
    stored.seal(file.parent)
    material = material_of(Store.open(path))
    html = page(material, tuple(figures(material)))
    assert "&lt;/blockquote&gt;&lt;script&gt;alert(1)" in html
    assert evil not in html
    assert "Once upon a time there was" in html
    assert "of the 4-grams in the last 100 tokens occur earlier" in html


def test_many_verdicts_under_controls_are_folded(progression: ReportData) -> None:
    html = page(progression, ())
    answer = html[html.index('<section class="answer"') : html.index('<div class="facts">')]
    # What was asked comes first and stays open.
    shown, _, folded = answer.partition("<details")
    assert "<td>descending vs constant</td>" in shown
    assert "<summary>Each arm against its baseline: 8 comparisons</summary>" in folded
    assert folded.index("descending vs constant") < folded.index("Under x0.5: The 95\xa0% intervals")
    assert "x0.5" not in shown
    assert "24-12-6-3" not in shown


def test_a_report_without_a_finished_run_says_so(tmp_path: Path) -> None:
    experiment = head_progression().select(arms=["constant-low"], seeds=1)
    material = material_of(Store.open(fabricate_text(tmp_path / "none", experiment, {("constant-low", 0): "failed"})))
    assert names(material) == []
    assert "no run has finished" in page(material, ())


def test_runs_without_samples_lanes_and_timings_are_drawn_without_them(tmp_path: Path) -> None:
    path = fabricate_text(tmp_path / "bare", head_progression().select(arms=["constant-low"], seeds=1))
    for file in [*path.glob("runs/*/*/samples.jsonl"), *path.glob("timings/*")]:
        file.unlink()
    stored.seal(path / "runs" / "constant-low" / "seed-0")
    material = material_of(Store.open(path))
    assert names(material) == ["final-loss", "learning"]
    assert samples.writings(material) == []
    assert LOSS.name in names(material)


def test_the_axis_of_one_number_alone_has_a_length(tmp_path: Path) -> None:
    path = fabricate_text(tmp_path / "one", head_progression().select(arms=["constant-low"], seeds=1))
    results = json.loads((path / "results.json").read_text())
    (path / "results.json").write_text(json.dumps(results | {"baselines": {}}))
    figure = final_outcome(material_of(Store.open(path)), LOSS)
    assert figure is not None
    low, high = re.search(r'"domain": \[([\d.]+), ([\d.]+)\], "nice": false', json.dumps(figure.spec)).groups()
    assert 1.001 < float(high) / float(low) < 1.01


@pytest.mark.slow
@pytest.mark.parametrize("name", ["head-scaling", "low-rank"])
def test_every_shipped_experiment_has_a_report(name: str, tmp_path: Path) -> None:
    material = material_of(Store.open(fabricate_text(tmp_path / name, shipped(name))))
    assert {"final-loss", "learning"} <= set(names(material))
    assert len({style.label for style in arm_styles(material.experiment).values()}) == len(material.experiment.arms)
    html = page(material, tuple(figures(material)))
    assert material.experiment.question in html


def test_what_no_task_has_to_draw_is_not_drawn_across_tasks(progression: ReportData) -> None:
    def other_task(arm):
        return replace(arm, runs=tuple(replace(run, task=arm.name) for run in arm.runs))

    apart = replace(progression.under(None), arms=tuple(other_task(arm) for arm in progression.under(None).arms))
    assert by_task(heads.loss_against_heads, progression.under(None)) is not None
    assert by_task(heads.loss_against_heads, apart) is None


def test_every_seed_lies_inside_the_axis_of_loss_against_heads(tmp_path: Path) -> None:
    material = material_of(Store.open(fabricate_text(tmp_path / "two", head_progression(seeds=2))))
    figure = heads.loss_against_heads(material)
    assert figure is not None
    low, high = figure.spec["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    seeds = [value for arm in material.arms for value in arm.final("eval_loss_nats")]
    assert low < min(seeds) <= max(seeds) < high

"""The report on heads while they train: its figures and their words."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.fabricate import material_of
from support.fabricate_heads import STEPS, as_published, fabricate_heads, otherwise, xray
from support.fabricate_text import fabricate_text, head_progression
from support.figures import have_words_and_warn_of_nothing, rows_of

from headway.config.document import Published
from headway.report.charts.figure import Figure
from headway.report.charts.page import write_figures
from headway.report.experiment.data import ReportData
from headway.report.experiment.first_screen import first_screen
from headway.report.experiment.page import _found, page
from headway.report.lm import heads, published, report
from headway.report.lm import samples as claims
from headway.report.lm.common import heads_of
from headway.report.lm.report import LABORATORY as text
from headway.store.directory import Store

PROBED = (*range(10), *range(2000, STEPS + 1, 2000))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("xray") / "x-ray"
    chosen = xray().select(arms=["heads-2", "heads-4"], controls=["as-published-norm"])
    return Store.open(fabricate_heads(path, chosen, steps=PROBED))


@pytest.fixture(scope="module")
def material(store: Store) -> ReportData:
    return material_of(store)


def fabricated(tmp_path: Path, *, plant=as_published, chosen=("heads-4",), seeds=1, **changes) -> ReportData:
    experiment = xray(**changes).select(arms=list(chosen), seeds=seeds)
    return material_of(Store.open(fabricate_heads(tmp_path / "results", experiment, plant, steps=PROBED)))


def drawn(material: ReportData, control: str | None = None) -> dict[str, Figure]:
    return {figure.name: figure for figure in report.probed(material, control)}


@pytest.fixture(scope="module")
def plain(material: ReportData) -> dict[str, Figure]:
    """The figures of the arms without a control."""
    return drawn(material)


@pytest.mark.slow
def test_figures_are_those_that_were_probed(material: ReportData, plain: dict[str, Figure]) -> None:
    found = plain
    open_ones = [name for name, figure in found.items() if not figure.folded]
    assert open_ones == [
        "heads-query-cka",
        "heads-query-cka-variance",
        "heads-context-cka",
        "heads-output-dissimilarity",
        "heads-output-dissimilarity-variance",
        "heads-attention-diversity",
        "association",
    ]
    folded = {"heads-query-orthogonality-raw", "heads-sink-score"}
    assert folded <= {name for name, figure in found.items() if figure.folded}
    under = drawn(material, "as-published-norm")
    assert {f"{name}-as-published-norm" for name in open_ones} <= set(under)
    assert all(figure.part == "Heads during training: norms after the sums" for figure in under.values())
    assert all(figure.folded for figure in under.values())


def test_runs_without_probes_have_none_of_it(tmp_path: Path) -> None:
    chosen = head_progression().select(arms=["constant-low"], seeds=1)
    bare = material_of(Store.open(fabricate_text(tmp_path / "bare", chosen)))
    assert drawn(bare) == {}
    assert bare.results.claims == ()
    assert bare.results.associations == ()
    assert claims.table(bare) is None


@pytest.mark.slow
def test_every_figure_has_words_draws_offline_and_warns_of_nothing(
    plain: dict[str, Figure], capfd: pytest.CaptureFixture[str]
) -> None:
    have_words_and_warn_of_nothing(plain.values(), capfd)


def test_the_film_is_a_gif_whose_last_frame_has_the_colours_of_the_last_probe(
    material: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.setattr(published, "MOST_FRAMES", 12)
    plain = drawn(material)
    paths = write_figures(tmp_path, [plain["heads-output-dissimilarity"]])
    assert [path.suffix for path in paths] == [".png", ".svg", ".pdf", ".gif"]
    frames = Image.open(paths[-1])
    assert 1 < frames.n_frames <= published.MOST_FRAMES
    assert paths[-1].stat().st_size < 1_000_000
    frames.seek(frames.n_frames - 1)
    assert frames.info["duration"] == published.LAST_MS
    picture = np.asarray(frames.convert("RGB"))
    row = [arm.label for arm in material.under(None).arms].index("4 heads")
    corner = 40 + row * (published.TILE + published.GAP), published.LABEL + 2 * (published.TILE + published.GAP)
    cell = published.TILE // 4
    tile = picture[corner[0] : corner[0] + published.TILE, corner[1] : corner[1] + published.TILE]
    assert abs(tile[cell // 2, cell // 2].astype(int) - published.MISSING).max() < 12  # a head with itself
    arm = next(arm for arm in material.arms if arm.label == "4 heads")
    value = arm.shown.run.head_arrays(STEPS)["output_dissimilarity/layers.2.attention"][0, 1]
    red, _, blue = tile[cell // 2, cell + cell // 2].astype(int)
    assert (red > blue) == (value > 0)


@pytest.mark.slow
def test_the_association_is_of_what_a_seed_does_by_itself(tmp_path: Path) -> None:
    figure = published.association(fabricated(tmp_path, seeds=4))
    points = sorted((row for row in rows_of(figure) if "own" in row), key=lambda row: row["layer"])
    # The loss was planted to show the wobble of layer 0.
    assert points[0]["own"] > 0.7 > 0.4 > points[0]["swapped"]
    assert points[0]["p"] == pytest.approx(1 / 24, rel=1e-6)
    assert all(point["own"] < 0.4 for point in points[1:])
    told = sum(point["p"] < 0.05 for point in points)
    assert f"{told} of 6 R² values exceed chance (uncorrected p below 0.05;" in figure.caption


def test_lines_are_means_over_seeds_within_their_bands(material: ReportData, plain: dict[str, Figure]) -> None:
    figure = plain["heads-query-cka"]
    found = [row for row in rows_of(figure) if row["what"] == "4 heads" and row["step"] == STEPS]
    assert [row["layer"] for row in found] == list(range(6))
    arm = next(arm for arm in material.arms if arm.label == "4 heads")
    at_end = np.mean([heads_of(run).mean["query_cka"][-1] for run in arm.runs], axis=0)
    np.testing.assert_allclose([row["value"] for row in found], at_end, rtol=1e-4)
    assert all(row["low"] <= row["value"] <= row["high"] for row in found)
    assert {row["null"] for row in found} == {0.03}
    assert "averaged over up to 3 seeds; bands span the seeds; dotted lines are null values." in figure.caption


def test_raw_metrics_are_on_a_log_axis(plain: dict[str, Figure]) -> None:
    figure = plain["heads-query-orthogonality-raw"]
    assert '"type": "log"' in json.dumps(figure.spec)
    assert '"type": "log"' not in json.dumps(plain["heads-query-cka"].spec)


@pytest.mark.slow
def test_a_layer_of_one_head_needs_two(tmp_path: Path) -> None:
    ragged = {"ragged": {"label": "ragged", "model": {"n_heads": "1-2-4-4-4-2"}}}
    one = fabricated(tmp_path, chosen=("ragged",), arms=ragged, baseline="ragged")
    found = drawn(one)
    assert {row["layer"] for row in rows_of(found["heads-query-cka"])} == {1, 2, 3, 4, 5}
    assert {row["layer"] for row in rows_of(found["heads-attention-diversity"])} == set(range(6))


@pytest.mark.slow
def test_regularised_arms_are_points_of_loss_and_diversity(tmp_path: Path) -> None:
    arms = {
        "none": {"label": "neither"},
        "apart": {"label": "kept apart", "training": {"regularizers": [{"metric": "disagreement_output"}]}},
        "dropped": {"label": "DropHead", "training": {"drophead": {"start": 0.2, "end": 0.2, "turn": 0.5}}},
    }
    one = fabricated(tmp_path, chosen=tuple(arms), seeds=3, arms=arms, baseline="none")
    figure = published.against_loss(one.under(None))
    points = [row for row in rows_of(figure) if row["metric"] == "query_cka"]
    assert [row["what"] for row in points] == ["neither", "kept apart", "DropHead"]
    assert "query CKA (high: similar queries)" in str(figure.spec)
    assert any(entry.name == "regularisers-hardly-help" for entry in one.results.claims)


def test_the_report_says_what_becomes_of_the_published_statements(material: ReportData) -> None:
    said = [statement.sentence for statement in text.statements(material)]
    assert any(
        s.startswith("Published: Layer 0 is far less orthogonal than the others: holds in all 2 arms") for s in said
    )
    table = claims.table(material)
    assert table is not None
    assert table.columns == ("", "no control", "norms after the sums")
    first = table.rows[0].cells
    assert first[0] == "Layer 0 is far less orthogonal than the\nothers\nby query CKA"
    assert first[1].startswith("holds\n3")
    assert first[1].endswith("\n2/0/0")
    # Each metric stands below the statement that it is of, one measured under a control alone too.
    metrics = [row.cells[0].splitlines()[-1] for row in table.rows]
    assert metrics[1] == "by query orthogonality, raw"
    assert [row.quiet for row in table.rows][:2] == [False, True]


def test_an_experiment_on_published_statements_answers_with_their_number(material: ReportData) -> None:
    said = [statement.sentence for statement in text.statements(material)]
    counts = re.match(r"(\d+) published statements: (\d+) confirmed, (\d+) contradicted, (\d+) undecided", said[0])
    assert counts
    n, *verdicts = map(int, counts.groups())
    assert n == sum(verdicts) == len(said) - 1
    assert first_screen(material, "", said).answer == f"{said[0]}."
    claim = Published(claim="layer 0 differs", compares="layer-0-less-orthogonal")
    assert _found(claim, material.results).startswith("holds in all 2 arms")


@pytest.mark.slow
def test_courses_that_speak_against_them_are_told_too(tmp_path: Path) -> None:
    one = fabricated(tmp_path, plant=otherwise, chosen=("heads-4", "heads-8"), seeds=3)
    verdicts = {entry.name: entry.verdict for entry in one.results.claims if not entry.as_published}
    against = ["layer-0-less-orthogonal", "orthogonality-falls", "disagreement-rises", "early-layers-differ"]
    assert {verdicts[name] for name in against} == {"does not hold"}


def test_the_page_folds_what_is_further_and_draws_it_when_opened(
    material: ReportData, plain: dict[str, Figure]
) -> None:
    html = page(material, tuple(plain.values()))
    folded = sum(figure.folded for figure in plain.values() if figure.part == heads.PART)
    assert f"<summary>{folded} further figures: " in html
    assert 'folded.querySelectorAll("[data-chart]").forEach(draw)' in html
    assert "Published claims" in html


@pytest.mark.slow
def test_arms_without_probes_stand_beside_those_that_have_some(tmp_path: Path) -> None:
    chosen = xray().select(arms=["heads-2", "heads-4"], seeds=1)
    path = fabricate_heads(tmp_path / "results", chosen, steps=PROBED)
    shutil.rmtree(path / "runs" / "heads-2" / "seed-0" / "heads")
    found = drawn(material_of(Store.open(path)))
    assert {row["what"] for row in rows_of(found["heads-query-cka"])} == {"4 heads"}

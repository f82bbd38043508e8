"""The first screen: one sentence that names its quantity, and rows that hold what was chosen and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.fabricate import compared, fabricate, small
from support.fabricate_text import fabricate_text, head_progression

from headway.base.words import say, warning
from headway.report.experiment.data import ReportData
from headway.report.experiment.first_screen import MOST_ROWS, first_screen
from headway.report.experiment.page import page, progress, sureness
from headway.stats.warnings import warnings_in_words


def screen(material: ReportData):
    return first_screen(material, progress(material))


@pytest.fixture(scope="module")
def icl(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return compared(fabricate(tmp_path_factory.mktemp("f") / "icl", small("icl-heads").select(seeds=3)))


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    """Ten arms and the three contrasts of their orders, of which every arm was run with five seeds."""
    return compared(fabricate_text(tmp_path_factory.mktemp("f") / "hp", head_progression().select(seeds=5)))


def test_the_answer_names_its_quantity_and_its_interval_and_counts_the_rest(icl: ReportData) -> None:
    found = screen(icl)
    assert found.answer.startswith("1 head vs 2 heads: worse, evaluation MSE +112.9 % (simultaneous 95 % CI 107.5 ")
    assert found.answer.endswith("; 3 seeds). The other 2 comparisons show no clear difference.")
    assert (
        found.setting
        == "Evaluation MSE (unit: y squared): 4 arms with 216 parameters on regression, 3 seeds. Lower is better."
    )
    assert found.facts[0] == "12 runs, all finished"


def test_rows_hold_number_interval_band_and_verdict(icl: ReportData) -> None:
    found = screen(icl)
    shown = found.shown
    assert shown is not None
    assert shown.head == "difference, % (simultaneous 95 % CI for all 3)"
    assert [row.name for row in shown.rows] == ["1 head vs 2 heads", "4 heads vs 2 heads", "8 heads vs 2 heads"]
    assert [row.kind for row in shown.rows] == ["worse", "open", "open"]
    assert [row.beyond for row in shown.rows] == [1, 0, 0], "far larger than the others: an arrow at the end"
    assert shown.rows[0].number.startswith("+112.9 (107.5 to ")
    low, high = shown.band or (0, 0)
    assert low < 50 < high
    assert low + high == pytest.approx(100)
    for row, judged in zip(shown.rows[1:], icl.results.judged[1:], strict=True):
        assert row.ends is not None
        left, right = row.ends
        assert left < row.middle < right
        width = high - 50  # of one per cent
        assert (row.middle - 50) / width == pytest.approx(100 * judged.share, abs=0.01)
        assert (right - 50) / width == pytest.approx(100 * judged.share_interval[1], abs=0.01)


def test_all_the_same_and_all_open_are_one_sentence_with_the_widest_ends(icl: ReportData) -> None:
    few = tuple(one for one in icl.results.comparisons if one.arm != "h1" and one.metric == "eval_mse")
    low = min(one.share_interval[0] for one in few)
    said = screen(replace(icl, results=replace(icl.results, comparisons=few))).answer
    assert said.startswith("No comparison shows a clear difference in evaluation MSE yet: all 2 differences lie ")
    assert f"between −{-100 * low:.1f} and " in said
    assert said.endswith("% (simultaneous 95 % CIs; 3 seeds).")
    same = tuple(replace(one, outcome="same") for one in few)
    said = screen(replace(icl, results=replace(icl.results, comparisons=same))).answer
    assert said.startswith("In all 2 comparisons, the arms are equally good within 1 %: differences in evaluation MSE ")


def test_an_answer_in_doubt_says_so_and_the_reason_stands_once(orders: ReportData) -> None:
    doubted = tuple(replace(one, doubts=("falling",)) for one in orders.results.contrasts)
    numbers = {"n": 1, "all": 2, "least": 3.0, "apart": 1.0}
    why = warning("still_falling", quantity="loss", most="ascending", sides=("ascending", "constant"), **numbers)
    found = replace(orders, results=replace(orders.results, contrasts=doubted, **warnings_in_words([why])))
    html = page(found, ())
    assert html.count("Read with care: not trained enough (1 note)") == 1
    assert html.count("the loss still fell in 1 of 2 arms") == 1
    assert "worse, in doubt" in html
    said = screen(found).answer
    assert said.startswith("In doubt: ascending vs constant: worse, evaluation loss +")
    assert said.endswith("The other comparison shows a difference in doubt.")


def test_questions_on_arms_that_were_not_chosen_are_silent(tmp_path: Path) -> None:
    contrasts = {"one": {"h1": 1, "h2": -1}, "far": {"h8": 1, "h2": -1}, "wide": {"h1": 1, "h4": -0.5, "h8": -0.5}}
    asked = small("icl-heads", contrasts=contrasts)
    found = compared(fabricate(tmp_path / "part", asked.select(arms=["h1", "h2"], seeds=3)))
    html = page(found, ())
    shown = screen(found).shown
    assert shown is not None
    assert [row.name for row in shown.rows] == ["one", "1 head vs 2 heads"]
    box = html[html.index('<section class="answer"') : html.index('<div class="facts">')]
    for silent in ("4 heads", "8 heads", "seeds or more", "seeds that both", "no pairs", "no runs here"):
        assert silent not in box, silent
    assert (
        "Headway leaves out contrasts far and wide, because some of the arms are missing, and compares the other arms."
        in html
    )
    assert [contrast.name for contrast in found.results.contrasts] == ["one"]


def test_of_many_arms_the_strongest_stand_first(tmp_path: Path) -> None:
    arms = {f"a{n}": {"model": {"n_heads": 1 + n % 4}, "label": f"arm {n}"} for n in range(12)}
    found = compared(fabricate(tmp_path / "many", small("icl-heads", arms=arms, baseline="a1").select(seeds=3)))
    first = screen(found)
    assert first.shown is not None
    assert len(first.shown.rows) == MOST_ROWS
    assert {row.kind for row in first.shown.rows[:3]} == {"worse"}
    assert [(part.title, len(part.rows)) for part in first.folded] == [("Further comparisons", 15 - MOST_ROWS)]


def test_without_a_run_or_a_comparison_it_says_so(tmp_path: Path) -> None:
    one = small("icl-heads").select(arms=["h2"], seeds=1)
    assert screen(compared(fabricate(tmp_path / "one", one))).answer.startswith("Nothing was compared")
    none = compared(fabricate(tmp_path / "none", one, {("h2", 0): "failed"}))
    assert screen(none).answer == "There is no answer yet, since no run has finished."
    assert ": 1 arm on regression. Lower" in screen(none).setting


def test_one_seed_gives_no_verdict(tmp_path: Path) -> None:
    said = screen(compared(fabricate(tmp_path / "seed", small("icl-heads").select(arms=["h1", "h2"], seeds=1)))).answer
    assert said.startswith("1 head vs 2 heads: too few seeds, evaluation MSE +11")
    assert said.endswith(" % (1 seed).")


def test_a_quick_scale_is_called_a_first_look(tmp_path: Path) -> None:
    found = compared(fabricate(tmp_path / "few", small("icl-heads").select(arms=["h1", "h2"], seeds=3)))
    assert "first look" not in screen(found).setting
    document = found.experiment.document.model_copy(update={"scale": "quick"})
    quick = replace(found, experiment=replace(found.experiment, document=document))
    assert " The models are small and the training is short (scale quick)." in screen(quick).setting


def test_two_kinds_of_questions_that_stand_together_are_said_to_be_corrected_apart(
    icl: ReportData, orders: ReportData
) -> None:
    assert sureness(orders)[-1] == ("", [say("two_families")])
    assert all(say("two_families") not in said for _, said in sureness(icl))

"""The report: one file that fetches nothing, opens with the answer, and believes no name it prints."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import stored
from support.fabricate import compared, fabricate, material_of, small
from support.figures import Elements
from support.house import ROOT

from headway.base.words import warning
from headway.config.load import load, resolve
from headway.report.experiment import laboratory
from headway.report.experiment.data import ReportData
from headway.report.experiment.laboratory import spread
from headway.report.experiment.page import (
    command,
    figures,
    page,
    progress,
    sureness,
    without_folders,
    write_answer,
    write_report,
)
from headway.report.regression.report import LABORATORY as regression
from headway.stats import results
from headway.stats.results import read
from headway.stats.warnings import warnings_in_words
from headway.store.directory import Store

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def html(heads_store: Store) -> str:
    return write_report(heads_store, read(heads_store.path), files=False).read_text()


def test_the_page_refers_to_nothing_outside_itself(html: str) -> None:
    elements = Elements(html)
    for tag, attributes in elements.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "video", "audio"), tag
        assert not {"src", "srcset", "action", "background", "poster"} & attributes.keys(), (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
    for style in elements.texts["style"]:
        assert "url(" not in style
        assert "@import" not in style
    charts = elements.texts["script"][0]
    assert len(html) < 5e6
    assert "http" not in charts
    assert '"url"' not in charts


def test_the_policy_names_the_scripts_of_the_page_and_lets_nothing_else_in(heads: ReportData) -> None:
    html = page(heads, tuple(figures(heads))[:1])
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', html)
    directives = {words.split()[0]: words.split()[1:] for words in policy.split(";")}
    assert directives["default-src"] == ["'none'"]
    assert len(directives["script-src"]) == 2
    assert all(source.startswith("'sha256-") for source in directives["script-src"])
    assert html.index("Content-Security-Policy") < html.index("<style>") < html.index("<script")
    assert not re.search(r"unsafe-eval|https?:|connect-src|\*", policy)


def test_a_page_without_figures_runs_no_script(heads: ReportData) -> None:
    assert "script-src 'none'" in page(heads, ())


def test_the_answer_comes_before_the_numbers_and_they_before_the_figures(html: str) -> None:
    order = [
        '<div class="kicker">icl-heads',
        "<h1>How many attention heads",
        "There is no verdict on the evaluation MSE yet: the 3 comparisons have only 2 seeds.",
        "<td>1 head vs 2 heads</td>",
        "1 head and h2 cannot be told apart.",
        "debiased GD, best step",
        "<h3>Final error",
        '<h2 id="per-head">',
        '<h2 id="run">',
        "<pre>headway run",
    ]
    places = [html.index(text) for text in order]
    assert places == sorted(places)


@pytest.mark.slow
def test_what_makes_answers_worth_nothing_stands_above_them_and_not_again_below(heads: ReportData) -> None:
    told = warning("unfinished", n=1, runs=9), warning("no_better_than_bigram", arms=("a",))
    found = replace(heads.results, **warnings_in_words(told))
    written = page(replace(heads, results=found), tuple(figures(heads))[:1])
    box = written[written.index('<section class="answer"') :]
    care = "<summary>Read with care: not trained enough (2 notes)</summary>"
    assert box.index("<td>1 head vs 2 heads</td>") < box.index(care) < box.index("no better than a bigram model")
    assert box.index("no better than") < box.index("1 of 9 runs are not finished.") < box.index("How sure is this?")
    assert written.count("no better than a bigram model") == 1
    assert written.count("1 of 9 runs are not finished") == 1


def test_the_table_gives_means_over_seeds_beside_the_estimators(heads: ReportData, html: str) -> None:
    values = [run.metrics["eval_mse"] for run in heads.arms[1].runs]
    assert f"<td>{spread(values)}</td>" in html
    assert "<td>0.6522</td><td>0.9783</td>" in html


def test_the_page_says_what_its_intervals_leave_out(heads: ReportData, html: str, directory: Path) -> None:
    said = "Intervals are over seeds. All arms are evaluated on the same 100,000 prompts. The error from sampling "
    assert regression.luck(heads) == said + "these prompts (standard error 0.0040) mostly cancels in comparisons."
    assert html.count(regression.luck(heads)) == 1
    several = small("icl-anisotropic").select(arms=["h1", "h2"], controls=["stronger"], seeds=2)
    assert ". All arms of a task are evaluated" in regression.luck(
        material_of(Store.open(fabricate(directory, several)))
    )


def test_without_an_interval_there_is_nothing_to_say_of_it(heads: ReportData) -> None:
    none = tuple(replace(comparison, interval=None) for comparison in heads.results.comparisons)
    assert regression.luck(replace(heads, results=replace(heads.results, comparisons=none))) == ""


def test_several_outputs_stand_below_one_another(directory: Path) -> None:
    experiment = small("icl-two-tasks").select(arms=["h3"], seeds=2)
    material = material_of(Store.open(fabricate(directory, experiment)))
    final = regression.final(material)
    assert final.rows[0].cells[final.columns.index("μ·w")].count("\n") == 1
    _, head = next(regression.heads(material.arms[0]))
    assert head.rows[0].cells[head.columns.index("μ")].count("\n") == 1


def test_the_table_of_comparisons_of_before_says_what_the_file_holds(heads: ReportData) -> None:
    ((scope, table),) = laboratory.comparisons(heads)
    assert scope == ""
    assert table.columns[:4] == ("evaluation MSE", "seeds", "difference", "95 % interval")
    assert table.rows[0].cells[1:5] == ("2", "1.5 %", "−3.0 to 6.0 %", "0.600")


def test_every_family_has_a_table_below_what_holds_for_it(directory: Path) -> None:
    experiment = small("icl-heads", margin=0.5).select(arms=["h1", "h2", "h4"])
    material = compared(fabricate(directory, experiment))
    (scope, table), *others = laboratory.comparisons(material)
    assert scope.startswith("The 95 % intervals hold for all 2 comparisons at once. This experiment")
    assert "can detect differences of about" in scope
    rows = {row.cells[0]: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
    assert list(rows) == ["1 head − 2 heads", "4 heads − 2 heads"]
    assert rows["1 head − 2 heads"]["verdict"] == "worse"
    assert rows["4 heads − 2 heads"]["verdict"] in ("no clear difference", "as good within 0.5 %")
    assert others
    html = page(material, ())
    assert html.count("hold for all 2 comparisons at once") >= 2  # in the answer, and above the table


@pytest.mark.slow
def test_names_and_messages_are_printed_and_not_obeyed(directory: Path) -> None:
    experiment = small("icl-heads", question=EVIL, **{"arms.h1.label": EVIL}).select(arms=["h1", "h2"], seeds=1)
    fabricate(directory, experiment, {("h2", 0): "failed"})
    for run in directory.glob("runs/h2/*/run.json"):
        stored.rewrite(run.parent, message=EVIL)
    material = material_of(Store.open(directory))
    document = material.experiment.document.model_copy(update={"name": EVIL})
    material = replace(material, experiment=replace(material.experiment, document=document))
    elements = Elements(page(material, tuple(figures(material))))
    assert sum(tag == "script" for tag, _ in elements.tags) == 3
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in elements.tags)
    assert EVIL in json.dumps(json.loads(elements.texts["script"][0]))
    assert sum(EVIL in text for tag, texts in elements.texts.items() if tag != "script" for text in texts) >= 3


def test_failed_and_unfinished_runs_are_told(directory: Path) -> None:
    statuses = {("h2", 1): "failed", ("h4", 0): "waiting"}
    material = material_of(Store.open(fabricate(directory, small("icl-heads").select(seeds=2), statuses)))
    assert progress(material).startswith("8 runs: 6 done, 1 failed, 1 not finished")
    text = page(material, ())
    assert "the loss is not finite at step 40" in text
    assert [[run.seed for run in arm.runs] for arm in material.arms] == [[0, 1], [0], [1], [0, 1]]


def test_one_arm_alone_has_nothing_to_be_compared_with(directory: Path) -> None:
    material = material_of(Store.open(fabricate(directory, small("icl-heads").select(arms=["h2"], seeds=1))))
    assert sureness(material) == []
    assert "Nothing was compared" in page(material, ())


def test_the_command_repeats_what_was_run(directory: Path, heads: ReportData) -> None:
    assert command(heads).startswith("headway run icl-heads --seeds 2 --set ")
    settings = [word for word in shlex.split(command(heads)) if "=" in word]
    assert not load("icl-heads", settings=settings).differences(heads.experiment)
    whole = replace(heads.experiment, document=load("icl-heads").document)
    assert command(replace(heads, experiment=whole)) == "headway run icl-heads --seeds 2"
    part = small("icl-anisotropic").select(arms=["h1", "h2"], controls=["isotropic"], seeds=[3])
    material = material_of(Store.open(fabricate(directory, part)))
    assert command(material).startswith(
        "headway run icl-anisotropic --seeds 3, --arms h1,h2 --control isotropic --set "
    )


@pytest.mark.parametrize("scale", ["laptop", "quick"])
@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ([], ""),
        (["training.learning_rate=0.5"], " --set training.learning_rate=0.5"),
        (["margin=2.5"], " --set margin=2.5"),
        (["arms.constant-low.model.n_heads=1-2-4-1"], " --set arms.constant-low.model.n_heads=1-2-4-1"),
        (["task.corpus=/home/ada/my texts/train.txt"], " --set task.corpus=train.txt"),
    ],
)
def test_a_shipped_experiment_is_repeated_by_its_settings(scale, settings, shown):
    """Neither a file that the reader lacks nor a folder of the sender stands there."""
    of = load("head-progression", scale=scale, settings=settings).select(arms=["constant-low"], seeds=1)
    assert command(SimpleNamespace(experiment=of, runs=())) == f"headway run head-progression --scale {scale}{shown}"
    assert "/home" not in without_folders(of.dump(), of)


def test_an_experiment_of_ones_own_is_repeated_by_its_file():
    own = resolve({**small("icl-heads").plain(), "name": "mine"})
    assert command(SimpleNamespace(experiment=own, runs=())) == "headway run mine.yaml"


@pytest.mark.slow
def test_the_answer_is_markdown_with_a_picture_beside_it(directory: Path) -> None:
    said = [
        {"claim": "one head <b>loses</b>", "source": "a paper", "seeds": 1, "compares": "h1 - h2", "says": "worse"},
        {"claim": "four heads lose", "compares": "h4 - h2", "says": "worse"},
        {"claim": "heads are many"},
    ]
    experiment = small("icl-heads", published=said).select(arms=["h1", "h2", "h4"], seeds=3)
    store = Store.open(fabricate(directory, experiment))
    written = write_answer(store, results.write(store))
    assert written == directory / "answer" / "icl-heads.md"
    text = written.read_text()
    assert text.startswith(
        "# How many attention heads does one layer need to learn linear regression in context?\n\n**1 "
    )
    assert "**1 head vs 2 heads: worse, evaluation MSE +112.9\xa0% (simultaneous 95\xa0% CI " in text
    assert "(icl-heads.png)" in text
    assert (directory / "answer" / "icl-heads.png").read_bytes().startswith(b"\x89PNG")
    assert "| one head &lt;b&gt;loses&lt;/b&gt; | a paper; seeds: 1 | agrees: 1 head vs 2 heads: worse, " in text
    assert "| four heads lose |  | inconclusive: 4 heads vs 2 heads: no clear difference, " in text
    assert "| heads are many |  | not compared |" in text
    assert re.search(r"\n- More seeds: no clear answer yet in 1 of 2 comparisons; about \d+ more", text)
    assert "\n| 1 head vs 2 heads | +112.9 (" in text
    assert re.search(r"9 runs, all finished; .* of processor time; .*finished on 20\d\d-\d\d-\d\d with Headway", text)
    assert "- To repeat it: `headway run icl-heads --seeds 3 --arms h1,h2,h4 --set " in text


def test_answers_that_are_shipped_are_those_of_shipped_experiments() -> None:
    folder = ROOT / "docs" / "answers"
    pages = [path for path in folder.glob("*.md") if path.stem not in ("README", "sources")]
    answers = {path.stem: path.read_text().replace("\xa0%", " %") for path in pages}
    assert answers
    for name, text in answers.items():
        assert f"headway run {name}" in text
        assert load(name).document.question in text
        assert all(published.claim in text for published in load(name).document.published)
        assert (folder / f"{name}.png").is_file() == ("![" in text)
        assert f"({name}.md)" in (folder / "README.md").read_text()

"""The verdicts as a table: one content in several forms, in which no label can be markup."""

import csv
import html
import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.stats.evidence import Comparison, Difference, Family
from headway.stats.sequential import LookPlan
from headway.stats.verdict_table import html_text, latex_text, markdown_text, short_verdict, verdict_table

SPECIAL = "\\#$%&_{}^~<>|\"[]*-–—−±×·≤≥≈→²³…⟨⟩µαΩ é`' "
TEXTS = st.text(st.sampled_from(SPECIAL + "ab1")) | st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")))

PLAN = LookPlan(looks=(3,), margin=1.0)


def family(**changes):
    shared = {"of": "comparisons", "metric": "eval_mse", "control": None, "rule": "blocks", "size": 2, "plan": PLAN}
    return Family(**{**shared, "look": 1, "level": 0.05, **changes})


def comparison(arm="a", baseline="b", **known):
    first = {"metric": "eval_mse", "control": None, "n_pairs": 3, "estimate": -1.5, "interval": (-2.0, -1.0)}
    difference = Difference.partly_known(**{**first, "means": (0.66, 0.67), "outcome": "apart", **known})
    more = {"arm": arm, "baseline": baseline, "group": None, "verdict": "in words"}
    return Comparison(**vars(difference), **more)


def table(*differences, labels=None, families=None, primary="eval_mse"):
    return verdict_table(differences, (family(),) if families is None else families, labels or {}, primary)


def test_every_form_has_the_same_rows():
    rows = [comparison(), comparison("c", estimate=0.1, interval=(-0.5, 0.7), outcome="same")]
    found = table(*rows, labels={"a": "1 head", "b": "2 heads", "c": "4 heads"})
    assert found.columns == (
        "comparison",
        "difference in evaluation MSE, %",
        "simultaneous 95 % CI",
        "seeds",
        "verdict",
    )
    expected = [
        ("1 head vs 2 heads", "−1.5", "−2.0 to −1.0", "3", "better"),
        ("4 heads vs 2 heads", "+0.1", "−0.5 to 0.7", "3", "as good within 1 %"),
    ]
    assert found.cells() == expected
    for cells in expected:
        assert "| " + " | ".join(cells) + " |" in found.to_markdown()
        assert " & ".join(map(latex_text, cells)) + r" \\" in found.to_latex().splitlines()
        assert "".join(f"<td>{cell}</td>" for cell in cells) in found.to_html()
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [line["verdict"] for line in lines] == ["better", "as good within 1 %"]
    first = rows[0]
    numbers = [float(lines[0][name]) for name in ("difference", "low", "high")]
    assert numbers == [100 * share for share in (first.share, *first.share_interval)]
    assert {line["unit"] for line in lines} == {"%"}


def test_a_note_of_each_family_stands_in_the_forms_that_are_read():
    found = table(comparison(), comparison("c"))
    (note,) = found.notes
    assert "intervals hold for all 2 comparisons at once" in note
    assert found.to_latex().startswith("% The 95 % intervals hold")
    assert found.to_markdown().endswith(f"\n\n{note}\n")
    assert note in found.to_html()


def test_values_without_a_ratio_stand_in_the_unit_of_the_metric():
    shares = [comparison(metric="solved", rule="shares", estimate=0.64, interval=(0.5, 0.7), unit="fraction")]
    found = table(*shares, families=(family(metric="solved", rule="shares"),), primary="solved")
    assert found.unit == "percentage points"
    assert found.cells()[0][1:3] == ("+64.0", "50.0 to 70.0")
    assert found.columns[2] == "95 % CI"
    raw = comparison(metric="eval_mse", rule="paired", estimate=-0.5, interval=(-0.7, -0.3), relative=None)
    found = table(raw, families=(family(rule="paired"),))
    assert (found.unit, found.cells()[0][1:3]) == ("y squared", ("−0.5", "−0.7 to −0.3"))


def test_a_difference_without_an_interval_is_a_number_alone():
    found = table(comparison(interval=None, outcome="few", n_pairs=2))
    assert found.cells()[0][2:] == ("–", "2", "too few seeds")
    (line,) = csv.DictReader(io.StringIO(found.to_csv()))
    assert (line["low"], line["high"]) == ("", "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "better"),
        ({"estimate": 1.5}, "worse"),
        ({"outcome": "small"}, "better, by less than 1 %"),
        ({"doubts": ("falling",)}, "better, in doubt"),
        ({"outcome": "same"}, "as good within 1 %"),
        ({"outcome": "same", "doubts": ("rates",)}, "as good within 1 %, in doubt"),
        ({"outcome": "open"}, "no clear difference"),
        ({"outcome": "few"}, "too few seeds"),
        ({"outcome": "none"}, "no spread over seeds"),
        ({"metric": "accuracy"}, "worse"),
        ({"metric": "accuracy", "of_errors": True}, "better"),
        ({"metric": "n_parameters"}, "lower"),
    ],
)
def test_a_verdict_in_a_few_words(changes, said):
    assert short_verdict(replace(comparison(), **changes), family()) == said


def test_nothing_is_said_before_the_first_interim_analysis():
    assert short_verdict(comparison(), family(look=None)) == "no verdict yet"


COMMANDS = re.compile(r"\\text[a-z]+\{\}|\\ldots\{\}|\\[#$%&_{}]|\$[^$]+\$|\{[\[*-]\}|''|[^\\#$%&_{}^~<>|\"\[*-]")


@given(TEXTS)
def test_no_label_is_latex(text):
    written = latex_text(text)
    assert "".join(COMMANDS.findall(written)) == written
    assert "\n" not in written


@given(TEXTS)
def test_no_label_is_markdown(text):
    written = markdown_text(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]<>]", written.replace("\\\\", ""))
    assert re.sub(r"\\(.)", r"\1", written) == " ".join(written_plainly(text).split())


@given(TEXTS)
def test_no_label_is_html(text):
    written = html_text(text)
    assert not set("<>\"'") & set(written)
    assert html.unescape(written) == written_plainly(text)


def written_plainly(text):
    from headway.base.text import escape_controls

    return escape_controls(text)

"""The verdicts of a results directory as one table, written as CSV, LaTeX, Markdown or HTML.

A row is a comparison of the primary metric: its difference, interval, seeds and verdict. CSV holds plain numbers. The
other forms hold rounded text.
"""

import csv
import html
import io
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headway.base.text import escape_controls, number
from headway.base.words import phrase, without_unit
from headway.config.metrics import METRICS, metric_name
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Difference, Family, family_of
from headway.stats.verdicts import of_errors, scope, unit_of, verdict_of

TableFormat = Literal["latex", "csv", "markdown"]
"""The forms in which a command prints the table."""


def short_verdict(difference: Difference, family: Family | None) -> str:
    """Return the meaning of an interval in a few words."""
    metric = METRICS[difference.metric]
    sides = ("",) if isinstance(difference, JudgedContrast) and not difference.has_sides else ("", "")
    told = verdict_of(difference, family, metric=metric, sides=sides, in_per_cent=difference.is_logarithmic)
    return f"{phrase(replace(told, is_small=False))}, in doubt" if difference.doubts else phrase(told)


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    """A comparison with its verdict.

    Attributes:
        comparison: the two sides by their labels, or the label of a contrast.
        control: the name of the control; empty without one.
        group: the group in which an arm is compared with its baseline; empty outside of groups.
        difference: the difference in the table's unit; None before there is one.
        interval: the ends of its interval in that unit; None before there is an interval.
        interval_name: the kind of interval, such as `simultaneous 95 % CI`.
        shown_difference: the difference rounded to what the interval leaves certain.
        shown_interval: the interval to the same digits.
        seeds: the number of seeds that both sides have.
        verdict: the meaning in a few words.
    """

    comparison: str
    control: str
    group: str
    difference: float | None
    interval: tuple[float, float] | None
    interval_name: str
    shown_difference: str
    shown_interval: str
    seeds: int
    verdict: str


@dataclass(frozen=True, kw_only=True)
class VerdictTable:
    """The verdicts on one metric.

    Attributes:
        metric: the name of the metric in words.
        unit: the unit of all differences: `%` of the baseline, `percentage points`, or the metric's unit.
        rows: the comparisons; contrasts of the document come first.
        notes: sentences that hold for all rows of a family.
    """

    metric: str
    unit: str
    rows: tuple[VerdictRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of the forms that are read: comparison, difference, interval, seeds and verdict."""
        names = {row.interval_name for row in self.rows}
        interval = next(iter(names)) if len(names) == 1 else "95 % CI"
        unit = f", {self.unit}" if self.unit else ""
        return "comparison", f"difference in {self.metric}{unit}", interval, "seeds", "verdict"

    def cells(self) -> list[tuple[str, ...]]:
        """The rows of the forms that are read."""
        return [
            (row.comparison, row.shown_difference, row.shown_interval, str(row.seeds), row.verdict) for row in self.rows
        ]

    def written(self, form: TableFormat) -> str:
        """Return the table in one of the forms of `TableFormat`, with a line's end."""
        return {"csv": self.to_csv, "latex": self.to_latex, "markdown": self.to_markdown}[form]()

    def to_csv(self) -> str:
        """Return a header and a line for each row; numbers are not rounded, and an unknown number is empty."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        heads = ("comparison", "control", "group", "metric", "unit", "difference", "low", "high", "interval")
        writer.writerow((*heads, "seeds", "verdict"))
        for row in self.rows:
            low, high = row.interval or (None, None)
            numbers = ("" if value is None else repr(value) for value in (row.difference, low, high))
            where = (row.comparison, row.control, row.group, self.metric, self.unit)
            writer.writerow((*where, *numbers, row.interval_name, row.seeds, row.verdict))
        return lines.getvalue()

    def to_latex(self) -> str:
        """Return a `tabular` that needs no package; the notes are comments above it."""
        texts = [self.columns, *self.cells()]
        notes = [f"% {' '.join(escape_controls(note).split())}" for note in self.notes]
        columns, *rows = [" & ".join(map(latex_text, cells)) + r" \\" for cells in texts]
        body = [r"\hline", columns, r"\hline", *rows, r"\hline"]
        return "\n".join([*notes, r"\begin{tabular}{lrrrl}", *body, r"\end{tabular}", ""])

    def to_markdown(self) -> str:
        """Return a table of GitHub's Markdown; the notes stand below it."""
        head, *rows = ["| " + " | ".join(map(markdown_text, cells)) + " |" for cells in (self.columns, *self.cells())]
        notes = [line for note in self.notes for line in ("", markdown_text(note))]
        return "\n".join([head, "|---|---:|---:|---:|---|", *rows, *notes, ""])

    def to_html(self) -> str:
        """Return a table for a notebook; the notes stand below it."""
        head = "".join(f"<th>{html_text(name)}</th>" for name in self.columns)
        rows = ["".join(f"<td>{html_text(cell)}</td>" for cell in cells) for cells in self.cells()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        notes = "".join(f"<p><small>{html_text(note)}</small></p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def verdict_table(
    differences: Sequence[Difference], families: Sequence[Family], labels: Mapping[str, str], primary: str
) -> VerdictTable:
    """Return the table of judged differences.

    Args:
        differences: the comparisons and contrasts, all of them in the primary metric.
        families: the families in which they were judged.
        labels: the labels of arms by full name.
        primary: the primary metric.
    """
    own = [family_of(each, families) for each in differences]
    in_per_cent = all(each.is_logarithmic for each in differences)
    metric = METRICS[primary]
    if any(each.of_errors for each in differences):
        metric = of_errors(metric)
    unit = "%" if in_per_cent else unit_of(metric)[1]
    rows = [_row(each, family, labels, in_per_cent=in_per_cent) for each, family in zip(differences, own, strict=True)]
    notes = []
    for family in dict.fromkeys(filter(None, own)):
        members = [each for each, of in zip(differences, own, strict=True) if of is family]
        notes.append(scope(family, members))
    return VerdictTable(metric=metric_name(metric.name), unit=unit, rows=tuple(rows), notes=tuple(notes))


def _row(one: Difference, family: Family | None, labels: Mapping[str, str], *, in_per_cent: bool) -> VerdictRow:
    told = verdict_of(one, family, metric=METRICS[one.metric], sides=("", ""), in_per_cent=in_per_cent)
    factor = 100.0 if in_per_cent else 1.0
    if isinstance(one, JudgedContrast):
        comparison, group = one.label, None
    else:
        assert isinstance(one, Comparison)
        comparison = " vs ".join(labels.get(arm, arm) for arm in (one.arm, one.baseline))
        group = one.group
    shown_difference, shown_interval = without_unit(told)
    return VerdictRow(
        comparison=comparison,
        control=one.control or "",
        group=group or "",
        difference=None if told.change is None else factor * told.change,
        interval=None if told.interval is None else (factor * told.interval[0], factor * told.interval[1]),
        interval_name=told.interval_name,
        shown_difference=shown_difference or number(None),
        shown_interval=shown_interval or number(None),
        seeds=one.n_pairs,
        verdict=short_verdict(one, family),
    )


_LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: f"\\{mark}" for mark in "#$%&_{}"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",  # after the end of a row, LaTeX would read a bracket or a star as an argument
    "*": "{*}",
    "-": "{-}",  # two hyphens would become a dash
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "²": "$^2$",
    "³": "$^3$",
    "µ": r"$\mu$",
    "…": r"\ldots{}",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
}
for _letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ":
    _name = unicodedata.name(_letter).split()[-1].replace("LAMDA", "LAMBDA")
    _LATEX[_letter] = rf"$\{_name.lower()}$" if _letter.islower() else rf"$\{_name.capitalize()}$"


def latex_text(text: str) -> str:
    r"""Return a text for LaTeX's text mode, in one line, with every special character escaped.

    Examples:
        >>> latex_text("a_b: 5 % – [x]"), latex_text("−0.4 to 0.6")
        ('a\\_b: 5 \\% \\textendash{} {[}x]', '$-$0.4 to 0.6')
    """
    return "".join(_LATEX.get(character, character) for character in " ".join(escape_controls(text).split()))


def markdown_text(text: str) -> str:
    r"""Return a text for a cell of Markdown, in one line, in which no character is markup.

    Examples:
        >>> markdown_text("a_b | *c*")
        'a\\_b \\| \\*c\\*'
    """
    return _MARKUP.sub(r"\\\g<0>", " ".join(escape_controls(text).split()))


_MARKUP = re.compile(r"[\\`*_\[\]<>|#&~]")


def html_text(text: str) -> str:
    """Return a text for HTML, in which every character is visible and none is markup."""
    return html.escape(escape_controls(text))

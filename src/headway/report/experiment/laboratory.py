"""A laboratory's part of a report, and the tables that all laboratories share.

A cell of a table is ready to be read: means with their spread over seeds, and fractions as percentages. A missing value
is an empty cell, and several outputs are a line each.

`ReportPart` is what a laboratory supplies, and `report_part_of` finds it. `by_task` gives arms of different tasks
panels of their own, since errors on different tasks share no axis.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from headway.base.identity import grouped
from headway.base.text import Amount, brief, number
from headway.base.words import say
from headway.config.kinds import part_of
from headway.config.metrics import metric_name
from headway.config.run import RunSpec
from headway.report.charts.figure import Figure, alt
from headway.report.charts.page import Row, Table
from headway.report.experiment.data import ArmResults, ReportData, arm_styles
from headway.stats.cells import run_seconds
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Difference, Family
from headway.stats.verdict_table import short_verdict
from headway.stats.verdicts import scope
from headway.store.run import Run

COMPARED = {
    "n_pairs": "seeds",
    "estimate": "difference",
    "interval": "95 % interval",
    "p": "p",
    "p_family": "corrected p",
    "outcome": "verdict",
    "detectable": "detectable",
}
"""Columns of a table of comparisons: what they hold, and their headings."""


def over_seeds(arm: ArmResults, name: str) -> str:
    """A final metric of an arm, mean and spread over seeds; a line each where it is several numbers."""
    values = [run.metrics.get(name) for run in arm.runs]
    found = np.array([value for value in values if value is not None], dtype=float)
    if len(found) == 0:
        return "–"
    return "\n".join(spread(column) for column in found.reshape(len(found), -1).T)


def arm_rows(material: ReportData, names: Sequence[str]) -> list[Row]:
    """A row per arm: final metrics, mean and spread over seeds."""
    return [
        Row(cells=(arm.label, *(over_seeds(arm, name) for name in names)), colour=arm.colour) for arm in material.arms
    ]


def seeds_said(material: ReportData) -> str:
    """Return what a number in a row of an arm is."""
    return "mean ± standard deviation over seeds" if material.n_seeds > 1 else "one seed"


def comparisons(material: ReportData) -> list[tuple[str, Table]]:
    """A table of each family in full, of all metrics, and above it what holds for all of it."""
    results = material.results
    every: list[Comparison | JudgedContrast] = [*results.contrasts, *results.comparisons]
    members = grouped(every, lambda one: id(results.family(one)))
    return [_family_table(material, some) for some in members.values()]


def _family_table(material: ReportData, members: Sequence[Comparison | JudgedContrast]) -> tuple[str, Table]:
    family, control = material.results.family(members[0]), members[0].control
    under = "" if control is None else f", {material.experiment.control_label(control)}"
    labels = {name: style.label for name, style in arm_styles(material.experiment).items()}
    rows = []
    for one in members:
        if isinstance(one, JudgedContrast):
            name = one.label
        else:
            name = " − ".join(labels.get(arm, arm) for arm in (one.arm, one.baseline))
        rows.append(Row(cells=(name, *(_compared(one, family, key) for key in COMPARED))))
    hints = {
        "corrected p": "the p-value, corrected for the number of comparisons in this table",
        "detectable": "the smallest true difference that this comparison detects with 80 % power",
    }
    title = f"{metric_name(members[0].metric)}{under}"
    table = Table(columns=(title, *COMPARED.values()), rows=rows, hints=hints)
    return "" if family is None else scope(family, members), table


def _compared(one: Difference, family: Family | None, key: str) -> str:
    value = getattr(one, key)
    if value is None:
        return "–"
    if key == "outcome":
        return short_verdict(one, family)
    if key in ("estimate", "interval", "detectable"):
        return _in_per_cent(one, value)
    return number(value, 3)


def _in_per_cent(one: Difference, value: Any) -> str:
    """Return a difference or the ends of its interval in per cent, or in the metric's unit if it has no share."""
    ends = value if isinstance(value, tuple) else (value,)
    shares = [share for end in ends if (share := one.as_share(end)) is not None]
    if len(shares) < len(ends):
        return " to ".join(number(end, 3) for end in ends)
    interval = one.share_interval
    return Amount.of_share(shares[0], interval)(*sorted(shares))


def runs(material: ReportData) -> Table:
    """Return the table of how every run ended."""
    rows = [
        Row(cells=(run.name, str(run.seed), run.status, time_taken([run]) or "–", run.message or ""))
        for run in material.runs
    ]
    return Table(columns=("arm", "seed", "status", "time", "message"), rows=rows)


def time_taken(runs: Sequence[Run]) -> str:
    """Return the time that finished runs took, such as `4 min 40 s of processor time`; empty where it is not known."""
    seconds = {"GPU": 0.0, "processor": 0.0}
    for run in runs:
        seconds["GPU" if "device_s" in run.metrics else "processor"] += run_seconds(run) or 0.0
    return " and ".join(f"{brief(taken)} of {what} time" for what, taken in seconds.items() if taken)


def execution(material: ReportData) -> Table:
    """Return the table of where and how the runs were executed: a row per fact, its values joined where runs differ."""
    facts: dict[str, dict[str, None]] = {}
    for run in material.runs:
        for key, value in _flat(run.execution or {}):
            facts.setdefault(key, {})[value] = None
    rows = [Row(cells=(key.replace("_", " "), ", ".join(values))) for key, values in facts.items()]
    return Table(columns=("", ""), rows=rows)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}: ")
        elif inner is not None:
            yield f"{prefix}{key}", str(inner)


def spread(values: Sequence[float] | np.ndarray) -> str:
    """Mean ± standard deviation, to the digits that the spread leaves certain; the number alone if there is one.

    Examples:
        >>> spread([0.66, 0.68]), spread([0.5]), spread([4, 4])
        ('0.670 ± 0.014', '0.5000', '4')
    """
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    if deviation == 0 or not np.isfinite(deviation) or not np.isfinite(mean):
        return f"{mean:,.0f}" if mean.is_integer() else number(mean)
    if max(abs(mean), deviation) < 1e-3:
        return f"{number(mean, 2)} ± {number(deviation, 2)}"
    leading = int(np.floor(np.log10(deviation)))
    # One digit of the deviation, or two where the first is 1: a few seeds know it no better.
    decimals = max(0, -leading + (deviation < 2 * 10.0**leading))
    return f"{mean:,.{decimals}f} ± {deviation:,.{decimals}f}".replace("-", "−") if decimals <= 6 else number(mean)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A sentence of the answer beside the verdicts, and the colour of what it is about."""

    sentence: str
    colour: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A text that a model wrote; `prompt` is how it was made to begin."""

    title: str
    prompt: str
    text: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Writing:
    """The texts that an arm generated before and after training."""

    label: str
    samples: tuple[Sample, ...]


class ReportPart(ABC):
    """A laboratory's part of the report."""

    controls_apart: ClassVar[bool] = False
    """Whether figures are drawn once for each control, so that an arm keeps its colour under it."""

    @abstractmethod
    def figures(self, material: ReportData) -> Iterator[Figure | None]:
        """Its figures in their order, None for those that the results have no numbers for."""

    def answers(self, material: ReportData) -> Iterator[Figure | None]:  # noqa: ARG002
        """Figures that answer the question better than differences between arms do, and so come before them."""
        yield from ()

    @abstractmethod
    def final(self, material: ReportData) -> Table:
        """The opening table."""

    @abstractmethod
    def luck(self, material: ReportData) -> str:
        """Return a sentence on the variance that the intervals leave out; empty if there is no interval."""

    @staticmethod
    def same_examples(material: ReportData, examples: str, of: str, error: str = "") -> str:
        """Return a sentence on the sampling of examples that arms share; empty without intervals.

        Args:
            material: the results.
            examples: the name of the examples, with their number if it is known.
            of: the name of the examples alone.
            error: the error from sampling them, in parentheses; empty if it is unknown.
        """
        if not any(comparison.interval for comparison in material.results.comparisons):
            return ""
        arms = "All arms" if material.one_task else "All arms of a task"
        return say("same_examples", arms=arms, examples=examples, of=of, error=error)

    def heads(self, arm: ArmResults) -> Iterable[tuple[int, Table]]:  # noqa: ARG002
        """The table per head of each seed of an arm."""
        return ()

    def statements(self, material: ReportData) -> Sequence[Statement]:  # noqa: ARG002
        """Return the statements below the verdicts."""
        return ()

    def tables(self, material: ReportData) -> Sequence[tuple[str, Table]]:  # noqa: ARG002
        """Further tables, by title."""
        return ()

    def writings(self, material: ReportData) -> Sequence[Writing]:  # noqa: ARG002
        """Texts before and after training."""
        return ()


def report_part_of(run: RunSpec) -> ReportPart:
    """Return the report part of the laboratory of a run."""
    found: ReportPart = part_of(run, "report")
    return found


def by_task(draw: Callable[[ReportData], Figure | None], material: ReportData) -> Figure | None:
    """A figure of all arms, a panel below the other for each task, with the longest caption; None for no panel."""
    if len(material.tasks) < 2:
        return draw(material)
    drawn = [(name, figure) for name, part in material.tasks if (figure := draw(part)) is not None]
    if not drawn:
        return None
    charts: list[Any] = [figure.chart.properties(title=name) for name, figure in drawn]
    together = alt.vconcat(*charts, spacing=30)
    return replace(
        max((figure for _, figure in drawn), key=lambda figure: len(figure.caption)),
        chart=together.resolve_scale(color="independent", strokeDash="independent", strokeWidth="independent"),
    )

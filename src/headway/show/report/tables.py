"""Show: the tables of a report, as text in rows.

A cell is ready to be read: means with their spread over seeds, fractions as percentages, nothing where there is
nothing, and a line per output where there are several.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.compare.statistics import Comparison
from headway.declare.metrics import metric_name
from headway.show.report.arm_styles import looks
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.table import Row, Table
from headway.words import number

COMPARED = {
    "arm": "arm",
    "baseline": "against",
    "n_pairs": "seed pairs",
    "difference": "difference",
    "relative": "relative",
    "interval": "95 % interval",
    "p": "p",
    "p_holm": "p, Holm",
    "detectable": "detectable",
    "seeds_for_1pct": "seeds for 1 %",
}


def over_seeds(arm: ArmResults, name: str) -> str:
    """A final metric of an arm, mean and spread over seeds; a line each where it is several numbers."""
    values = [run.metrics.get(name) for run in arm.runs]
    found = np.array([value for value in values if value is not None], dtype=float)
    if len(found) == 0:
        return "–"
    return "\n".join(spread(column) for column in found.reshape(len(found), -1).T)


def comparisons(material: ReportData) -> Table | None:
    """Every comparison in full, of all metrics; None when there is none."""
    found = material.results.comparisons
    labels = {name: look.label for name, look in looks(material.experiment).items()}
    rows = [Row(cells=(metric_name(c.metric), *(_compared(c, key, labels) for key in COMPARED))) for c in found]
    hints = {
        "p, Holm": "corrected for the number of comparisons",
        "detectable": "the smallest difference that this many seed pairs would detect four times in five",
        "seeds for 1 %": "about how many seeds would detect a difference of 1 %",
    }
    return Table(columns=("metric", *COMPARED.values()), rows=tuple(rows), hints=hints) if rows else None


def _compared(comparison: Comparison, key: str, labels: Mapping[str, str]) -> str:
    value = getattr(comparison, key)
    if value is None:
        return "–"
    if key in ("arm", "baseline"):
        return labels.get(value, value)
    if key == "interval":
        return " to ".join(number(end, 3) for end in value)
    if key == "relative":
        return f"{100 * value:+.2f} %"
    return number(value, 3)


def runs(material: ReportData) -> Table:
    """How every run ended."""
    rows = [
        Row(
            cells=(
                run.name,
                str(run.seed),
                run.status,
                number(run.metrics.get("wall_s"), 3),
                number(run.metrics.get("steps_per_s"), 3),
                run.message or "",
            )
        )
        for run in material.runs
    ]
    return Table(columns=("arm", "seed", "status", "seconds", "steps/s", "message"), rows=tuple(rows))


def execution(material: ReportData) -> Table:
    """Where and how the runs were executed: a row per fact, its values joined where runs differ."""
    facts: dict[str, dict[str, None]] = {}
    for run in material.runs:
        for key, value in _flat(run.execution or {}):
            facts.setdefault(key, {})[value] = None
    rows = tuple(Row(cells=(key.replace("_", " "), ", ".join(values))) for key, values in facts.items())
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

"""Show: arms at several learning rates, and against their baseline where each has its best."""

from headway.show.report.arm_styles import looks
from headway.show.report.report_data import ReportData
from headway.show.report.tables import Row, Table
from headway.words import number


def learning_rates(material: ReportData) -> Table | None:
    """A row per arm; None where no other rates were tried."""
    entries = material.results.learning_rates
    factors = sorted({rate.factor for entry in entries for rate in entry.rates})
    if not entries:
        return None
    named, rows = looks(material.experiment), []
    for entry in entries:
        means = {rate.factor: rate.mean for rate in entry.rates}
        best = f"x{entry.best:g}" + (" (at the end of the range)" if entry.at_edge else "")
        verdicts = "\n".join(c.verdict for c in entry.comparisons) or "–"
        cells = (named[entry.arm].label, *(number(means.get(f)) for f in factors), best, verdicts)
        rows.append(Row(cells=cells, colour=named[entry.arm].colour))
    return Table(
        columns=("", *(f"x{factor:g}" for factor in factors), "best", "against its baseline, each at its best"),
        rows=tuple(rows),
        caption="Mean evaluation loss at each multiple of the learning rate, and the best.",
    )

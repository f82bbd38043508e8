"""Show: the n-gram models and the entropy of the text, as rules across a panel or, far from it, in its caption."""

from collections.abc import Iterator, Sequence
from typing import Any

from headway.show.report.report_data import ReportData
from headway.show.shared.figure import Look, inline
from headway.show.shared.theme import NGRAMS, QUIET
from headway.words import listed, number


def values(material: ReportData) -> dict[str, float]:
    """The loss of each, where all arms are judged on the same text; empty otherwise."""
    if not material.arms or not material.one_task:
        return {}
    found = material.baselines(material.arms[0])
    losses = {name: found[name].get("loss_nats") for name in NGRAMS if name in found}
    return {name: loss for name, loss in losses.items() if loss is not None}


def looks_within(material: ReportData, domain: Sequence[float]) -> list[tuple[Look, float]]:
    """Those that lie inside the ends of an axis, with their look."""
    return [(NGRAMS[name], loss) for name, loss in values(material).items() if domain[0] <= loss <= domain[1]]


def rules(material: ReportData, domain: Sequence[float], column: str) -> Iterator[Any]:
    """A named rule for each that lies inside the ends of an axis."""
    import altair as alt

    for (label, colour, dash), loss in looks_within(material, domain):
        chart = alt.Chart(inline([{"what": label, column: loss}]))
        yield chart.mark_rule(strokeDash=list(dash), color=colour, strokeWidth=1.4).encode(y=f"{column}:Q")
        text = chart.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=QUIET, fontSize=11)
        yield text.encode(y=f"{column}:Q", x=alt.value(0), text="what:N")


def below_and_above(material: ReportData, domain: Sequence[float]) -> str:
    """A sentence for those that an axis does not reach."""
    found = values(material)
    above = [f"{NGRAMS[name][0]} ({number(loss, 3)})" for name, loss in found.items() if loss > domain[1]]
    below = [f"{NGRAMS[name][0]} ({number(loss, 3)})" for name, loss in found.items() if loss < domain[0]]
    said = [f"above the axis: {listed(above)}"] if above else []
    said += [f"below it: {listed(below)}" if said else f"below the axis: {listed(below)}"] if below else []
    text = "; ".join(said)
    return text[:1].upper() + text[1:] + "." if text else ""

"""Show: what becomes of the published statements on heads: in the answer, and in full for every control and metric."""

from collections.abc import Mapping, Sequence
from textwrap import fill

from headway.compare.tokens.association import untested
from headway.compare.tokens.judged_statements import JudgedStatement
from headway.declare.metrics import metric_name
from headway.show.report.laboratory import Statement
from headway.show.report.report_data import ReportData
from headway.show.report.tables import Row, Table
from headway.words import counted, span

COLOURS = {"holds": "#2a9d5c", "does not hold": "#c2185b", "cannot be told": "#b4b8bf"}
"""Of each verdict."""
NARROW = 40
"""Characters of a line of a statement, so that the columns of controls have room."""


def statements(material: ReportData) -> list[Statement]:
    """The verdict on each published statement, of the arms without a control and by Headway's own metrics."""
    found = [entry for entry in material.results.claims if entry.control is None and not entry.as_published]
    if found and all(arm.seeds == 1 for entry in found for arm in entry.arms):
        sentence = (
            f"Published: with one seed none of {counted(len(found), 'statement')} can be judged, three or more would "
            "tell. The table of published statements has their numbers"
        )
        return [Statement(sentence=sentence, colour=COLOURS["cannot be told"])]
    return [Statement(sentence=f"Published: {e.sentence}", colour=COLOURS[e.verdict]) for e in found]


def table(material: ReportData) -> Table | None:
    """A row per statement and metric, a column per control; None where nothing was probed."""
    found = material.results.claims
    if not found:
        return None
    controls = list(dict.fromkeys(entry.control for entry in found))
    order = list(dict.fromkeys(entry.name for entry in found))
    rows: dict[tuple[str, str], dict[str | None, JudgedStatement]] = {}
    # A metric as published may be measured under a control alone: it still follows its statement's own.
    for entry in sorted(found, key=lambda entry: (order.index(entry.name), entry.as_published)):
        rows.setdefault((entry.name, entry.metric), {})[entry.control] = entry
    return Table(
        columns=("", *map(material.experiment.control_label, controls)),
        rows=tuple(_row(by_control, controls) for by_control in rows.values()),
        caption="Under each verdict the number that it rests on, from the smallest to the largest arm, and in how many "
        "arms it holds, does not, and cannot be told. Metrics as published are in grey: where they say otherwise than "
        "the row above them, the conclusion comes from the metric; where a column says otherwise than the first, it "
        "comes from what that control changes." + ("" if _of_pruning(order) else _NOT_HERE),
    )


_NOT_HERE = (
    " Not judged here: that pruning can take alike late heads first and those of layer 0 last; `headway run "
    "prune-heads` prunes models, and judges it."
)


def _of_pruning(names: Sequence[str]) -> bool:
    return "alike-heads-go-first" in names or "layer-0-goes-last" in names


def _row(by_control: Mapping[str | None, JudgedStatement], controls: Sequence[str | None]) -> Row:
    one = next(iter(by_control.values()))
    cells = [_cell(by_control[control]) if control in by_control else "–" for control in controls]
    name = f"by {metric_name(one.metric)}"
    return Row(
        cells=(name if one.as_published else f"{fill(one.says, NARROW)}\n{name}", *cells),
        colour=None if one.as_published or None not in by_control else COLOURS[by_control[None].verdict],
        quiet=one.as_published,
    )


def _cell(entry: JudgedStatement) -> str:
    arms = entry.arms
    if not arms:
        return "–"
    values = [arm.value for arm in arms if arm.value is not None]
    counts = "/".join(str(sum(arm.verdict == verdict for arm in arms)) for verdict in COLOURS)
    if not values:
        return f"{entry.verdict}\n{untested(max(arm.seeds for arm in arms))}"
    return f"{entry.verdict}\n{span(values, 2)}" + (f"\n{counts}" if len(arms) > 1 else "")

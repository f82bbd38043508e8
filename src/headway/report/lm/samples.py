"""Generated texts, how repetitive they are, and the verdicts on published statements on heads.

Texts stand before and after training, with the share of unused tokens. The statements stand in the answer, and in a
table for every control and metric.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from headway.base.text import counted, number, span
from headway.base.words import say
from headway.config.metrics import metric_name
from headway.report.charts.figure import QUIET, WIDTH, Datum, Figure, grid, panel
from headway.report.charts.lines import Axis, keyed, line_bands
from headway.report.charts.page import Row, Table
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.report.experiment.laboratory import Sample, Statement, Writing, spread
from headway.stats.lm.claims import JudgedStatement
from headway.stats.lm.verdicts import untested
from headway.store.records import read_records

BLOCK = 100
"""Tokens over which a share of repeated 4-grams is taken."""

WHEN = ("before training", "after training")


def repetition(material: ReportData) -> Figure | None:
    """The share of repeated 4-grams along samples, before and after; None for fewer than three whole blocks."""
    rows = [row for arm in material.arms for row in _repeated(arm)]
    if len({row["token"] for row in rows}) < 3:
        return None
    drawn = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    style = keyed("what", [(arm.label, arm.colour, arm.style.dash) for arm in drawn], nested=False)
    x = Axis("token", "tokens written", scale={"nice": False, "zero": True}, ticks={"tickMinStep": 100})
    top = max(0.1, *(row["share"] for row in rows))
    y = Axis("share", "repeated 4-grams", domain=[0, top], scale={"nice": True}, ticks={"format": "%"})
    shown = ["what:N", "token:Q", ("share:Q", ".1%"), "n:Q"]
    panels = []
    for when in WHEN:
        points = [row for row in rows if row["when"] == when]
        if points:
            lines = line_bands(points, x, y, style, spread=None, points=36, shown=shown)
            panels.append(panel(lines, WIDTH // 2 - 60, 240, when))
    n_samples = max(row["n"] for row in rows)
    return Figure(
        name="repetition",
        part="Samples",
        title="Repetition in samples",
        caption=(
            f"Share of 4-grams that occur earlier in the same sample, in blocks of {BLOCK} tokens. "
            f"Each line is an arm: the mean over {counted(n_samples, 'sample')}."
        ),
        chart=grid(panels, 2, (30, 0)),
    )


def _repeated(arm: ArmResults) -> Iterator[Datum]:
    for when in WHEN:
        samples = [s for run in arm.runs for s in _samples(run, when) if s.get("repetition")]
        series = [s["repetition"] for s in samples]
        whole = max((s["n_tokens"] // BLOCK for s in samples), default=0)
        for block in range(whole):
            shares = [one[block] for one in series if len(one) > block and one[block] is not None]
            if shares:
                token = (block + 1) * BLOCK
                yield {"what": arm.label, "when": when, "token": token, "share": np.mean(shares), "n": len(shares)}


def _samples(run: Finished, when: str) -> list[dict[str, Any]]:
    samples = read_records(run.run.path / "samples.jsonl")
    steps = sorted({sample["step"] for sample in samples})
    if not steps or (when == WHEN[0] and steps[0] != 0) or (when == WHEN[1] and steps[-1] == 0):
        return []
    wanted = steps[0] if when == WHEN[0] else steps[-1]
    return [sample for sample in samples if sample["step"] == wanted]


def vanishing(material: ReportData) -> Table | None:
    """Per arm, before and after: repeated 4-grams at the end, and tokens that the training text never uses."""
    rows = []
    for arm in material.arms:
        cells = []
        for read in (lambda sample: sample.get("unused_share"), _last_repetition):
            for when in WHEN:
                shares = [read(sample) for run in arm.runs for sample in _samples(run, when)]
                cells.append(_percent([share for share in shares if share is not None]))
        if any(cell != "–" for cell in cells):
            rows.append(Row(cells=(arm.label, *cells), colour=arm.colour))
    columns = ("", "unused tokens, before training", "after", "repeated at the sample's end, before training", "after ")
    caption = (
        "Unused: share of sampled tokens that the training text never uses. Repeated: share of 4-grams in the last "
        f"block of up to {BLOCK} tokens that occur earlier in the sample. Mean ± standard deviation over samples."
    )
    return Table(columns=columns, rows=rows, caption=caption) if rows else None


def _last_repetition(sample: dict[str, Any]) -> float | None:
    shares = [share for share in sample.get("repetition") or [] if share is not None]
    return shares[-1] if shares else None


def _percent(shares: list[float]) -> str:
    return f"{spread([100 * share for share in shares])} %" if shares else "–"


def writings(material: ReportData) -> list[Writing]:
    """The first sample of each arm's shown run, before and after."""
    found = []
    for arm in material.arms:
        samples = tuple(
            Sample(title=when, prompt=one["prompt"], text=one["text"], note=_note(one, arm.shown.seed))
            for when in WHEN
            for one in _samples(arm.shown, when)[:1]
        )
        if samples:
            found.append(Writing(label=arm.label, samples=samples))
    return found


def _note(sample: dict[str, Any], seed: int) -> str:
    repeated = _last_repetition(sample)
    said = f"Seed {seed}, step {sample['step']:,}, temperature {number(sample['temperature'], 2)}, "
    said += f"{sample['n_tokens']:,} tokens"
    if repeated is not None:
        last = (sample["n_tokens"] - 1) % BLOCK + 1
        said += f"; {100 * repeated:.0f} % of the 4-grams in the last {last} tokens occur earlier"
    if sample.get("unused_share") is not None:
        said += f"; {100 * sample['unused_share']:.1f} % of the tokens never occur in the training text"
    return said + "."


COLOURS = {"holds": "#2a9d5c", "does not hold": "#c2185b", "cannot be told": "#b4b8bf"}
"""The colour of each verdict."""
NARROW = 40
"""Characters of a line of a statement, so that the columns of controls have room."""


def statements(material: ReportData) -> list[Statement]:
    """The verdict on each published statement, of the arms without a control and by Headway's own metrics."""
    claims = [entry for entry in material.results.claims if entry.control is None and not entry.as_published]
    if claims and all(arm.seeds == 1 for entry in claims for arm in entry.arms):
        return [Statement(sentence=say("claims_one_seed", n=len(claims)), colour=COLOURS["cannot be told"])]
    said = [Statement(sentence=say("published", sentence=e.sentence), colour=COLOURS[e.verdict]) for e in claims]
    return [Statement(sentence=_in_all(claims), colour=QUIET), *said] if len(claims) > 1 else said


def _in_all(claims: Sequence[JudgedStatement]) -> str:
    """Return how many published statements hold."""
    verdicts = Counter(claim.verdict for claim in claims)
    return say(
        "claims_counted",
        n=len(claims),
        holds=verdicts["holds"],
        fails=verdicts["does not hold"],
        open=verdicts["cannot be told"],
        arms=max(len(claim.arms) for claim in claims),
        seeds=max(arm.seeds for claim in claims for arm in claim.arms),
    )


def table(material: ReportData) -> Table | None:
    """A row per statement and metric, a column per control; None where nothing was probed."""
    claims = material.results.claims
    if not claims:
        return None
    controls = list(dict.fromkeys(entry.control for entry in claims))
    order = list(dict.fromkeys(entry.name for entry in claims))
    rows: dict[tuple[str, str], dict[str | None, JudgedStatement]] = {}
    # A metric as published may be measured under a control alone: it still follows its statement's own.
    for entry in sorted(claims, key=lambda entry: (order.index(entry.name), entry.as_published)):
        rows.setdefault((entry.name, entry.metric), {})[entry.control] = entry
    caption = (
        "A cell has the verdict, the range of the tested number, and numbers of arms (holds / does not hold / "
        "cannot be told). Differences of grey rows come from the metric as published, and differences of columns "
        "from their controls."
    )
    if not _OF_PRUNING.intersection(order):
        caption += _NOT_HERE
    return Table(
        columns=("", *map(material.experiment.control_label, controls)),
        rows=tuple(_row(by_control, controls) for by_control in rows.values()),
        caption=caption,
    )


_OF_PRUNING = {"alike-heads-go-first", "layer-0-goes-last"}
_NOT_HERE = (
    " `headway run prune-heads` tests the claims on the order of pruning: similar late heads first, and layer 0 last."
)


def _row(by_control: Mapping[str | None, JudgedStatement], controls: Sequence[str | None]) -> Row:
    one = next(iter(by_control.values()))
    cells = [_cell(by_control[control]) if control in by_control else "–" for control in controls]
    name = f"by {metric_name(one.metric)}"
    if one.as_published:
        return Row(cells=(name, *cells), quiet=True)
    colour = COLOURS[by_control[None].verdict] if None in by_control else None
    return Row(cells=(f"{fill(one.says, NARROW)}\n{name}", *cells), colour=colour)


def _cell(entry: JudgedStatement) -> str:
    arms = entry.arms
    if not arms:
        return "–"
    values = [arm.value for arm in arms if arm.value is not None]
    if not values:
        return f"{entry.verdict}\n{untested(max(arm.seeds for arm in arms))}"
    cell = f"{entry.verdict}\n{span(values, 2)}"
    if len(arms) == 1:
        return cell
    counts = [sum(arm.verdict == verdict for arm in arms) for verdict in COLOURS]
    return f"{cell}\n{'/'.join(map(str, counts))}"

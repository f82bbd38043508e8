"""The published association: how much of the loss the diversity of each layer explains, R^2 layer by layer."""

from collections.abc import Iterator, Sequence
from typing import Any

from headway.base.text import counted, join, number
from headway.report.charts.figure import Figure, alt, colours_of_column, hints, inline
from headway.report.charts.lines import Axis
from headway.report.experiment.data import ReportData
from headway.report.lm.heads import PART, panels
from headway.stats.lm.diversity import EARLY, LayerAssociation
from headway.stats.lm.verdicts import untested
from headway.stats.simultaneous import LEVEL

LOSS = "probe_loss_nats"
WINDOWS = {"early": (f"first {EARLY} probes", "#d55e00"), "whole": ("whole training", "#0072b2")}
"""Name and colour of each window of training."""
CHANCE, CHANCE_COLOUR = "by chance", "#dfe3e8"
OWN = "of what a seed does by itself"


def association(material: ReportData) -> Figure | None:
    """R^2 of the probe's loss on mean and variance of output dissimilarity by layer; None if too little was probed."""
    labels = {arm.name: arm.label for arm in material.arms}
    entries = [
        entry
        for entry in material.results.associations
        if entry.arm in labels and entry.loss == LOSS and entry.metric == "output_dissimilarity"
    ]
    if not entries:
        return None
    rows = [row for entry in entries for row in _rows(entry, labels[entry.arm])]
    arms = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    windows = [name for name in WINDOWS if any(entry.window == name for entry in entries)]
    layers = _layers(windows, sorted({entry.layer for entry in entries}))
    return Figure(
        name="association",
        part=PART,
        title="How much of the loss the diversity of a layer explains",
        caption=_caption(material, entries, windows),
        chart=panels(alt.layer(*layers, data=inline(rows)), arms),
    )


def _layers(windows: Sequence[str], layers: Sequence[int]) -> Iterator[Any]:
    """Bars of what is by chance, points of seeds and of their means, and diamonds of what seeds do by themselves."""
    named = dict(WINDOWS[name] for name in windows)
    colour = colours_of_column("window", {**named, CHANCE: CHANCE_COLOUR}, "circle", symbolSize=90)
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=[OWN], range=["diamond"]),
        legend=alt.Legend(title=None, orient="bottom", symbolFillColor="white", symbolSize=70),
    )
    x = Axis("layer", "layer", order=layers, ticks={"labelAngle": 0})
    y = Axis("r2", "R² of the loss", domain=[0, 1], ticks={"tickCount": 5})
    offset = alt.XOffset("window:N", sort=list(named))

    def known(column: str) -> Any:
        chart = alt.Chart().transform_filter(f"isValid(datum.{column})")
        return chart.encode(x=x.encoded("x"), y=y.encoded("y", column), xOffset=offset)

    yield known("swapped").mark_bar().encode(y2=alt.datum(0), color=alt.ColorDatum(CHANCE))
    yield known("of_seed").mark_point(filled=True, size=14, opacity=0.55).encode(color=colour)
    shown = ["what:N", "window:N", "layer:O", "n:Q", "r2:Q", "own:Q", "swapped:Q", "p:Q"]
    yield known("r2").mark_point(filled=True, size=48, opacity=1).encode(color=colour, tooltip=hints(shown))
    own = known("own").transform_calculate(kind=f"'{OWN}'")
    yield own.mark_point(filled=False, size=34, opacity=1, strokeWidth=1.4).encode(color=colour, shape=shape)


def _rows(entry: LayerAssociation, label: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a layer, and of each of its seeds."""
    place = {"what": label, "layer": entry.layer, "window": WINDOWS[entry.window][0]}
    numbers = {"r2": entry.r2, "own": entry.r2_own, "swapped": entry.r2_swapped, "p": entry.p, "n": entry.n}
    yield place | numbers
    if len(entry.per_series) > 1:
        yield from (place | {"of_seed": one} for one in entry.per_series)


def _caption(material: ReportData, entries: Sequence[LayerAssociation], windows: Sequence[str]) -> str:
    ends = {name: max(e.steps[1] for e in entries if e.window == name) for name in windows}
    early = f"the first {EARLY} probed batches (to step {ends['early']:,}) and " if "early" in windows else ""
    several = max(len(entry.seeds) for entry in entries) > 1
    return join(
        f"R² of the loss on the probe's fixed batch, regressed on mean and variance over pairs of the layer's output "
        f"dissimilarity, over {early}the whole training (to step {ends['whole']:,}): means over "
        f"{counted(material.n_seeds, 'seed')}{', and each seed as a small point' if several else ''}.",
        "Two curves that merely both move with time explain each other.",
        *_own(entries),
    )


def _own(entries: Sequence[LayerAssociation]) -> Iterator[str]:
    """Yield caption sentences on what each seed does by itself."""
    if any(entry.r2_own is not None for entry in entries):
        yield (
            "So diamonds are R² of what a seed does by itself, beside the mean over seeds; grey is how far the heads "
            "of other seeds explain that: by chance."
        )
    if reason := untested(max(len(entry.seeds) for entry in entries)):
        yield f"Whether it is more than chance {reason}."
        return
    tested = [entry for entry in entries if entry.p is not None]
    if tested:
        n_told = sum(entry.p is not None and entry.p < LEVEL for entry in tested)
        yield (
            f"{n_told} of {len(tested)} diamonds are more than chance, by swapping seeds (p below 0.05 each, so that "
            f"about {number(LEVEL * len(tested), 2)} would be by chance alone)."
        )

"""Show: the answer as a figure: how far each arm is from its baseline, seed by seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from headway.compare.matches import matches_of
from headway.compare.rates import rate_controls
from headway.compare.statistics import Comparison
from headway.declare.metrics import METRICS, metric_name
from headway.show.report.material import ArmResults, Material
from headway.show.shared.figure import WIDTH, Figure, ends, inline
from headway.show.shared.summary import SEEDS
from headway.show.shared.theme import INK, QUIET
from headway.words import join

WIDER = 3.0
"""Differences below a gap of this factor are drawn once more, larger."""

ROW, LABELS, BESIDE = 30, 260, 12
"""Pixels of an arm's row, of its name at most, and beside the outermost points."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An arm against a baseline: the paired difference of each seed, in per cent of the baseline or in units."""

    arm: ArmResults
    baseline: ArmResults
    compared: Comparison
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """How far from zero something of it is drawn."""
        return max(map(abs, (*self.values, self.low, self.high)))

    @property
    def panel(self) -> tuple[str, str | None, str]:
        """What is drawn together: under a control a group, arms against one baseline, or each against itself."""
        return self.compared.control or "", self.compared.group, "" if self.against_itself else self.baseline.name

    @property
    def against_itself(self) -> bool:
        """Whether an arm under a control is held against itself without it."""
        return self.arm.shown.run.arm == self.baseline.shown.run.arm


def differences(material: Material) -> Iterator[Figure]:
    """Of the arms without a control; of those under controls a folded one, open where there is no other."""
    found = list(_found(material))
    shares = all(one.compared.relative is not None for one in found)
    plain = [one for one in found if one.compared.control is None]
    if plain:
        yield _figure(material, "differences", "What each arm changes", plain, shares=shares)
    rate_only = rate_controls(material.experiment)
    others = [one for one in found if one.compared.control not in (None, *rate_only)]
    if others:
        figure = _figure(
            material, "differences-controls", "What each arm changes under controls", others, shares=shares
        )
        yield Figure(**{**vars(figure), "folded": bool(plain)})


def _found(material: Material) -> Iterator[Difference]:
    """Each comparison by which one arm can be better than another, and that has a pair."""
    arms = {arm.name: arm for arm in material.arms}
    fair = {
        (m.arm.full_name, m.baseline.full_name, m.group)
        for m in matches_of(material.experiment)
        if not m.no_merit(material.results.primary)
    }
    metric = material.results.primary
    judged = [c for c in material.results.judged if (c.arm, c.baseline, c.group) in fair]
    shares = all(c.relative is not None for c in judged if c.n_pairs)
    for c in judged:
        if c.arm not in arms or c.baseline not in arms or c.difference is None:
            continue
        mine, theirs = arms[c.arm].by_seed(metric), arms[c.baseline].by_seed(metric)
        seeds = sorted(mine.keys() & theirs.keys())
        factor = 100 * len(seeds) / abs(sum(theirs[seed] for seed in seeds)) if seeds and shares else 1.0
        values = tuple(factor * (mine[seed] - theirs[seed]) for seed in seeds)
        if values:
            mean = sum(values) / len(values)
            known = c.interval is not None and len(values) >= SEEDS
            low, high = (factor * end for end in c.interval) if known and c.interval else (mean, mean)
            yield Difference(
                arm=arms[c.arm],
                baseline=arms[c.baseline],
                compared=c,
                seeds=tuple(seeds),
                values=values,
                mean=mean,
                low=low,
                high=high,
            )


def _figure(material: Material, name: str, title: str, found: Sequence[Difference], *, shares: bool) -> Figure:
    import altair as alt

    metric = METRICS[material.results.primary]
    panels: dict[Any, list[Difference]] = {}
    for one in sorted(found, key=lambda one: one.panel[0]):
        panels.setdefault(one.panel, []).append(one)
    small = _small(found)
    zoomed = bool(small)
    labels = min(LABELS, 7 * max(len(one.arm.label) for one in found))
    width = min(620, (WIDTH - 60) // 2 - labels if zoomed else WIDTH - labels)
    axis = f"{metric_name(metric.name)} less the baseline's ({'% of it' if shares else metric.unit})"
    # One scale of colours for all panels: of two, Vega-Lite would make a union.
    colours = {one.arm.label: one.arm.colour for one in found}
    whole = _Frame(scaled=found, width=width, labels=labels, axis=axis, colours=colours)
    larger = replace(whole, scaled=small)
    rows = []
    for members in panels.values():
        sides = [_panel(members, whole, _title(material, members[0]))]
        if zoomed and (close := [one for one in members if one in small]):
            sides.append(_panel(close, larger, "drawn larger"))
        rows.append(alt.hconcat(*sides, spacing=30))
    return Figure(
        name=name,
        part="Outcome",
        title=title,
        caption=_caption(material, found, zoomed=zoomed),
        chart=alt.vconcat(*rows, spacing=16),
    )


def _small(found: Sequence[Difference]) -> list[Difference]:
    """Those below the widest gap between differences, where it is wide enough for an axis of their own."""
    ordered = sorted(found, key=lambda one: one.reach)
    gaps = [larger.reach / max(one.reach, 1e-300) for one, larger in pairwise(ordered)]
    widest = max(gaps, default=1.0)
    return ordered[: gaps.index(widest) + 1] if widest >= WIDER else []


def _caption(material: Material, found: Sequence[Difference], *, zoomed: bool) -> str:
    metric = METRICS[material.results.primary]
    better = {"lower": "Left of the line is better.", "higher": "Right of the line is better.", None: ""}[metric.better]
    seeds = max(len(one.seeds) for one in found)
    return join(
        f"Each arm less its baseline: the {metric.sentence}.",
        better,
        "A small point per seed, of the arm less its baseline at the same seed; the large point is their mean"
        + (", the bar its 95 % interval (t)." if seeds >= SEEDS else "; too few seeds for an interval.")
        if seeds > 1
        else "One seed: a point per arm, and no interval.",
        "Right: the smaller differences, drawn larger." if zoomed else "",
        "Left out: what is judged on different tasks, or sees what it is to predict." if _unfair(material) else "",
    )


def _unfair(material: Material) -> bool:
    names = {arm.name for arm in material.arms}
    drawn = [m for m in matches_of(material.experiment) if {m.arm.full_name, m.baseline.full_name} <= names]
    return any(match.no_merit(material.results.primary) for match in drawn)


def _title(material: Material, one: Difference) -> str:
    control, group, against = one.compared.control, one.compared.group, f"against {one.baseline.label}"
    if control is not None and one.against_itself:
        return f"{material.experiment.control_label(control)}: each against itself without it"
    return f"{group}: {against}" if group is not None and len(material.experiment.groups) > 1 else against


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """What panels in a column share: an axis that holds all of `scaled`, its title, room for names, and colours."""

    scaled: Sequence[Difference]
    width: int
    labels: int
    axis: str
    colours: Mapping[str, str]


def _panel(shown: Sequence[Difference], frame: _Frame, title: str) -> Any:
    import altair as alt

    reached = [value for one in frame.scaled for value in (*one.values, one.low, one.high)]
    scale = alt.Scale(domain=ends([0.0, *reached], beside=BESIDE / frame.width), nice=False)
    x = alt.X(
        "difference:Q", title=frame.axis, scale=scale, axis=alt.Axis(tickCount=max(3, frame.width // 80), grid=True)
    )
    names = list(dict.fromkeys(one.arm.label for one in shown))
    y = alt.Y(
        "arm:N",
        sort=names,
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=LABELS, minExtent=frame.labels),
    )
    colours = frame.colours
    colour = alt.Color("arm:N", legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values())))
    means = [
        {"arm": one.arm.label, "against": one.baseline.label, "difference": one.mean, "low": one.low, "high": one.high}
        for one in shown
    ]
    seeds = [
        {"arm": one.arm.label, "difference": value, "seed": str(seed)}
        for one in shown
        for seed, value in zip(one.seeds, one.values, strict=True)
        if len(one.seeds) > 1
    ]
    zero = alt.Chart(inline([{"difference": 0.0}])).mark_rule(color=QUIET, strokeDash=[4, 3], strokeWidth=1.2)
    mean = alt.Chart(inline(means)).encode(y=y, color=colour)
    tooltip = ["arm:N", "against:N", "difference:Q", "low:Q", "high:Q"]
    layers = [
        zero.encode(x=x),
        mean.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        mean.mark_point(size=110, filled=True, opacity=1, stroke="white", strokeWidth=1).encode(x=x, tooltip=tooltip),
    ]
    if seeds:
        points = alt.Chart(inline(seeds)).mark_point(size=22, filled=True, opacity=0.9, color=INK)
        layers.append(points.encode(x=x, y=y, tooltip=["arm:N", "seed:N", "difference:Q"]))
    return alt.layer(*layers).properties(width=frame.width, height=ROW * len(names), title=title)

"""Show: the answer as a figure: how far apart what is compared lies, seed by seed, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from headway.compare.cells import runs_of_arms
from headway.compare.contrasts import JudgedContrast
from headway.compare.evidence import Comparison, JudgedDifference
from headway.compare.matches import matches_of
from headway.compare.rates import rate_controls
from headway.compare.seed_time import arm_seconds
from headway.declare.metrics import METRICS
from headway.show.report.intervals import Difference, drawn
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import Figure
from headway.show.shared.summary import SEEDS
from headway.show.shared.theme import ASKED
from headway.words import brief, join


def differences(material: ReportData) -> Iterator[Figure]:
    """What is asked first, then arm by arm, both without a control; of controls a folded one, open if it is alone."""
    compared = [one for one in material.results.judged if one.n_pairs]
    # A share of seeds is told in its own unit: so many per cent of a share would go beyond all of them.
    shares = not _is_of_shares(material) and all(
        one.share is not None for one in (*compared, *material.results.contrasts) if one.n_pairs
    )
    asked, found = list(_asked(material, shares=shares)), list(_found(material, shares=shares))
    plain = [[one for one in some if one.control is None] for some in (asked, found)]
    first = [some for some in plain if some]
    titles = {0: "What is asked", 1: "What each arm changes"}
    for at, some in enumerate(first):
        kind = next(kind for kind, members in enumerate(plain) if members is some)
        name = "differences" if at == 0 else "differences-arms"
        yield _figure(material, name, titles[kind], some, shares=shares)
    rate_only = rate_controls(material.experiment)
    others = [one for one in (*asked, *found) if one.control not in (None, *rate_only)]
    if others:
        figure = _figure(
            material, "differences-controls", "What each arm changes under controls", others, shares=shares
        )
        yield replace(figure, folded=bool(first))


def _asked(material: ReportData, *, shares: bool) -> Iterator[Difference]:
    """The contrasts, less what is subtracted."""
    weights = {one.name: one.weights for one in material.experiment.contrasts}
    for one in material.results.contrasts:
        if one.estimate is None or not one.values:
            continue
        panel = "what is asked"
        if one.control is not None:
            panel = f"{material.experiment.control_label(one.control)}: {panel}"
        sides: tuple[list[str], list[str]] = ([], [])
        for arm, weight in weights.get(one.name, {}).items():
            sides[weight < 0].append(f"{arm}+{one.control}" if one.control else arm)
        values = {seed: _shown(one, value, shares=shares) for seed, value in one.values.items()}
        what = {"name": one.label, "colour": ASKED, "against": "", "panel": panel, "time": _time(material, *sides)}
        yield _difference(material, one, values, shares=shares, **what)


def _found(material: ReportData, *, shares: bool) -> Iterator[Difference]:
    """Each comparison by which one arm can be better than another, and that has a pair."""
    arms = {arm.name: arm for arm in material.arms}
    metric = material.results.primary
    fair = {
        (m.arm.full_name, m.baseline.full_name, m.group)
        for m in matches_of(material.experiment)
        if not m.no_merit(metric)
    }
    for c in material.results.judged:
        if c.arm not in arms or c.baseline not in arms or c.estimate is None:
            continue
        if (c.arm, c.baseline, c.group) not in fair:
            continue
        values = _by_seed(c, arms[c.arm].by_seed(metric), arms[c.baseline].by_seed(metric), shares=shares)
        if values:
            arm, baseline = arms[c.arm], arms[c.baseline]
            what = {"name": arm.label, "colour": arm.colour, "against": baseline.label}
            what |= {"panel": _title(material, arm, baseline, c), "time": _time(material, [c.arm], [c.baseline])}
            yield _difference(material, c, values, shares=shares, **what)


def _by_seed(
    one: Comparison, mine: Mapping[int, float], theirs: Mapping[int, float], *, shares: bool
) -> dict[int, float]:
    seeds = sorted(mine.keys() & theirs.keys() & set(one.seeds or mine))
    if one.rule == "blocks":
        return {s: 100 * (mine[s] / theirs[s] - 1) for s in seeds if mine[s] > 0 and theirs[s] > 0}
    return {seed: _shown(one, mine[seed] - theirs[seed], shares=shares) for seed in seeds}


def _shown(one: JudgedDifference, value: float, *, shares: bool) -> float:
    """In per cent, or in the metric's unit."""
    share = one.as_share(value) if shares else None
    return value if share is None else 100 * share


def _difference(
    material: ReportData,
    one: Comparison | JudgedContrast,
    values: Mapping[int, float],
    *,
    shares: bool,
    **what: str,
) -> Difference:
    """With its mean and, where there is one, its interval."""
    assert one.estimate is not None
    mean = _shown(one, one.estimate, shares=shares)
    known = one.interval is not None and len(values) >= SEEDS
    low, high = (
        sorted(_shown(one, end, shares=shares) for end in one.interval) if known and one.interval else (mean,) * 2
    )
    return Difference(
        control=one.control,
        seeds=tuple(values),
        values=tuple(values.values()),
        mean=mean,
        low=low,
        high=high,
        verdict=_verdict(material, one),
        **what,
    )


def _verdict(material: ReportData, one: Comparison | JudgedContrast) -> str:
    """How the interval reads, in a few words."""
    family = material.results.family(one)
    if family is not None and family.look is None:
        return "not looked at yet"
    margin = f"{_margin(material):g} %"
    if one.doubts:
        short = "the same" if one.outcome == "same" or one.estimate is None else _better(one.metric, one.estimate)
        return f"{short}, in doubt"
    if one.is_told and one.estimate is not None:
        return f"{_better(one.metric, one.estimate)}{f', by less than {margin}' if one.outcome == 'small' else ''}"
    return {"same": f"the same within {margin}", "open": "open", "few": "too few seeds", "none": "no spread"}[
        one.outcome
    ]


def _better(metric: str, estimate: float) -> str:
    words = {None: ("lower", "higher"), "lower": ("better", "worse"), "higher": ("worse", "better")}
    return words[METRICS[metric].better][estimate > 0]


def _time(material: ReportData, first: Sequence[str], second: Sequence[str]) -> str:
    """How long a run of either side takes, as `arm_seconds` has each arm; empty where that is not known."""
    runs = runs_of_arms(material.runs)
    means = []
    for side in (first, second):
        seconds = [found for arm in side if (found := arm_seconds(arm, runs)) is not None]
        if not seconds:
            return ""
        means.append(brief(fmean(seconds)))
    return " | ".join(means)


def _is_of_shares(material: ReportData) -> bool:
    """Whether what is drawn are shares of seeds, each pair of arms with an interval of its own."""
    primary = material.results.primary
    return any(family.rule == "shares" for family in material.results.families if family.metric == primary)


def _margin(material: ReportData) -> float:
    """What is certainly smaller is the same, in per cent: by the plan that verdicts follow, else by the document."""
    families = [family for family in material.results.families if family.metric == material.results.primary]
    return families[0].plan.margin if families else material.experiment.margin


def _figure(material: ReportData, name: str, title: str, found: Sequence[Difference], *, shares: bool) -> Figure:
    metric = METRICS[material.results.primary]
    margin = _margin(material) if shares else None
    chart, zoomed = drawn(found, metric, margin=margin)
    return Figure(
        name=name,
        part="Outcome",
        title=title,
        caption=_caption(material, found, margin=margin, zoomed=zoomed),
        chart=chart,
    )


def _caption(material: ReportData, found: Sequence[Difference], *, margin: float | None, zoomed: bool) -> str:
    metric = METRICS[material.results.primary]
    better = {"lower": "Left of the line is better.", "higher": "Right of the line is better.", None: ""}[metric.better]
    seeds = max(len(one.seeds) for one in found)
    paired = material.experiment.verdicts == "paired"
    if _is_of_shares(material):
        bar = (
            ", the bar its 95 % interval (Newcombe), which holds by itself; the words beside are McNemar's and Holm's."
        )
    elif paired:
        bar = ", the bar its 95 % interval (t)."
    else:
        bar = ", the bar its 95 % interval; those of a question hold at once."
    several = bar if any(one.low < one.high for one in found) else "; there is no interval yet."
    asked = any(not one.against for one in found)
    return join(
        f"{'Each side a mean over its arms' if asked else 'Each arm less its baseline'}: the {metric.sentence}.",
        better,
        "A small point per seed, of the difference at that seed; the large point is their mean" + several
        if seeds > 1
        else "One seed: a point per difference, and no interval.",
        f"The band is ± {margin:g} %: what has its whole interval inside is the same within {margin:g} %."
        if margin is not None and not paired
        else "",
        "Beside: how that reads, and how long a run takes where little else is done, of the first side | of the second."
        if any(one.time for one in found)
        else "",
        "Right: the smaller differences, drawn larger." if zoomed else "",
        "Left out: what is judged on different tasks, or sees what it is to predict." if _unfair(material) else "",
    )


def _unfair(material: ReportData) -> bool:
    names = {arm.name for arm in material.arms}
    drawn = [m for m in matches_of(material.experiment) if {m.arm.full_name, m.baseline.full_name} <= names]
    return any(match.no_merit(material.results.primary) for match in drawn)


def _title(material: ReportData, arm: ArmResults, baseline: ArmResults, compared: Comparison) -> str:
    """Of a panel: under a control a group, arms against one baseline, or each against itself without the control."""
    control, group, against = compared.control, compared.group, f"against {baseline.label}"
    if control is not None and arm.shown.run.arm == baseline.shown.run.arm:
        return f"{material.experiment.control_label(control)}: each against itself without it"
    return f"{group}: {against}" if group is not None and len(material.experiment.groups) > 1 else against

"""The first screen of a report: one sentence that answers the question, and the comparisons that it rests on.

`first_screen` makes it from the data of a report, for the page and for Markdown. The sentence names its
quantity. A comparison of arms that were not chosen is left out; the correction for it stays.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from headway.base.text import counted, number
from headway.base.words import Verdict, about, amount_of, verdict_sentence, without_unit
from headway.config.load import QUICK
from headway.config.metrics import METRICS
from headway.report.experiment.answer import DrawnDifference, drawn_differences, margin_of, smaller
from headway.report.experiment.data import ReportData
from headway.report.experiment.laboratory import time_taken
from headway.stats.cells import why_no_verdict
from headway.stats.learning_rates import rate_controls
from headway.stats.verdicts import POINTS, name_of_interval, quantity, sides_of, verdict_of

MOST_ROWS = 8
"""Comparisons that stand open; the others are folded."""


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """A comparison as a row: names, number with its interval, a verdict, and where it is drawn, in per cent of an axis.

    `ends` is None without an interval; `beyond` is -1 or 1 if the difference lies left or right of the axis.
    """

    name: str
    number: str
    verdict: str
    kind: str
    middle: float
    ends: tuple[float, float] | None
    beyond: int


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Comparisons on one axis: their title, the head of their column, where 0 is, and the band of the margin."""

    title: str
    head: str
    rows: tuple[ForestRow, ...]
    zero: float
    band: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class FirstScreen:
    """The answer in a sentence, its setting, the open comparisons, the folded ones, what to be careful of, and facts.

    `care` is what its strip says first; `cautions` are the sentences below.
    """

    answer: str
    setting: str
    shown: Forest | None
    folded: tuple[Forest, ...]
    care: str
    cautions: tuple[str, ...]
    facts: tuple[str, ...]


def first_screen(
    material: ReportData, progress: str, statements: Sequence[str] = (), further: Sequence[str] = ()
) -> FirstScreen:
    """Make the first screen.

    Args:
        material: the data of the report.
        progress: the number of runs that have ended, in words.
        statements: the laboratory's sentences; the first is the answer where no arms are compared.
        further: warnings about the page itself.
    """
    asked, found, shares = drawn_differences(material)
    plain = [[one for one in some if one.control is None] for some in (asked, found)]
    main = plain[0] or plain[1]
    if not material.arms:
        answer = "There is no answer yet: no run has finished."
    elif main:
        answer = headline(material, main)
    elif statements:
        answer = _sentence(statements[0])
    else:
        done = [(run.name, run.seed) for run in material.runs if run.status == "done"]
        why = why_no_verdict(material.experiment, done) or "no compared arm has a value yet"
        answer = f"Nothing was compared: {why}."
    shown, folded = _rows(material, plain, [one for one in (*asked, *found) if one.control], shares=shares)
    doubts = material.results.doubts
    cautions = (*doubts, *(one for one in material.results.warnings if one not in doubts), *further)
    care, rest = _care(cautions)
    return FirstScreen(
        answer=answer,
        setting=_setting(material),
        shown=shown,
        folded=folded,
        care=care,
        cautions=tuple(_sentence(one) for one in rest),
        facts=(progress, *_cost(material)),
    )


def headline(material: ReportData, main: Sequence[DrawnDifference]) -> str:
    """Return one sentence on comparisons, at least one, that names the quantity; the strongest difference comes first.

    Further comparisons are counted in a second sentence.
    """
    told = sorted((one for one in main if one.judged.is_told), key=_strength)
    if told or len(main) == 1:
        lead = (told or main)[0]
        rest = [one for one in main if one is not lead]
        return f"{_alone(material, lead)}{_others(material, rest)}"
    known = [one for one in main if one.low < one.high]
    measured = metric_name_of(material)
    if not known:
        seeds = max(len(one.seeds) for one in main)
        return f"There is no verdict on the {measured} yet: {counted(seeds, 'seed')} for {len(main)} comparisons."
    verdicts = [_verdict(material, one) for one in known]
    ends = [end for verdict in verdicts for end in verdict.interval or ()]
    between = amount_of(verdicts[0])(min(ends), max(ends)).replace(" to ", " and ")
    span = f"between {between} ({_interval_name(material, known[0])}s; {_seeds(known)})"
    if all(one.judged.outcome == "same" for one in main):
        same = f"All {len(main)} comparisons are as good within {margin_of(material):g} %"
        said = f"{same}: the difference in {measured} lies {span}."
    else:
        every = f"all {len(main)}" if len(known) == len(main) else f"{len(known)} of {len(main)}"
        said = f"No comparison shows a clear difference in {measured} yet: {every} differences lie {span}."
    return f"In doubt: {said}" if any(one.judged.doubts for one in main) else said


def metric_name_of(material: ReportData) -> str:
    """The primary metric's name in a sentence."""
    return quantity(METRICS[material.results.primary])


def _alone(material: ReportData, one: DrawnDifference) -> str:
    """Return the sentence for one comparison."""
    said = f"{verdict_sentence(_verdict(material, one))}."
    return f"In doubt: {said}" if one.judged.doubts else said


def _verdict(material: ReportData, one: DrawnDifference) -> Verdict:
    return verdict_of(
        one.judged,
        material.results.family(one.judged),
        metric=METRICS[material.results.primary],
        sides=_sides(material, one) or (one.name,),
        in_per_cent=one.in_per_cent,
    )


def _others(material: ReportData, rest: Sequence[DrawnDifference]) -> str:
    if not rest:
        return ""
    margin = f"{margin_of(material):g} %"
    words = {"apart": "clear too", "small": "clear too", "same": f"as good within {margin}"}
    counts = Counter("in doubt" if one.judged.doubts else words.get(one.judged.outcome, "open") for one in rest)
    if len(rest) == 1:
        return f" The other comparison is {next(iter(counts))}."
    if len(counts) == 1:
        return f" The other {len(rest)} comparisons are {next(iter(counts))}."
    said = ", ".join(f"{n} {'is' if n == 1 else 'are'} {word}" for word, n in counts.most_common())
    return f" Of the other {len(rest)} comparisons, {said}."


def _sides(material: ReportData, one: DrawnDifference) -> tuple[str, str] | None:
    if one.against:
        return one.name, one.against
    name = getattr(one.judged, "name", "")
    contrast = next((each for each in material.experiment.contrasts if each.name == name), None)
    return None if contrast is None else sides_of(contrast, material.experiment)


def _strength(one: DrawnDifference) -> float:
    return -abs(one.mean)


def _interval_name(material: ReportData, one: DrawnDifference) -> str:
    return name_of_interval(material.results.family(one.judged))


def _seeds(found: Sequence[DrawnDifference]) -> str:
    counts = sorted({len(one.seeds) for one in found})
    return counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def _written(material: ReportData, one: DrawnDifference) -> str:
    """Return a difference and its interval without the unit, which a column names."""
    change, interval = without_unit(_verdict(material, one))
    return f"{change} ({interval})" if interval else change


def _rows(
    material: ReportData,
    plain: Sequence[list[DrawnDifference]],
    controlled: Sequence[DrawnDifference],
    *,
    shares: bool,
) -> tuple[Forest | None, tuple[Forest, ...]]:
    """Return the open rows and the folded ones: the strongest stand open where there are too many."""
    asked, found = plain
    shown, rest = (asked, found) if asked else (found, [])
    if len(asked) + len(found) <= MOST_ROWS:
        shown, rest = [*asked, *found], []
    elif len(shown) > MOST_ROWS:
        shown = sorted(shown, key=lambda one: (not one.judged.is_told, _strength(one)))
        shown, rest = shown[:MOST_ROWS], [*shown[MOST_ROWS:], *rest]
    title = "Each arm against its baseline" if asked and len(shown) == len(asked) else "Further comparisons"
    under = {control: [one for one in controlled if one.control == control] for control in _controls(material)}
    parts = [(title, rest), *((f"Under {material.experiment.control_label(c)}", some) for c, some in under.items())]
    folded = tuple(_lines(material, name, some, shares=shares) for name, some in parts if some)
    return (_lines(material, "", shown, shares=shares) if shown else None), folded


def _controls(material: ReportData) -> list[str]:
    rate_only = rate_controls(material.experiment)
    return [control for control in material.controls if control is not None and control not in rate_only]


def _lines(material: ReportData, title: str, found: Sequence[DrawnDifference], *, shares: bool) -> Forest:
    margin = margin_of(material) if shares else 0.0
    scaled = smaller(found, margin) or list(found)
    reach = 1.1 * max([margin, *(one.reach for one in scaled)]) or 1.0

    def place(value: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, value / reach)), 2)

    rows = tuple(
        ForestRow(
            name=" vs ".join(_sides(material, one) or (one.name,)),
            number=_written(material, one),
            verdict=one.verdict,
            kind=_kind(material, one),
            middle=place(one.mean),
            ends=(place(one.low), place(one.high)) if one.low < one.high else None,
            beyond=0 if abs(one.mean) <= reach else 1 if one.mean > 0 else -1,
        )
        for one in found
    )
    return Forest(
        title=title,
        head=_head(material, found),
        rows=rows,
        zero=50.0,
        band=(place(-margin), place(margin)) if margin else None,
    )


def _kind(material: ReportData, one: DrawnDifference) -> str:
    if one.judged.doubts or not one.judged.is_settled:
        return "open"
    if one.judged.outcome == "same":
        return "same"
    better = METRICS[material.results.primary].better
    if better is None:
        return "open"
    return "same" if (one.mean < 0) == (better == "lower") else "worse"


def _head(material: ReportData, found: Sequence[DrawnDifference]) -> str:
    """Return the head of a column of differences: unit, level, and whether intervals hold at once."""
    unit = METRICS[material.results.primary].unit
    said = "%" if found[0].in_per_cent else "percentage points" if unit in POINTS else unit
    known = [one for one in found if one.low < one.high]
    if not known:
        return f"difference, {said}"
    families = [family for one in known if (family := material.results.family(one.judged)) is not None]
    sure, sizes = _interval_name(material, known[0]), {(family.of, family.size) for family in families}
    at_once = f", {families[0].size} at once" if len(sizes) == 1 else ", each kind at once"
    return f"difference, {said} ({sure.replace('simultaneous ', '')}{at_once if 'simul' in sure else ''})"


def _setting(material: ReportData) -> str:
    """Return what was measured, on what, with how many seeds, and which direction is better."""
    metric = METRICS[material.results.primary]
    name = metric_name_of(material)
    unit = "" if metric.unit in ("1", "ratio", *POINTS) else f" ({metric.unit})"
    arms = [arm for arm in material.arms if arm.control is None] or list(material.arms)
    runs = [arm.shown.run.spec for arm in arms] or [material.run]
    sizes = sorted({int(size) for arm in arms for size in arm.final("n_parameters")})
    corpora = [[PurePath(text).name if text.startswith("/") else text for text in run.task.corpora] for run in runs]
    titles = [", ".join(texts) or run.task.title for texts, run in zip(corpora, runs, strict=True)]
    tasks = list(dict.fromkeys(titles))
    on = f" on {tasks[0]}" if len(tasks) == 1 else f" on {len(tasks)} tasks"
    of = counted(len(arms) or len({run.name for run in material.runs if run.control is None}), "arm")
    if sizes:
        of += f" of {number(sizes[0])}{f' to {number(sizes[-1])}' if len(sizes) > 1 else ''} parameters"
    counts = sorted({len(arm.runs) for arm in arms})
    seeds = (
        f", {counts[0]}{f' to {counts[-1]}' if len(counts) > 1 else ''} seed{'s' * (counts[-1] > 1)}" if arms else ""
    )
    better = {"lower": " Lower is better.", "higher": " Higher is better.", None: ""}[metric.better]
    small = (
        " Small models and a short training (scale quick): a first look." if material.experiment.scale == QUICK else ""
    )
    notes = [small, *(f" {_sentence(note)}" for note in material.experiment.compared().notes)]
    return f"{name[:1].upper()}{name[1:]}{unit} of {of}{on}{seeds}.{better}{''.join(notes)}"


def would_change(material: ReportData, cautions: Sequence[str]) -> Iterator[str]:
    """Yield what would change the answer: more seeds where a question is open, what was cautioned, another setting."""
    asked, found, _ = drawn_differences(material)
    plain = [one.judged for one in (*asked, *found) if one.control is None]
    undecided = [one for one in plain if not one.is_settled]
    if undecided:
        more = max((one.seeds_to_settle or 0 for one in undecided), default=0)
        many = f": {about(more)} more would settle the open ones" if more else ""
        yield f"More seeds: {counted(len(undecided), 'comparison')} of {len(plain)} have no verdict yet{many}."
    if any(one.outcome == "same" for one in plain):
        yield f"A smaller margin than {margin_of(material):g} %: Headway counts smaller differences as equal."
    yield from cautions
    yield "Another task, model size or length of training: the answer holds for the setting above."


def _care(cautions: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what a strip of warnings says first, and the sentences below, none of them twice."""
    if not cautions:
        return "", ()
    head, _, rest = cautions[0].partition(": ")
    more = f", and {counted(len(cautions) - 1, 'further note')}" if len(cautions) > 1 else ""
    if rest and len(head) <= _SHORT:
        return f"{head}{more}", (rest, *cautions[1:])
    return counted(len(cautions), "note"), cautions


_SHORT = 60


def _cost(material: ReportData) -> Iterator[str]:
    """Yield the processor's time that the runs took, and the kind of machine."""
    if taken := time_taken(material.runs):
        yield taken
    executions = [run.execution or {} for run in material.runs]
    names = {str(known.get("processor") or known.get("device") or "") for known in executions} - {""}
    if names:
        yield next(iter(names)) if len(names) == 1 else f"{len(names)} kinds of machine"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")

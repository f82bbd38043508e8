"""The answers of a results directory, as sentences for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from headway.base.identity import grouped
from headway.base.text import capital
from headway.base.words import say
from headway.config.metrics import metric_name
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison
from headway.stats.lm.claims import JudgedStatement, Verdict
from headway.stats.lm.verdicts import untested
from headway.stats.results import Results
from headway.stats.verdicts import scope

MANY = 16
"""Verdicts from which on those under a control are left to the report."""


def answer(results: Results) -> Iterator[str]:
    """Yield the contrasts, the verdicts on the primary metric, and the findings on curves and learning rates.

    The sentence that holds for a whole family stands below the family's sentences.
    """
    asked = [each for each in results.contrasts if each.control is None and each.sentence]
    yield from _told(asked, results)
    verdicts = [c for c in results.judged if c.n_pairs]
    shown = [c for c in verdicts if c.control is None] if len(verdicts) > MANY else verdicts
    yield from _told(shown, results)
    if asked and shown:
        yield say("two_families")
    if left := len(verdicts) - len(shown):
        yield say("under_controls", n=left)
    if missing := without_pairs(results):
        yield missing
    for fit in results.fits:
        if fit.sentence and fit.control is None:
            yield f"{fit.sentence} (fit {fit.form})"
    yield from (c.sentence for c in results.plain_curve if c.control is None)
    for rates in results.learning_rates:
        yield rates.sentence
        yield from (c.verdict for c in rates.comparisons if c.changed)
    yield from in_short(results.claims)


def _told(differences: Sequence[Comparison | JudgedContrast], results: Results) -> Iterator[str]:
    """Sentences, and below each family's what holds for all of it."""
    for together in grouped(differences, lambda judged: judged.control).values():
        yield from (judged.sentence for judged in together)
        family = results.family(together[0])
        if family is not None:
            yield scope(family, together)


def without_pairs(results: Results) -> str:
    """Return a sentence on how many comparisons of the primary metric no seed allows yet; empty for none."""
    # Arms that were not chosen have no runs.
    chosen = {run.name for run in results.runs}
    n = sum(c.n_pairs == 0 and {c.arm, c.baseline} <= chosen for c in results.judged)
    return say("no_pairs", n=n) if n else ""


def in_short(statements: Sequence[JudgedStatement]) -> Iterator[str]:
    """Yield sentences: which statements hold, fail or are open, then which change under a variant, and why.

    A metric as published is compared with Headway's own metric, without a control. Under a control, each metric is
    compared with itself without the control, so that the control's effect is not taken for the metric's.

    Args:
        statements: the statements with their verdicts, from `claims`.
    """
    plain = [entry for entry in statements if entry.control is None]
    told = {entry.name: entry for entry in plain if not entry.as_published}
    by_metric = {(entry.name, entry.metric): entry for entry in plain}
    parts = []
    for verdict in get_args(Verdict):
        names = [entry.short for entry in told.values() if entry.verdict == verdict]
        if names:
            parts.append(f"{verdict}: {'; '.join(names)}")
    if parts:
        parts += _why_untold(told)
        verdicts = ". ".join(map(capital, parts))
        yield say("claims", verdicts=verdicts)
    for control in dict.fromkeys(entry.control for entry in statements):
        changed = [
            f"{entry.short} ({entry.verdict}{f' by {metric_name(entry.metric)}' if entry.as_published else ''})"
            for entry in statements
            if entry.control == control and entry.name in told and entry.verdict != "cannot be told"
            if entry.verdict != _held_against(entry, told, by_metric).verdict
        ]
        if changed:
            where = "by the metric as published" if control is None else f"under {control}"
            yield say("changed_claims", where=where, claims="; ".join(changed))


def _why_untold(told: Mapping[str, JudgedStatement]) -> Iterator[str]:
    """Yield a sentence that statements need more seeds, if seeds are all that they lack."""
    few = [entry.arms for entry in told.values() if entry.arms and all(arm.value is None for arm in entry.arms)]
    if few and (why := untested(max(arm.seeds for arms in few for arm in arms))):
        yield say("claims_untested", n=len(few), why=why)


def _held_against(
    entry: JudgedStatement,
    told: Mapping[str, JudgedStatement],
    by_metric: Mapping[tuple[str, str], JudgedStatement],
) -> JudgedStatement:
    own = told[entry.name]
    return own if entry.control is None else by_metric.get((entry.name, entry.metric), own)

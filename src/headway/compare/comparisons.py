"""Compare: every comparison that the runs of a directory allow, with its verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headway.compare.matches import Match, title
from headway.compare.statistics import Comparison, compare, corrected, paired
from headway.compare.verdicts import left_out, shortfall, verdict
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, Metric
from headway.declare.tokens.run import PER_BYTE
from headway.runs.folder import Run

_PER_TOKEN = "nats per token"


def comparisons(matches: Sequence[Match], runs: Sequence[Run], experiment: Experiment) -> Iterator[Comparison]:
    """One comparison per metric with a better direction and match; those of the primary metric come first.

    Nats per token of different tokens are not compared. Bits per byte are the same comparison as those, so they are
    told only where they are the primary metric.
    """
    compared = []
    for metric in sorted(METRICS.values(), key=lambda metric: metric.name != experiment.primary):
        if metric.better is not None and (metric.name != PER_BYTE or experiment.primary == PER_BYTE):
            compared += [
                (match, metric)
                for match in matches
                if _is_measured(match, metric.name, runs) and not (match.other_texts and metric.unit == _PER_TOKEN)
            ]
    tested = corrected(
        compare(
            paired(*(values_of(arm, metric.name, runs) for arm in (match.arm, match.baseline))),
            metric=metric.name,
            arm=match.arm.full_name,
            baseline=match.baseline.full_name,
            control=match.control,
            group=match.group,
        )
        for match, metric in compared
    )
    for (match, metric), comparison in zip(compared, tested, strict=True):
        yield replace(comparison, verdict=_sentence(comparison, match, metric, runs, experiment))


def _sentence(comparison: Comparison, match: Match, metric: Metric, runs: Sequence[Run], experiment: Experiment) -> str:
    arm, baseline = (title(arm, experiment) for arm in (match.arm, match.baseline))
    notes = [
        *left_out(paired(*(values_of(arm, metric.name, runs) for arm in (match.arm, match.baseline))).excluded),
        *shortfall(arm, _statuses(match.arm, runs)),
        *shortfall(baseline, _statuses(match.baseline, runs)),
    ]
    if no_merit := match.no_merit(metric.name):
        metric = metric.model_copy(update={"better": None})
        notes.append(no_merit)
    return verdict(comparison, metric=metric, arm=arm, baseline=baseline, notes=notes)


def _is_measured(match: Match, metric: str, runs: Sequence[Run]) -> bool:
    """Whether both arms measure a metric; one of which no run is done gets the benefit of the doubt, to be listed."""
    if not any(_has(run, metric) for run in runs):
        return False
    per_arm = [done(arm, runs) for arm in (match.arm, match.baseline)]
    return all(not done or any(_has(run, metric) for run in done) for done in per_arm)


def values_of(arm: Arm, metric: str, runs: Sequence[Run]) -> dict[int, float | None]:
    """A final metric of an arm by seed; None where it was not finite."""
    return {run.seed: run.metrics[metric] for run in done(arm, runs) if _has(run, metric)}


def _has(run: Run, metric: str) -> bool:
    """Whether a run ended with a number for a metric (None: one that was not finite); lists are not compared."""
    value = run.metrics.get(metric, ()) if run.status == "done" else ()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def done(arm: Arm, runs: Sequence[Run]) -> list[Run]:
    """The finished runs of an arm."""
    return [run for run in runs if run.name == arm.full_name and run.status == "done"]


def _statuses(arm: Arm, runs: Sequence[Run]) -> list[str]:
    return [run.status for run in runs if run.name == arm.full_name]

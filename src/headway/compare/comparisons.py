"""Compare: every comparison of two arms that the runs of a directory allow, with its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.compare.cells import Cells, RunsOfArm, Weights
from headway.compare.evidence import Comparison, JudgedDifference, JudgedFamily
from headway.compare.families import Asked, judged
from headway.compare.looks import Looking
from headway.compare.matches import Match, title
from headway.compare.notes import left_out, shortfall
from headway.compare.share_verdicts import Solver, share_finding
from headway.compare.statistics import is_finite
from headway.compare.verdicts import verdict
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, Metric
from headway.declare.tokens.run import PER_BYTE
from headway.runs.folder import Run

_PER_TOKEN = "nats per token"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Comparisons, and the families that they were judged in."""

    comparisons: tuple[Comparison, ...]
    families: tuple[JudgedFamily, ...]


def comparisons(matches: Sequence[Match], runs: RunsOfArm, experiment: Experiment, looks: Looking) -> Compared:
    """One comparison per metric with a better direction and match; those of the primary metric come first.

    Nats per token of different tokens are not compared. Bits per byte are the same comparison as those, so they are
    told only where they are the primary metric. What is compared in one metric without a control is a family, and so
    is what is compared under each control: one that is run later is another question, and leaves the answer as it was.
    """
    found: list[Comparison] = []
    families: list[JudgedFamily] = []
    for metric in sorted(METRICS.values(), key=lambda metric: metric.name != experiment.primary):
        if metric.better is None or (metric.name == PER_BYTE and experiment.primary != PER_BYTE):
            continue
        if not _anybody_has(metric.name, runs):
            continue
        measured = [match for match in matches if _is_measured(match, metric.name, runs) and is_compared(match, metric)]
        for control in dict.fromkeys(match.control for match in measured):
            together = [match for match in measured if match.control == control]
            family, said = family_of(together, metric, runs, experiment, looks)
            families.append(family)
            found += said
    return Compared(comparisons=tuple(found), families=tuple(families))


def family_of(
    matches: Sequence[Match], metric: Metric, runs: RunsOfArm, experiment: Experiment, looks: Looking
) -> tuple[JudgedFamily, list[Comparison]]:
    """Some matches, all under one control, judged together in a metric."""
    weights: list[Weights] = [{m.arm.full_name: 1.0, m.baseline.full_name: -1.0} for m in matches]
    cells = Cells.of((name for one in weights for name in one), metric.name, runs)
    asked = Asked(
        of="comparisons", metric=metric.name, control=matches[0].control, differences=weights, cells=cells, runs=runs
    )
    family, evidence = judged(asked, experiment.verdicts, looks)
    return family, [
        Comparison(
            **vars(one),
            arm=match.arm.full_name,
            baseline=match.baseline.full_name,
            group=match.group,
            verdict=_sentence(one, family, match, metric, runs, experiment),
        )
        for match, one in zip(matches, evidence, strict=True)
    ]


def _sentence(
    one: JudgedDifference, family: JudgedFamily, match: Match, metric: Metric, runs: RunsOfArm, experiment: Experiment
) -> str:
    arm, baseline = (title(arm, experiment) for arm in (match.arm, match.baseline))
    notes = [
        *left_out(_not_finite(match, metric.name, runs)),
        *shortfall(arm, _statuses(match.arm, runs)),
        *shortfall(baseline, _statuses(match.baseline, runs)),
    ]
    if family.rule == "shares":
        solvers = (_solver(match.arm, arm), _solver(match.baseline, baseline))
        no_merit = match.no_merit(metric.name)
        said = share_finding(one, *solvers, task=solvers[0].task)
        return "; ".join([said, *notes, *([no_merit] if no_merit else [])])
    if no_merit := match.no_merit(metric.name):
        metric = metric.model_copy(update={"better": None})
        notes.append(no_merit)
    return verdict(one, family, metric=metric, sides=(arm, baseline), notes=notes)


def _solver(arm: Arm, label: str) -> Solver:
    possible = arm.template.best_possible.get("solved")
    return Solver(label=label, possible=None if possible is None else possible > 0, task=arm.template.task.title)


def _not_finite(match: Match, metric: str, runs: RunsOfArm) -> list[int]:
    """The seeds that both have, of which a value is not a finite number."""
    mine, theirs = (values_of(arm, metric, runs) for arm in (match.arm, match.baseline))
    return [s for s in sorted(mine.keys() & theirs.keys()) if not (is_finite(mine[s]) and is_finite(theirs[s]))]


def is_compared(match: Match, metric: Metric) -> bool:
    """Whether a difference in a metric means anything: not nats per token of different tokens."""
    return not (match.other_texts and metric.unit == _PER_TOKEN)


def _is_measured(match: Match, metric: str, runs: RunsOfArm) -> bool:
    """Whether both arms measure a metric; one of which no run is done gets the benefit of the doubt, to be listed."""
    finished = [done(arm, runs) for arm in (match.arm, match.baseline)]
    return all(not of_arm or any(_has(run, metric) for run in of_arm) for of_arm in finished)


def _anybody_has(metric: str, runs: RunsOfArm) -> bool:
    return any(_has(run, metric) for of_arm in runs.values() for run in of_arm.values() if run.status == "done")


def values_of(arm: Arm, metric: str, runs: RunsOfArm) -> dict[int, float | None]:
    """A final metric of an arm by seed; None where it was not finite."""
    return {run.seed: run.metrics[metric] for run in done(arm, runs) if _has(run, metric)}


def _has(run: Run, metric: str) -> bool:
    """Whether a run ended with a number for a metric (None: one that was not finite); lists are not compared."""
    value = run.metrics.get(metric, ()) if run.status == "done" else ()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def done(arm: Arm, runs: RunsOfArm) -> list[Run]:
    """The finished runs of an arm."""
    return [run for run in runs.get(arm.full_name, {}).values() if run.status == "done"]


def _statuses(arm: Arm, runs: RunsOfArm) -> list[str]:
    return [run.status for run in runs.get(arm.full_name, {}).values()]

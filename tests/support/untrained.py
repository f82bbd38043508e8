"""Reports on runs that were never trained and have no folders: final metrics alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from headway.config.experiment import Experiment
from headway.report.experiment.data import ArmResults, Finished, ReportData, arm_styles
from headway.stats.laboratory import References
from headway.stats.results import Results


def untrained(experiment: Experiment, metrics: dict[str, list[dict[str, Any]]], reached: Any = None) -> ReportData:
    """What a report is made of, with these final metrics by arm and seed; arms without any are left out."""
    styles, arms = arm_styles(experiment), []
    for arm in experiment.arms:
        spec, runs = arm.resolved_spec, []
        for seed, found in enumerate(metrics.get(arm.full_name, ())):
            folder = SimpleNamespace(
                name=arm.full_name, control=arm.control, seed=seed, spec=spec, trained=spec, metrics=found,
                steps=arm.resolved_spec.declared_steps or 0, head_steps=list,
            )  # fmt: skip
            runs.append(Finished(run=cast(Any, folder), records=(), curves={}, task="task"))
        if runs:
            arms.append(ArmResults(name=arm.full_name, style=styles[arm.full_name], runs=tuple(runs)))
    results = cast(Results, SimpleNamespace(tasks={"task": References(baselines=reached or {})}, primary="accuracy"))
    return ReportData(path=Path(), experiment=experiment, results=results, runs=(), arms=tuple(arms), timings={})

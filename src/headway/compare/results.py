"""Compare: `results.json`, the whole of a results directory in one derived file.

It is computed from the run folders and written whole, so it can be deleted at any time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headway.compare.laboratory import laboratory_of
from headway.compare.matches import Match, matches_of, title
from headway.compare.rates import at_best_rates
from headway.compare.statistics import Comparison, compare, corrected, paired
from headway.compare.verdicts import execution_warning, left_out, shortfall, verdict
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, Metric
from headway.declare.run import RunSpec
from headway.files import derived, plain, write_json
from headway.identity import digest
from headway.runs.folder import Run
from headway.runs.store import Store

SCHEMA = 1


def write(store: Store) -> Path:
    """Derive `results.json` anew and put it in place of the former one; its path.

    Raises:
        ResultsError: when it cannot be written; the former file is then as it was.
    """
    path = store.path / "results.json"
    with derived(path):
        write_json(path, build(store))
    return path


def build(store: Store) -> dict[str, Any]:
    """The content of `results.json`: plain JSON types, numbers that are not finite as None."""
    experiment, runs = store.experiment, store.runs()
    matches = [match for match in matches_of(experiment) if match.arm.full_name in {run.name for run in runs}]
    further = laboratory_of(experiment.arms[0].template).further
    tasks = _tasks(store.path, [run for run in runs if run.status == "done"])
    comparisons = list(_comparisons(matches, runs, experiment))
    return plain(
        {
            "schema": SCHEMA,
            "experiment": experiment.name,
            "scale": experiment.scale,
            "primary": experiment.primary,
            "runs": [_row(run) for run in runs],
            "baselines": _baselines(experiment, tasks),
            "tasks": tasks,
            "comparisons": [asdict(comparison) for comparison in comparisons],
            "fits": [],
            "plain_curve": [],
            "learning_rates": _learning_rates(experiment, matches, runs, comparisons),
            "associations": [],
            "claims": [],
            **further(experiment, runs, comparisons),
            "warnings": [*_warnings_about_runs(experiment, runs), *_warnings_about_matches(matches, runs, experiment)],
        }
    )


def _row(run: Run) -> dict[str, Any]:
    return {
        "arm": run.arm,
        "control": run.control,
        "group": run.group,
        "seed": run.seed,
        "id": run.id,
        "status": run.status,
        "task": None if run.status == "damaged" else _task_digest(run.spec),
        "metrics": dict(run.metrics) if run.status == "done" else None,
    }


def _comparisons(matches: Sequence[Match], runs: Sequence[Run], experiment: Experiment) -> Iterator[Comparison]:
    """One comparison per metric with a better direction and match; those of a task's primary metric come first."""
    compared = []
    for metric in sorted(METRICS.values(), key=lambda metric: metric.name != experiment.primary):
        if metric.better is not None:
            compared += [(match, metric) for match in matches if _is_measured(match, metric.name, runs)]
    tested = corrected(
        compare(
            paired(*(_values(arm, metric.name, runs) for arm in (match.arm, match.baseline))),
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
        *left_out(paired(*(_values(arm, metric.name, runs) for arm in (match.arm, match.baseline))).excluded),
        *shortfall(arm, _statuses(match.arm, runs)),
        *shortfall(baseline, _statuses(match.baseline, runs)),
    ]
    if match.no_merit:
        metric = metric.model_copy(update={"better": None})
        notes.append(match.no_merit)
    return verdict(comparison, metric=metric, arm=arm, baseline=baseline, notes=notes)


def _learning_rates(
    experiment: Experiment, matches: Sequence[Match], runs: Sequence[Run], comparisons: Sequence[Comparison]
) -> list[dict[str, Any]]:
    metric = METRICS[experiment.primary]
    values = {arm.full_name: _values(arm, metric.name, runs) for arm in experiment.arms}
    plain = [c for c in comparisons if c.metric == metric.name and c.control is None]
    return at_best_rates(experiment, matches, values, metric, plain)


def _is_measured(match: Match, metric: str, runs: Sequence[Run]) -> bool:
    """Whether both arms measure a metric; one of which no run is done gets the benefit of the doubt, to be listed."""
    if not any(_has(run, metric) for run in runs):
        return False
    per_arm = [_done(arm, runs) for arm in (match.arm, match.baseline)]
    return all(not done or any(_has(run, metric) for run in done) for done in per_arm)


def _values(arm: Arm, metric: str, runs: Sequence[Run]) -> dict[int, float | None]:
    return {run.seed: run.metrics[metric] for run in _done(arm, runs) if _has(run, metric)}


def _has(run: Run, metric: str) -> bool:
    """Whether a run ended with a number for a metric (None: one that was not finite); lists are not compared."""
    value = run.metrics.get(metric, ()) if run.status == "done" else ()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _done(arm: Arm, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.name == arm.full_name and run.status == "done"]


def _statuses(arm: Arm, runs: Sequence[Run]) -> list[str]:
    return [run.status for run in runs if run.name == arm.full_name]


def _warnings_about_runs(experiment: Experiment, runs: Sequence[Run]) -> Iterator[str]:
    labels = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
    for run in runs:
        if run.status == "failed":
            yield f"{labels.get(run.name, run.name)}, seed {run.seed} failed: {run.message or 'no reason recorded'}"
        if run.status == "damaged":
            yield f"{labels.get(run.name, run.name)}: a damaged run is left out: {run.message}"
    unfinished = sum(run.status not in ("done", "failed", "damaged") for run in runs)
    if unfinished:
        yield f"{unfinished} of {len(runs)} runs are not finished; `headway run` on this directory finishes them"


def _warnings_about_matches(matches: Sequence[Match], runs: Sequence[Run], experiment: Experiment) -> Iterator[str]:
    names = {run.name for run in runs}
    absent = {m.baseline.full_name: m.baseline.label for m in matches if m.baseline.full_name not in names}
    for name, label in absent.items():
        yield f"{label} ({name}) has no runs here, so nothing is compared with it; run that arm too"
    # Two groups may hold the same two arms; they are warned about once.
    for match in {(m.arm.full_name, m.baseline.full_name): m for m in matches}.values():
        mine, theirs = ({run.seed: run.execution for run in _done(a, runs)} for a in (match.arm, match.baseline))
        common = [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]
        warning = execution_warning(title(match.arm, experiment), title(match.baseline, experiment), common)
        if warning:
            yield warning


def _tasks(directory: Path, runs: Sequence[Run]) -> dict[str, Any]:
    """What needs no training, by task digest."""
    tasks: dict[str, list[Run]] = {}
    for run in runs:
        tasks.setdefault(_task_digest(run.spec), []).append(run)
    return {key: laboratory_of(found[0].spec).references(directory, key, found) for key, found in tasks.items()}


def _task_digest(spec: RunSpec) -> str:
    """Names what a run is judged on."""
    content = spec.content()
    return digest({"task": content["task"], "evaluation": content.get("evaluation", {})})


def _baselines(experiment: Experiment, tasks: Mapping[str, Any]) -> Any:
    """What needs no training, on the baseline arm's task (the first arm's where none is the baseline)."""
    arm = experiment.arms[0] if experiment.baseline is None else experiment.arm(experiment.baseline)
    return tasks.get(_task_digest(arm.spec(0)), {}).get("baselines", {})

"""The value of `results.json`: everything that a results directory says, in one derived file.

It is computed from the run folders and written whole, so it can be deleted at any time. Everything printed and drawn
is made from the value that was written. Only readers from outside, and tests, read the file.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from headway.base.files import derived, parsed, plain, read_bytes, write_changed_json
from headway.base.identity import digest, grouped, signed
from headway.base.text import command_line
from headway.base.words import Warning
from headway.config.experiment import Experiment
from headway.config.run import RunSpec
from headway.errors import ResultsError
from headway.stats.case import Case
from headway.stats.cells import labels_of, matches_of, runs_of_arms
from headway.stats.contrasts import JudgedContrast, comparisons, contrasts_judged
from headway.stats.evidence import Comparison, Difference, Family, family_of
from headway.stats.laboratory import References, findings_part_of
from headway.stats.learning_rates import RatesOfArm, at_best_rates
from headway.stats.lm.claims import JudgedStatement
from headway.stats.lm.diversity import LayerAssociation
from headway.stats.lm.plain_curve import SizeComparison
from headway.stats.lm.scaling import Fit
from headway.stats.sequential import looks_of
from headway.stats.verdict_table import VerdictTable, html_text, verdict_table
from headway.stats.warnings import warned, warnings_in_words, with_doubts
from headway.store import document
from headway.store.directory import Store
from headway.store.growth import turn
from headway.store.look_plans import Seen, keep, runs_seen, seen
from headway.store.look_plans import settle as settle_looks
from headway.store.run import Run

SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The end of a run; `metrics` are its final ones, None if it is not done.

    `task` names the task of its evaluation, one of the keys of `Results.tasks`.
    """

    arm: str
    control: str | None
    group: str | None
    seed: int
    id: str
    status: str
    task: str | None = None
    metrics: Mapping[str, JsonValue] | None

    @property
    def name(self) -> str:
        """The full name of its arm."""
        return f"{self.arm}+{self.control}" if self.control else self.arm


@dataclass(frozen=True, kw_only=True)
class Results:
    """The content of a results directory, as `results.json` holds it.

    Law: `Results.from_json(results.to_json()) == results`.

    Attributes:
        schema: the schema of the file.
        experiment: the name of the experiment.
        scale: the scale at which the experiment was resolved.
        primary: the metric by which arms are compared.
        runs: every run, done or not.
        baselines: metrics of predictors without training on the baseline arm's task, by name and metric.
        tasks: metrics of predictors without training on every task, by the task's digest.
        contrasts: the document's contrasts of several arms in the primary metric, again under each control.
        comparisons: arms against their baselines, those of the primary metric first.
        families: the shared values of contrasts and comparisons that were judged together; contrasts come first.
        fits: curves of loss against heads.
        plain_curve: models against plain models of their size.
        learning_rates: arms with runs at several learning rates.
        associations: the share of the loss that the diversity of a layer's heads explains.
        claims: published statements on heads, with verdicts.
        cautions: the warnings to read before any result is believed.
        warnings: the sentences of `cautions`.
        doubts: the sentences of `cautions` that may make answers worth nothing.
        labels: the labels of arms in tables and figures, by full name.
        notes: the reading of a judged table, in sentences; empty for a results directory.
    """

    schema: int
    experiment: str
    scale: str | None
    primary: str
    runs: tuple[RunResult, ...]
    baselines: Mapping[str, Mapping[str, float | None]]
    tasks: Mapping[str, References]
    comparisons: tuple[Comparison, ...]
    contrasts: tuple[JudgedContrast, ...] = ()
    families: tuple[Family, ...] = ()
    fits: tuple[Fit, ...] = ()
    plain_curve: tuple[SizeComparison, ...] = ()
    learning_rates: tuple[RatesOfArm, ...] = ()
    associations: tuple[LayerAssociation, ...] = ()
    claims: tuple[JudgedStatement, ...] = ()
    cautions: tuple[Warning, ...] = ()
    warnings: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[Comparison, ...]:
        """The comparisons of the primary metric."""
        return tuple(comparison for comparison in self.comparisons if comparison.metric == self.primary)

    def by_seed(self, arm: str) -> dict[int, float]:
        """Return the primary metric of the runs of an arm that have it as a number, by seed."""
        values = {run.seed: (run.metrics or {}).get(self.primary) for run in self.runs if run.name == arm}
        return {seed: float(value) for seed, value in values.items() if isinstance(value, int | float)}

    @property
    def verdicts(self) -> VerdictTable:
        """The table of contrasts and comparisons of the primary metric, as far as they have a pair of seeds."""
        contrasts = [contrast for contrast in self.contrasts if contrast.sentence and contrast.n_pairs]
        compared = [comparison for comparison in self.judged if comparison.n_pairs]
        return verdict_table([*contrasts, *compared], self.families, self.labels, self.primary)

    def _repr_html_(self) -> str:
        """Return the verdicts and the warnings for a notebook."""
        table = self.verdicts
        shown = table.to_html() if table.rows else "<p>No comparison has a pair of finished seeds yet.</p>"
        warnings = "".join(f"<li>{html_text(warning)}</li>" for warning in self.warnings)
        listed_warnings = f"<ul>{warnings}</ul>" if warnings else ""
        return f"<p><b>{html_text(self.experiment)}</b></p>{shown}{listed_warnings}"

    def family(self, judged: Difference) -> Family | None:
        """Return the family in which a comparison or a contrast was judged, or None if the file lacks it."""
        return family_of(judged, self.families)

    def to_json(self) -> dict[str, Any]:
        """The content of `results.json`: plain JSON types, numbers that are not finite as None."""
        content: dict[str, Any] = plain(self)
        return {**content, "tasks": {key: task.to_json() for key, task in self.tasks.items()}}

    @classmethod
    def from_json(cls, content: Any) -> "Results":
        """The results that a file holds.

        Raises:
            ResultsError: if the schema is another one, or a value is missing or has the wrong type.
        """
        schema = content.get("schema") if isinstance(content, Mapping) else None
        if schema != SCHEMA:
            raise ResultsError(f"it has schema {schema!r}, and this version of Headway reads {SCHEMA}")
        try:
            return _adapter().validate_python(content)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
            where = ".".join(map(str, errors[0]["loc"]))
            more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
            raise ResultsError(f"{where}: {errors[0]['msg']}{more}") from None


def read(path: Path) -> Results:
    """Return the results of a directory as they were last written.

    Raises:
        ResultsError: when there are none, or they are damaged or of another schema.
    """
    file = path / "results.json"
    try:
        return Results.from_json(parsed(read_bytes(file)))
    except FileNotFoundError:
        raise ResultsError(f"{file}: not there yet; `headway compare {path}` writes it") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{file}: cannot be read ({error}); `headway compare {path}` writes it again") from None


def write(store: Store, out: Path | None = None) -> Results:
    """Derive `results.json` again, replace the previous file if its content differs, and return the content.

    Args:
        store: the results directory.
        out: the folder of the file; None: the directory itself. A directory that cannot be written then keeps no note
            that verdicts were seen.

    Raises:
        ResultsError: when it cannot be written; the former file is then as it was.
    """
    path, can_write = (out or store.path) / "results.json", os.access(store.path, os.W_OK)
    content, note = _content(store)
    results = Results.from_json(content)
    if out is None and not can_write:
        todo = f"`{command_line('report', store.path, out='FOLDER')}` writes to another folder"
        raise ResultsError(f"{path} cannot be written: no permission, or a read-only disk; {todo}")
    with derived(path):
        write_changed_json(path, signed(content))
    if note is not None and can_write:
        keep(store.path, f"seen-{note.n_seeds}", note)
    note_what_is_there(store)
    return results


def note_what_is_there(store: Store) -> None:
    """Finish what a killed process began in `looks/`, and name new timings in the document, if it can be written."""
    if not os.access(store.path, os.W_OK):
        return
    with suppress(OSError):
        settle_looks(store.path)
    if document.lacks_timings(store.path):
        with turn(store.path):
            document.note_timings(store.path)


def build(store: Store) -> Results:
    """Return the current results of a directory as a reader of the file sees them: non-finite numbers are None."""
    return Results.from_json(_content(store)[0])


def _content(store: Store) -> tuple[dict[str, Any], Seen | None]:
    """Return the content of `results.json` now, and the note of its verdicts if there is no plan."""
    experiment, runs = store.compared, store.runs()
    looks = looks_of(store)
    of_arms = runs_of_arms(runs)
    matches = [match for match in matches_of(experiment) if match.arm.full_name in of_arms]
    task_of = _task_digests(runs)
    tasks = _tasks(store.path, [run for run in runs if run.status == "done"], task_of)
    compared, of_compared = comparisons(matches, of_arms, experiment, looks)
    contrasts, of_contrasts = contrasts_judged(experiment, of_arms, looks)
    extra = findings_part_of(experiment.arms[0].resolved_spec).extra(experiment, runs, compared)
    families = of_contrasts + of_compared
    rates = tuple(at_best_rates(experiment, matches, of_arms, compared, looks))
    case = Case(  # what warnings and doubts are read from: comparisons and contrasts are judged already
        path=store.path,
        seen=seen(store.path),
        runs_seen=runs_seen(store.path),
        experiment=experiment,
        runs=of_arms,
        matches=matches,
        looks=looks,
        contrasts=contrasts,
        comparisons=compared,
        families=families,
        rates=rates,
    )
    results = Results(
        schema=SCHEMA,
        experiment=experiment.name,
        scale=experiment.scale,
        primary=experiment.primary,
        runs=tuple(_row(run, task_of) for run in runs),
        baselines=_baselines(experiment, tasks),
        tasks=tasks,
        comparisons=with_doubts(compared, case),
        contrasts=with_doubts(contrasts, case),
        families=families,
        **vars(extra),
        learning_rates=rates,
        **warnings_in_words(warned(case)),
        labels=labels_of(experiment),
    )
    note = None if case.now is None else Seen(n_seeds=case.now, runs=case.runs_now)
    return results.to_json(), note


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Results]:
    return TypeAdapter(Results)


def _row(run: Run, task_of: Mapping[str, str]) -> RunResult:
    return RunResult(
        arm=run.arm,
        control=run.control,
        group=run.group,
        seed=run.seed,
        id=run.id,
        status=run.status,
        task=None if run.status == "damaged" else task_of[run.name],
        metrics=dict(run.metrics) if run.status == "done" else None,
    )


def _task_digests(runs: Sequence[Run]) -> dict[str, str]:
    """Return the digest of each arm's task; runs of an arm differ in their seeds alone, so one run tells it."""
    one_of = {run.name: run for run in runs if run.status != "damaged"}
    return {name: _task_digest(run.spec) for name, run in one_of.items()}


def _tasks(directory: Path, runs: Sequence[Run], task_of: Mapping[str, str]) -> dict[str, References]:
    """Return the metrics without training, by task digest."""
    tasks = grouped(runs, lambda run: task_of[run.name])
    return {key: findings_part_of(done[0].spec).references(directory, key, done) for key, done in tasks.items()}


def task_and_evaluation(spec: RunSpec) -> dict[str, Any]:
    """Return the task and the evaluation of a run."""
    content = spec.content()
    return {"task": content["task"], "evaluation": content.get("evaluation", {})}


def _task_digest(spec: RunSpec) -> str:
    """Return a digest that identifies the task on which a run is evaluated."""
    return digest(task_and_evaluation(spec))


def _baselines(experiment: Experiment, tasks: Mapping[str, References]) -> Mapping[str, Mapping[str, float | None]]:
    """Return the metrics without training on the baseline arm's task (without a baseline, on the first arm's)."""
    arm = experiment.arms[0] if experiment.baseline is None else experiment.arm(experiment.baseline)
    task = tasks.get(_task_digest(arm.spec(0)))
    return {} if task is None else task.baselines

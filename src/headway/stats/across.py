"""Comparison of the arms of two results directories that have one task, one text and one evaluation.

Each arm of the second directory is compared with the arm of its name in the first. An arm whose name the first
directory lacks is compared with the baseline there. Runs are paired by seed, and all comparisons are judged as one
family.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headway.base.text import counted, join, listed, with_numbers
from headway.base.words import Warning, warning
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.yaml import differing, leaves
from headway.errors import ResultsError
from headway.stats.case import Case
from headway.stats.cells import Match, RunsOfArm, done, labels_of, runs_of_arms
from headway.stats.contrasts import comparisons
from headway.stats.results import SCHEMA, Results, task_and_evaluation
from headway.stats.sequential import Looking
from headway.stats.warnings import warned, warnings_in_words, with_doubts
from headway.store.directory import Store
from headway.store.run import Run
from headway.store.verify import directory_warnings

_MOST_KEYS = 4
"""Keys that a sentence names, of many that differ."""


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A directory whose arms have its name in theirs, with their runs."""

    name: str
    store: Store
    arms: Mapping[str, Arm]
    """The renamed arms by their former full names."""
    runs: RunsOfArm
    """The runs by the new full names."""

    @classmethod
    def of(cls, store: Store, name: str) -> "_Side":
        runs = runs_of_arms(store.runs())
        arms = {
            arm.full_name: replace(arm, name=f"{arm.name} ({name})", label=f"{arm.label} ({name})", parent=None)
            for arm in store.experiment.arms
            if arm.full_name in runs and not arm.is_no_op
        }
        renamed = {
            arm.full_name: {seed: replace(run, arm=arm.name) for seed, run in runs[former].items()}
            for former, arm in arms.items()
        }
        return cls(name=name, store=store, arms=arms, runs=renamed)

    @property
    def baseline(self) -> Arm | None:
        """The arm that arms without a namesake are compared with."""
        plain = [arm for arm in self.arms.values() if arm.control is None]
        return self.arms.get(self.store.compared.baseline or "", plain[0] if plain else None)

    def finished(self, arm: Arm) -> dict[int, Run]:
        """Return the finished runs of an arm by seed."""
        return {run.seed: run for run in done(arm, self.runs)}


def compare_directories(first: Store, second: Store) -> Results:
    """Compare the arms of a directory with those of another one, which are the baselines; nothing is written.

    Args:
        first: the directory of the baselines.
        second: the directory whose arms are compared with them.

    Raises:
        ResultsError: when nothing can be compared: another task, text or evaluation, or no common seed.
    """
    if first.path.resolve() == second.path.resolve():
        raise ResultsError(f"{first.path} and {second.path} are one directory; `headway compare {first.path}` reads it")
    here, there = (_Side.of(store, name) for store, name in zip((first, second), _names(first, second), strict=True))
    matches, notes = _matches(here, there)
    if not matches:
        why = join(*(note.sentence for note in notes))
        raise ResultsError(f"{first.path} and {second.path} cannot be compared: {why or 'one of them has no runs'}")
    experiment = _merged(first.experiment, second.experiment, matches)
    runs = {**here.runs, **there.runs}
    looks = Looking(margin=experiment.margin)
    compared, families = comparisons(matches, runs, experiment, looks)
    case = Case(
        experiment=experiment,
        runs={arm.full_name: runs[arm.full_name] for arm in experiment.arms},
        path=first.path,
        matches=matches,
        looks=looks,
        comparisons=compared,
        families=families,
    )
    own = [*notes, *(warning("directory", text=sentence) for sentence in directory_warnings(second.path))]
    return Results(
        schema=SCHEMA,
        experiment=f"{here.name} and {there.name}",
        scale=None,
        primary=experiment.primary,
        runs=(),
        baselines={},
        tasks={},
        comparisons=with_doubts(compared, case),
        families=families,
        **warnings_in_words((*own, *warned(case))),
        labels=labels_of(experiment),
    )


def _names(first: Store, second: Store) -> tuple[str, str]:
    """Return short names of two directories that differ."""
    names = (first.path.resolve().name, second.path.resolve().name)
    return names if names[0] != names[1] else (str(first.path), str(second.path))


def _matches(here: _Side, there: _Side) -> tuple[list[Match], list[Warning]]:
    """Return the pairs of arms that can be compared, and a warning for each pair that cannot."""
    matches, notes = list[Match](), list[Warning]()
    for former, arm in there.arms.items():
        baseline = here.arms.get(former)
        if baseline is None:
            baseline = here.baseline if arm.control is None else None
        if baseline is None:
            notes.append(warning("no_such_arm", directory=here.name, arm=former))
            continue
        mine, theirs = there.finished(arm), here.finished(baseline)
        if unpaired := _unpaired(mine, theirs, arm, baseline):
            notes.append(unpaired)
            continue
        run, other = mine[min(mine)], theirs[min(theirs)]
        if keys := _differences(run, other):
            notes.append(warning("unlike_arms", arm=arm.full_name, baseline=baseline.full_name, keys=keys))
            continue
        if run.id == arm.spec(run.seed).id == baseline.spec(run.seed).id:
            notes.append(warning("same_run", arm=former))
        # The same text under another path is one task.
        same_task = arm.resolved_spec.model_copy(update={"task": baseline.resolved_spec.task})
        matches.append(
            Match(arm=replace(arm, resolved_spec=same_task), baseline=baseline, control=arm.control, group=None)
        )
    return matches, notes


def _unpaired(mine: Mapping[int, Run], theirs: Mapping[int, Run], arm: Arm, baseline: Arm) -> Warning | None:
    """Return the warning that two arms have no pair of runs; None if they have one."""
    for side, runs in ((arm, mine), (baseline, theirs)):
        if not runs:
            return warning("unfinished_arm", arm=side.full_name)
    if mine.keys() & theirs.keys():
        return None
    seeds, others = (with_numbers("seed", runs) for runs in (mine, theirs))
    return warning("unshared_seeds", arm=arm.full_name, seeds=seeds, baseline=baseline.full_name, others=others)


def _differences(run: Run, other: Run) -> str:
    """Return the keys of task and evaluation in which two runs differ, with both values; empty for none."""
    texts = [each.execution.get("corpus") for each in (run, other)]
    mine, theirs = (leaves(task_and_evaluation(each.spec)) for each in (run, other))
    if texts[0] is not None and texts[0] == texts[1]:
        for key in ("task.corpus", "task.validation"):  # paths; the digest of their tokens is the same
            mine.pop(key, None)
            theirs.pop(key, None)
    changed = differing(mine, theirs)
    if not changed:
        return "" if texts[0] == texts[1] else "the content of their text"
    named = [f"{key} ({mine.get(key, 'default')} and {theirs.get(key, 'default')})" for key in changed]
    if named[_MOST_KEYS:]:
        more = counted(len(named) - _MOST_KEYS, "other key")
        named = [*named[:_MOST_KEYS], more]
    return listed(named)


def _merged(first: Experiment, second: Experiment, matches: list[Match]) -> Experiment:
    """Return the first directory's experiment with the arms that are compared, and no other question."""
    arms = {arm.full_name: arm for match in matches for arm in (match.baseline, match.arm)}
    document = first.document.model_copy(
        update={
            "arms": {arm.name: {} for arm in arms.values()},
            "controls": {**second.document.controls, **first.document.controls},
            "baseline": None,
            "groups": {},
            "contrasts": {},
        }
    )
    return replace(first, document=document, arms=tuple(arms.values()), selected=tuple(arms.values()))

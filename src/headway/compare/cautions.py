"""Compare: what to know before a comparison is believed: runs without a result, and pairs that were not run alike."""

from collections.abc import Iterator, Sequence

from headway.compare.cells import RunsOfArm
from headway.compare.comparisons import done
from headway.compare.matches import Match, title
from headway.compare.notes import execution_warning
from headway.declare.experiment import Experiment
from headway.words import listed


def cautions(experiment: Experiment, matches: Sequence[Match], runs: RunsOfArm) -> Iterator[str]:
    """A sentence for each."""
    yield from _about_runs(experiment, runs)
    yield from _about_matches(matches, runs, experiment)


def _about_runs(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    labels = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
    every = [run for of_arm in runs.values() for run in of_arm.values()]
    for run in every:
        if run.status == "failed":
            yield f"{labels.get(run.name, run.name)}, seed {run.seed} failed: {run.message or 'no reason recorded'}"
        if run.status == "damaged":
            yield f"{labels.get(run.name, run.name)}: a damaged run is left out: {run.message}"
    unfinished = sum(run.status not in ("done", "failed", "damaged") for run in every)
    if unfinished:
        yield f"{unfinished} of {len(every)} runs are not finished; `headway run` on this directory finishes them"


def _about_matches(matches: Sequence[Match], runs: RunsOfArm, experiment: Experiment) -> Iterator[str]:
    absent = {m.baseline.full_name: m.baseline.label for m in matches if m.baseline.full_name not in runs}
    if absent:
        named, one = listed(f"{label} ({name})" for name, label in absent.items()), len(absent) == 1
        yield (
            f"{named} {'has' if one else 'have'} no runs here, so nothing is compared with {'it' if one else 'them'}; "
            f"run {'that arm' if one else 'those arms'} too"
        )
    # Two groups may hold the same two arms; they are warned about once.
    for match in {(m.arm.full_name, m.baseline.full_name): m for m in matches}.values():
        mine, theirs = ({run.seed: run.execution for run in done(a, runs)} for a in (match.arm, match.baseline))
        common = [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]
        warning = execution_warning(title(match.arm, experiment), title(match.baseline, experiment), common)
        if warning:
            yield warning

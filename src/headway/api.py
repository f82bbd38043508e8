"""Headway from Python: `headway.run`, `headway.open`, and the pages of finished runs.

`finish` writes the results, the page of `headway look` and the report of runs that are done.
"""

import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from headway.base.files import is_up_to_date
from headway.base.text import command_line, counted, listed, printable
from headway.base.torch_setup import share_cores
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.load import load
from headway.errors import HeadwayError, RunFailed, StorageFailed, UserError, near
from headway.store.batches import Making, check_and_prepare, check_batches, checked_together
from headway.store.directory import Store, asked_in, is_directory
from headway.store.document import compared_arms, runs_of
from headway.store.records import run_folders
from headway.store.run import Run
from headway.store.storage import stored
from headway.train.loop import TrainerChoice, training_part_of

if TYPE_CHECKING:
    from headway.adaptive.until import Until
    from headway.execute.queue import Snapshot
    from headway.execute.sweep import ExecutionOptions, Executors
    from headway.heads.results import ModelView
    from headway.report.models.look import LookPage
    from headway.stats.results import Results
    from headway.store.environment import Slot


LOOK = "look.html"
"""The page of `headway look` on a results directory, beside the report."""
LARGEST_MB = 10
"""The default limit of the page of `headway look`, in megabytes."""


Tell = Callable[[str], object]
"""A function that is given messages about the current step."""


class ResultsDirectory(Store):
    """A results directory with its verdicts, as `headway.run` and `headway.open` return it."""

    def results(self) -> "Results":
        """Compare the arms as they are now; nothing is written."""
        from headway.stats.results import build

        return build(self)

    def _repr_html_(self) -> str:
        """Return how far the runs are, and the verdicts, for a notebook."""
        from headway.stats.verdict_table import html_text

        results = self.results()
        statuses = Counter(run.status for run in results.runs)
        counts = ", ".join(f"{n} {status}" for status, n in statuses.items()) or "no runs"
        return f"<p>{html_text(str(self.path))}: {counts}</p>{results._repr_html_()}"


def finish(
    store: Store,
    *,
    figures: bool = True,
    look: bool | None = None,
    out: Path | None = None,
    tell: Tell = lambda _: None,
) -> "Results":
    """Derive results.json, the report and its figures (as files if wanted), and return the results.

    Args:
        store: the results directory.
        figures: True to write the figures as files.
        look: True to write look.html, if language models are finished; None: if `figures` is True.
        out: the folder of all of them; None: the directory itself.
        tell: the function that is given messages about long steps, and about failures.

    Raises:
        KeyboardInterrupt: when a page was left out by Ctrl-C; `tell` was given which, and what makes it.
    """
    from headway.stats.results import write

    results = write(store, out)
    _show(store, results, figures=figures, look=look, out=out, tell=tell, anew=True)
    return results


def _show(
    store: Store,
    results: "Results",
    *,
    figures: bool,
    look: bool | None,
    out: Path | None = None,
    tell: Tell,
    anew: bool = False,
    time: Callable[[], object] | None = None,
) -> None:
    """Time the arms, if that is wanted, and write the pages of results that are told already.

    `anew` is as in `write_report`. Ctrl-C leaves out what is being made, and the next thing begins.
    """
    from headway.report.charts.page import why_not_drawn
    from headway.report.experiment.page import write_report
    from headway.stats.results import note_what_is_there

    missing = list[str]()
    if time is not None:
        with _left_out_on_interrupt("the timing of arms", missing):
            time()
        note_what_is_there(store)
    if figures if look is None else look:
        with _left_out_on_interrupt(LOOK, missing):
            look_beside(store, tell, out)
    with _left_out_on_interrupt("report.html", missing):
        follow = partial(_paced, what="drawing figures", tell=tell)
        write_report(store, results, files=figures, anew=anew, out=out, follow=follow)
    if why := why_not_drawn():
        tell(f"warning: {why}")
    if missing:
        verb = "run" if "the timing of arms" in missing else "report"
        again = command_line(verb, store.path, out=None if verb == "run" else out)
        tell(f"left out: {listed(missing)}; the answer is in results.json, and `{again}` writes the missing parts")
        raise KeyboardInterrupt


@contextmanager
def _left_out_on_interrupt(what: str, missing: list[str]) -> Iterator[None]:
    """Note what Ctrl-C ended in the block, instead of ending everything."""
    try:
        yield
    except KeyboardInterrupt:
        missing.append(what)


_TOLD_EVERY_S = 5.0

Item = TypeVar("Item")


def _paced(items: Sequence[Item], *, what: str, tell: Tell) -> Iterator[Item]:
    """Yield items, and tell now and then how many are done."""
    told_s = monotonic()
    for place, item in enumerate(items):
        if place and monotonic() - told_s >= _TOLD_EVERY_S:
            tell(f"{what}: {place} of {len(items)} done")
            told_s = monotonic()
        yield item


def look_beside(store: Store, tell: Tell, out: Path | None = None) -> None:
    """Write look.html as `headway look` on the directory does, unless it is at least as new as the runs that it shows.

    The page stands in the directory, or in another folder `out`. It is left alone while runs are worked on. Obstacles
    are reported, and fail nothing.

    Raises:
        KeyboardInterrupt: on Ctrl-C; the former page is then as it was.
    """
    path, runs = (out or store.path) / LOOK, final_runs(store)
    if not runs or is_up_to_date(path, [run.path / "run.json" for run in runs]):
        return
    tell(f"looking at the heads of {counted(len(runs), 'finished model')}, for {path.name} (Ctrl-C leaves it out) ...")
    try:
        write_look(store, runs, tell, out)
    except StorageFailed:
        raise  # the report could not be written either
    except Exception as error:  # noqa: BLE001 - a report does without it, whatever happened
        tell(f"note: {path.name} was not written: {_why(error)}")


def final_runs(store: Store) -> list[Run]:
    """Return the runs that `headway look` opens from a directory, if they have a text; none while any is running."""
    from headway.analysis.inputs import brings_text

    if not any(brings_text(arm.resolved_spec) for arm in store.experiment.arms):
        return []
    runs = store.runs(depth="sizes")
    if any(run.status == "running" for run in runs):
        return []
    from headway.analysis.look import first_of_arms

    return [run for run in first_of_arms(runs) if brings_text(run.spec)]


def write_look(store: Store, runs: Sequence[Run], tell: Tell, out: Path | None = None) -> Path:
    """Measure the heads of runs and write their page to the directory or to `out`.

    Raises:
        HeadwayError: when none of them can be looked at, or the page cannot be written.
    """
    from headway.analysis.look import check_number, look

    share_cores()
    check_number([run.path for run in runs])
    found = []
    for run in _paced(runs, what="looking at heads", tell=tell):
        try:
            found.append(look(run.path, largest=LARGEST_MB * 1_000_000 // len(runs)))
        except Exception as error:  # noqa: BLE001 - the others are there all the same
            tell(f"note: {run.path.parent.name} is not on {LOOK}: {_why(error)}")
    if not found:
        raise HeadwayError("no run has heads that this page can show")
    page = look_page_of(found, store.path, command_line("look", store.path), largest=LARGEST_MB * 1_000_000)
    return page.write((out or store.path) / LOOK)


def look_page_of(views: "Sequence[ModelView]", models: Path, command: str, **options: Any) -> "LookPage":
    """The page of several models of a results directory, by the labels of their arms; or of one."""
    from headway.report.models.look import look_page

    if len(views) == 1:
        return look_page(views, command, **options)
    from headway.stats.cells import labels_of

    labels, shown = labels_of(Store.open(models).experiment), []
    for view in views:
        assert view.run is not None  # since it is one of the directory's
        run = Run.open(view.run)
        shown.append(replace(view, name=f"{labels.get(run.name, run.name)}, seed {run.seed}"))
    return look_page(shown, command, title=models.resolve().name, **options)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"


def run(
    experiment: Experiment | str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    until: str | None = None,
    at_most: int | None = None,
    workers: int | None = None,
    trainer: TrainerChoice = "auto",
    together: str | int = "auto",
    device: str = "auto",
    runs_per_gpu: int = 1,
    ray: str | None = None,
    timing: bool | None = None,
    figures: bool = True,
    look: bool | None = None,
    progress: bool | None = None,
    trust_code: bool = False,
) -> ResultsDirectory:
    """Train the missing runs of an experiment, compare the arms and write the report; return the results directory.

    Every run is a process of its own. A run that fails is recorded with its reason and stops no other.

    Args:
        experiment: a value from `headway.load`, a name or path, or the content of an experiment's file as a mapping; or
            a results directory, whose own experiment is resumed there with its runs.
        out: the results directory; `results/NAME-SCALE` by default.
        seeds: the number of seeds (0 to N - 1), or the seeds; None: those of the experiment.
        until: the difference that matters, such as `0.5%`, instead of a number of seeds. Interim analyses then add
            seeds until every comparison has an answer, or the plan ends.
        at_most: the number of seeds at which this plan ends; None: 12.
        workers: the number of runs at a time; None: one for each core.
        trainer: `fused` (native code) or `torch`; `auto` takes native code for runs that it can train.
        together: runs of one shape in a batch, which is trained as one program: `auto`, or a number. It holds
            for new runs; existing runs keep their batches.
        device: `auto` (GPUs where there are any), `cpu`, `cuda` or `cuda:N`.
        runs_per_gpu: the number of runs that share a GPU; a small run leaves most of a GPU idle.
        ray: a Ray cluster to work on: `auto` for the cluster of this machine, or an address. Its nodes must see `out`.
        timing: True to time each arm of language models alone in the end, for figures of time against heads; None: if
            timing takes little of the training time.
        figures: True to write the figures as files beside the report, too.
        look: True to write look.html, the page of language models' heads, too; None: if `figures` is True.
        progress: True to show progress; None: in a terminal or a notebook.
        trust_code: True to run training commands of a directory that somebody else made.

    Raises:
        UserError: when the directory holds something else, or a corpus cannot be used.
        StorageFailed: when its disk is full or fails; a repeated call resumes where this one ended.

    Examples:
        >>> import headway, tempfile
        >>> small = headway.load("icl-heads", settings=["training.steps=50", "evaluation.prompts=100",
        ...     "evaluation.curve=null"]).select(arms=["h1", "h2"])
        >>> results = headway.run(small, tempfile.mkdtemp() + "/small", seeds=1)
        >>> [(run.arm, run.seed, run.status) for run in results.runs()]
        [('h1', 0, 'done'), ('h2', 0, 'done')]
    """
    if trainer not in get_args(TrainerChoice):
        raise UserError(f"trainer {trainer!r} was given; {near(str(trainer), get_args(TrainerChoice))}")
    from headway.adaptive.until import goal_of
    from headway.execute.sweep import ExecutionOptions
    from headway.report.progress import can_be_shown, watch

    where = ExecutionOptions(
        workers=workers,
        trainer=trainer,
        together=together,
        device=device,
        runs_per_gpu=runs_per_gpu,
        ray=ray,
        trust_code=trust_code,
    )
    goal = goal_of(until=until, at_most=at_most, seeds=seeds)
    if is_directory(experiment):
        chosen, out = asked_in(Path(experiment), changed=["out"] if out is not None else ()), Path(experiment)
    else:
        chosen = experiment if isinstance(experiment, Experiment) else load(experiment)
    shown = can_be_shown() if progress is None else progress
    store, _, _ = carry_out(
        chosen if seeds is None else chosen.select(seeds=seeds),
        None if out is None else Path(out),
        where=where,
        timing=timing,
        figures=figures,
        look=look,
        goal=goal,
        warn=partial(warnings.warn, category=RuntimeWarning, stacklevel=3),
        tell=(lambda said: print(printable(said), file=sys.stderr)) if shown else lambda _: None,
        watch=watch if shown else partial(deque, maxlen=0),  # the latter runs them to their end, and looks at nothing
    )
    unfinished = [f"{r.name} seed {r.seed} ({r.message})" for r in store.runs() if r.status != "done"]
    if unfinished:
        warnings.warn(f"runs without a result: {'; '.join(unfinished)}", RuntimeWarning, stacklevel=2)
    return ResultsDirectory(store.path, store.experiment)


def open(out: str | Path, *, plugins: Iterable[str | Path] = ()) -> ResultsDirectory:
    """Open a results directory.

    Args:
        out: the directory.
        plugins: plugins to run: files that the directory keeps and others wrote, or files of figures.

    Raises:
        ResultsError: if it is not a results directory, or needs plugins that `plugins` does not name.

    Examples:
        >>> import headway
        >>> headway.open("nowhere")
        Traceback (most recent call last):
        headway.errors.ResultsError: nowhere is not a results directory of Headway: there is no such directory; `headway run` makes one
    """  # noqa: E501 - the doctest's error stands on one line
    return ResultsDirectory.open(out, plugins)


def compare(first: str | Path | Store, second: str | Path | Store) -> "Results":
    """Compare the arms of a results directory with those of another one, which has the same task, data and evaluation.

    Each arm of `second` is compared with the arm of its name in `first`, or else with the baseline there. Runs are
    paired by seed. Nothing is written.

    Args:
        first: the directory of the baselines.
        second: the directory whose arms are compared with them.

    Raises:
        ResultsError: when nothing can be compared, with what differs.
    """
    from headway.stats.across import compare_directories

    stores = [given if isinstance(given, Store) else ResultsDirectory.open(given) for given in (first, second)]
    return compare_directories(*stores)


def carry_out(
    experiment: Experiment,
    out: Path | None,
    *,
    where: "ExecutionOptions",
    timing: bool | None,
    figures: bool,
    look: bool | None = None,
    goal: "Until | None",
    warn: Callable[[str], None],
    tell: Callable[[str], None],
    watch: Callable[["Generator[Snapshot]"], object],
    show: Callable[[Store, "Results"], object] = lambda _store, _results: None,
) -> tuple[Store, tuple[Run, ...], "Results"]:
    """Carry out an experiment to its report; return the directory, the runs asked for, and the results.

    Args:
        experiment: the experiment, with its selected arms and seeds.
        out: the results directory; None: its default place.
        where: the places where runs are trained.
        timing: True to time each arm alone, as in `run`.
        figures: True to write the figures as files, as in `run`.
        look: True to write look.html, as in `run`.
        goal: the goal for which seeds are added, instead of the requested seeds; None: no seeds are added.
        warn: the function that is given warnings.
        tell: the function that is given messages about the current step.
        watch: the function that is given the runs while they are trained, and follows them to their end.
        show: the function that is given the directory and the answer as soon as it is known, before timing and drawing.

    Raises:
        UserError: if `run` would raise it.
        KeyboardInterrupt: when timing or a page was left out by Ctrl-C; the answer was shown before.
        StorageFailed: if `run` would raise it.
    """
    from headway.execute.timing import time_arms
    from headway.stats.results import write

    path = out or experiment.directory
    experiment = as_compared(experiment, path)
    where.trusting(experiment).check_trusted(path, experiment.selected)
    uses_gpu = any(arm.resolved_spec.traits.uses_gpu for arm in experiment.selected)
    here = where.here(runs=len(experiment.runs), uses_gpu=uses_gpu)
    for warning in (*experiment.ignored_settings, *fallbacks(experiment, where.trainer)):
        warn(warning)
    for said in filter(None, (*experiment.no_op_controls, experiment.control_runs_note)):
        tell(said)
    for said in about_comparisons(experiment, path, adds_seeds=goal is not None):
        tell(said)
    files = {file for arm in experiment.selected for file in arm.resolved_spec.task.read_files}
    with stored(path):
        with where.site(path, here, uses_gpu=uses_gpu, files=files, tell=tell) as site:
            store, runs, trained = _trained(experiment, path, goal, site, where.together, tell, watch)
        tell("comparing ...")
        results = write(store)
        show(store, results)
        is_timed = timing if where.ray else timing is not False  # on a cluster this machine is not to be timed, unasked

        def time() -> None:
            n_places = len(here)
            for said in time_arms(store.path, runs, here[0], n_places=n_places, asked=timing is True, trained=trained):
                tell(said)

        tell("drawing the report; Ctrl-C leaves out what is being made ...")
        _show(store, results, figures=figures, look=look, tell=tell, time=time if is_timed else None)
        return store, runs, results


def as_compared(experiment: Experiment, path: Path) -> Experiment:
    """Return an experiment with the arms that its results directory has already, which are compared with its own.

    Raises:
        DeclarationError: if a setting would change nothing in the comparisons.
    """
    joined = experiment.beside(compared_arms(path, experiment))
    joined.check_compared()
    return joined


def about_comparisons(experiment: Experiment, path: Path, *, adds_seeds: bool = False) -> Iterator[str]:
    """Yield what a user may not expect of the comparisons, and why there will be no verdict.

    Args:
        experiment: the experiment, as `as_compared` returns it.
        path: the results directory.
        adds_seeds: True if seeds are added until there is a verdict.
    """
    from headway.stats.cells import why_no_verdict

    yield from experiment.compared().notes
    planned = {(arm.full_name, seed) for arm, seed in experiment.with_ancestors(experiment.runs)}
    why_not = why_no_verdict(experiment, planned | runs_of(path)[0])
    if why_not and not adds_seeds:
        yield f"note: no verdict at the end: {why_not}"


def _trained(
    experiment: Experiment,
    path: Path,
    goal: "Until | None",
    site: "Executors",
    together: str | int,
    tell: Tell,
    watch: Callable[["Generator[Snapshot]"], object],
) -> tuple[Store, tuple[Run, ...], bool]:
    """The directory and the runs that were asked for, worked on to their end; whether there was anything to do."""
    from headway.adaptive.until import PlanContext
    from headway.execute.sweep import run_all

    making = Making.at(site.slots, together)

    def train(pairs: Iterable[tuple[Arm, int]]) -> None:
        runs = Store.with_runs(path, experiment, experiment.with_ancestors(pairs), making)[1]
        watch(run_all(runs, site.places))

    context = PlanContext(experiment=experiment, path=path, run=train, tell=tell)
    plan, first = (None, experiment) if goal is None else goal.begin(context)
    store, runs = prepare(first, path, site.slots, tell, together)
    trained = any(run.status != "done" for run in runs)
    if goal is None or plan is None:
        watch(run_all(runs, site.places))
    else:
        context.tell_all(goal.resume(plan, context))
    if not store.path.is_dir():
        raise RunFailed(f"{store.path} was removed while its runs were trained; restore it, or run again to start over")
    store = store.anew()  # others may have added arms to it meanwhile
    names = {arm.full_name for arm in first.selected}
    asked_for = runs if goal is None else [run for run in store.runs() if run.name in names and run.control is None]
    return store, tuple(store.run(run.name, run.seed) for run in asked_for), trained


def prepare(
    experiment: Experiment,
    out: Path | None,
    slots: Sequence["Slot"],
    tell: Tell = lambda _: None,
    together: str | int = "auto",
) -> tuple[Store, tuple[Run, ...]]:
    """Make the results directory of an experiment, with a folder for every run that is asked for, and return it.

    `check_and_prepare` makes the tokens of every corpus of unfinished runs once (`data/text.py`); workers find them.
    In-context runs have no data to prepare. `slots` are the places of the runs. `tell` receives sentences on surprises
    in texts and batches. `together` holds for new runs; existing runs keep their batches and their threads.

    Raises:
        UserError: when the directory holds something else, a corpus or tokenizer cannot be used, or runs that are
            worked on at once do not fit into memory; a new directory is then not made.
    """
    path = out or experiment.directory
    is_new = not path.exists()
    if is_new:
        check_and_prepare([(arm.full_name, arm.spec(seed)) for arm, seed in experiment.runs], slots, tell)
    before = set(run_folders(path))
    store, runs = Store.with_runs(path, experiment, experiment.runs, Making.at(slots, together), tell)
    left = [run for run in runs if run.status not in ("done", "damaged")]
    if not is_new:
        check_and_prepare([(run.name, run.spec) for run in left], slots, tell)
        check_batches(left)
    for said in _about_batches(together, [run for run in left if run.path in before], runs, store):
        tell(said)
    return store, runs


def _about_batches(asked: str | int, left: Sequence[Run], chosen: Sequence[Run], store: Store) -> Iterator[str]:
    """Yield a sentence on each surprise in the batches of existing runs that a user selects.

    Args:
        asked: the number of runs to be trained together.
        left: the runs that existed before and are not done.
        chosen: all selected runs.
        store: the results directory.
    """
    sizes = [1 if run.batch is None else len(run.batch.members) for run in left if run.spec.batching.key is not None]
    together = checked_together(asked)
    if together is not None and any(size != together for size in sizes):
        yield (
            f"--batch-runs {asked} holds for new runs: existing runs keep their batches, since a batch changes how "
            "sums are rounded; `headway drop` moves runs aside, to be trained again"
        )
    chosen_names = {(run.name, run.seed) for run in chosen}
    others = {path for run in left if run.batch for path in run.batch.folders(run.path)}
    waiting = [run for run in store.runs("sizes") if run.path in others and run.status in ("waiting", "interrupted")]
    along = [f"{run.name} seed {run.seed}" for run in waiting if (run.name, run.seed) not in chosen_names]
    if along:
        yield f"a batch is trained as a whole, so other runs of it ({len(along)}) are trained too, such as {along[0]}"


def fallbacks(experiment: Experiment, trainer: str) -> list[str]:
    """A sentence for each reason why one-layer models are left to the slower PyTorch trainer, unasked.

    Raises:
        UserError: when the fused trainer is asked for and cannot train an arm.
    """
    reasons: dict[str, list[str]] = {}
    for arm in experiment.selected if trainer != "torch" else ():
        laboratory = training_part_of(arm.resolved_spec)
        if trainer == "fused" and (why_not := laboratory.why_not_fused(arm.resolved_spec)):
            raise UserError(f"trainer fused cannot train arm {arm.full_name}: {why_not}; use auto")
        if why_not := laboratory.slower_unasked(arm.resolved_spec):
            reasons.setdefault(why_not, []).append(arm.full_name)
    return [f"{', '.join(arms)}: {why_not}; PyTorch trains instead" for why_not, arms in reasons.items()]

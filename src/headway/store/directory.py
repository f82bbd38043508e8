"""A directory of runs, which is the database.

    DIR/experiment.yaml           the resolved document that all its runs belong to
    DIR/runs/ARM[+CONTROL]/seed-N/
    DIR/dropped/ARM/seed-N/       runs that were moved aside, which nothing reads

A directory belongs to one experiment and grows with its file, by the rules of `headway.store.growth`. Each command
checks the directory's content once (`headway.store.integrity`). A run counts only if the document asks for it.

A dropped folder is moved as it is, so the user gets the run again by moving it back. The document notes that the run
was dropped, so nobody misses it. The document also names the runs that were asked for.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeGuard

from headway.base.files import FULL, create_text, entries, folder_in, inside, instead_of_file
from headway.base.text import with_numbers
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.load import read_resolved
from headway.config.metrics import METRICS
from headway.config.plugins import allow, load
from headway.config.yaml import shipped
from headway.errors import DeclarationError, ResultsError, UserError, near
from headway.store import document
from headway.store.batches import Making, RunBatch, half_made
from headway.store.growth import check, check_content, turn, why_not_asked
from headway.store.integrity import Checked, Depth, Stamp, file_stamp
from headway.store.lease import Lease, LeaseHeld
from headway.store.records import holds_run, run_folders
from headway.store.run import Run, Status, check_schema, read, unreliable_run
from headway.store.run import document as document_run
from headway.store.storage import failure
from headway.store.watch import take_patiently


def seed_of(folder: Path) -> int:
    """The seed of a run by the name of its folder, where it was dropped to, too."""
    return int(folder.name.split("-")[1])


def _seeds(asked: int | Sequence[int]) -> list[int]:
    seeds = [asked] if isinstance(asked, int) else [] if isinstance(asked, str) else list(asked)
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds):
        raise ResultsError(f"seeds {asked!r}: give seeds, such as 2 or [0, 2]; nothing was dropped")
    return seeds


def _chosen(
    directory: Path, name: str, seeds: Sequence[int] | None, missing: Sequence[document.Name]
) -> tuple[list[Path], set[document.Name]]:
    """The folders of an arm's runs that are meant, and those of its runs that are meant and have no folder."""
    arms = [folder.parent.name for folder in entries(directory, "runs/*/seed-*")]
    if name not in (arms := list(dict.fromkeys((*arms, *dict(missing))))):
        raise ResultsError(f"{directory} has no runs of arm {name!r}; {near(name, arms)}")
    folders = entries(inside(directory, "runs", name), "seed-*")
    gone = {seed for arm, seed in missing if arm == name}
    wanted = folders if seeds is None else [f for f in folders if f.name in {f"seed-{seed}" for seed in seeds}]
    wanted_gone = gone if seeds is None else gone & set(seeds)
    if not wanted and not wanted_gone:
        there = with_numbers("seed", {*map(seed_of, folders), *gone})
        raise ResultsError(f"{directory}: arm {name} has no run of {with_numbers('seed', seeds or ())}; it has {there}")
    return wanted, {(name, seed) for seed in wanted_gone}


def _lease(folder: Path) -> Lease:
    """Own a run folder while it moves, so that no worker begins on it."""
    try:
        return take_patiently(folder / "lease")
    except LeaseHeld as held:
        raise ResultsError(
            f"{folder} cannot be dropped: {held}; stop it first, or wait for its end. Nothing was moved"
        ) from None


def _move(directory: Path, folder: Path, delete: bool) -> Path:
    target = _free(folder_in(directory, "dropped", folder.parent.name) / folder.name)
    folder.rename(target)
    if delete:
        shutil.rmtree(target)
        _remove_if_empty(target.parent, target.parent.parent)
    else:
        shutil.rmtree(target / "lease")
    _remove_if_empty(folder.parent)
    return target


def _free(target: Path) -> Path:
    """The name, or the first of NAME-1, NAME-2, ... that is free."""
    free, taken = target, 0
    while os.path.lexists(free):
        taken += 1
        free = target.with_name(f"{target.name}-{taken}")
    return free


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


_ALONE = Making(together=1)
"""Runs are trained alone, with the threads of whoever begins them."""


class Store:
    """A results directory.

    Attributes:
        path: the directory.
        experiment: the document its runs belong to.
    """

    def __init__(self, path: Path, experiment: Experiment):
        self.path, self.experiment = path, experiment
        self._sound: dict[tuple[Path, Depth], tuple[Stamp | None, Run]] = {}
        self._arms = {arm.full_name: arm for arm in experiment.arms}
        self._arms_stamp: Stamp | None = None

    def __repr__(self) -> str:
        counts = Counter(_status(folder) for folder in run_folders(self.path))
        runs = ", ".join(f"{n} {status}" for status, n in counts.items()) or "no runs"
        return f"Store({str(self.path)!r}, {self.experiment.name}: {runs})"

    @classmethod
    def open(cls, path: str | Path, plugins: Iterable[str | Path] = ()) -> Self:
        """A directory that Headway wrote.

        Args:
            path: the path of the directory.
            plugins: the user's code that Headway runs: plugins that the directory keeps, which are then allowed here,
                or figures.

        Raises:
            ResultsError: when it is none, or is of code that nobody asked to run here.
        """
        path, given = Path(path), [load(str(each)) for each in plugins]
        if not inside(path, document.FILE).is_file():
            missing = "it is a file" if path.is_file() else "there is no such directory"
            what = "it has no experiment.yaml" if path.is_dir() else missing
            above = next((each for each in path.parents if inside(each, document.FILE).is_file()), None)
            makes = "`headway run` makes one" if above is None else f"give {above}, which is one"
            todo = document.todo(path) if run_folders(path) else makes
            if path.is_dir() and (stands := instead_of_file(path / document.FILE)):
                what, todo = f"its experiment.yaml {stands}", f"move that away; then {todo}"
            raise ResultsError(f"{path} is not a results directory of Headway: {what}; {todo}")
        document.begin_paths(path)
        try:
            experiment = read_resolved(path / document.FILE)
        except DeclarationError as error:
            todo = document.todo(path) if document.doubt(path) else "restore it, or choose another directory"
            raise ResultsError(f"{path}: its experiment.yaml cannot be read back; {todo}\n{error}") from None
        if document.is_unsealed(path):
            raise ResultsError(document.doubt(path))
        return cls(path, replace(experiment, plugins=tuple(dict.fromkeys((*experiment.plugins, *given)))))

    def anew(self) -> Self:
        """The directory with the document that it has now; what was examined of its runs stays known.

        Raises:
            ResultsError: if `open` would raise it.
        """
        cls = type(self)
        store = cls.open(self.path)
        store._sound, store._known = self._sound, self._known
        return store

    @classmethod
    def create(cls, path: str | Path, experiment: Experiment) -> "Store":
        """The directory of an experiment's results, made if it does not exist; its document is then this one.

        Raises:
            ResultsError: when it holds other things, another experiment or runs that this document does not describe,
                or cannot be written.
        """
        return cls.with_runs(path, experiment, ())[0]

    @classmethod
    def with_runs(
        cls,
        path: str | Path,
        experiment: Experiment,
        runs: Sequence[tuple[Arm, int]],
        making: Making = _ALONE,
        tell: Callable[[str], object] = lambda _: None,
    ) -> tuple["Store", tuple[Run, ...]]:
        """Open or make the directory with a folder for each of these runs, so that no other process removes their arms.

        Args:
            path: the path of the directory.
            experiment: the experiment, its document.
            runs: the runs that are wanted.
            making: the execution of runs that have no folder yet; by default, each alone.
            tell: the function that is given sentences about the batches of the runs.

        Raises:
            ResultsError: if `create` or `add` would raise it.
        """
        path = Path(path)
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            check_content(path)
            store = cls._unchanged(path, experiment, runs)  # which may be read where nothing can be written
            if store is not None:
                return store, tuple(store.add(arm, seed) for arm, seed in runs)
            with turn(path):
                store = cls._grown(path, experiment, runs)
                return store, store._made(runs, making, tell)

    @classmethod
    def _intact(cls, path: Path) -> "Store | None":
        """The directory as it is; None where it has no document, or one that is damaged."""
        if not (path / document.FILE).exists():
            return None
        try:
            return cls.open(path)
        except ResultsError as error:
            if document.doubt(path) in ("", str(error)):
                raise  # perhaps a later Headway wrote it, or it has no seal
            return None

    @classmethod
    def _unchanged(cls, path: Path, experiment: Experiment, runs: Sequence[tuple[Arm, int]] = ()) -> "Store | None":
        """The directory, if this is its document already, which names the runs, and it has a folder for each."""
        store = cls._intact(path)
        if store is None or store.experiment.dump() != experiment.dump() or document.doubt(path):
            return None
        asked = {(arm.full_name, seed) for arm, seed in runs}
        is_named = asked <= document.named(path) or not os.access(path, os.W_OK)
        there = all((store._folder(arm, seed) / "run.json").is_file() for arm, seed in asked)
        return store if is_named and there else None

    @classmethod
    def _grown(cls, path: Path, experiment: Experiment, runs: Sequence[tuple[Arm, int]]) -> "Store":
        """The directory with a document that may be its next and names these runs; for whoever has the turn."""
        asked = [(arm.full_name, seed) for arm, seed in runs]
        if store := cls._unchanged(path, experiment):
            document.record(path, asked=asked, experiment=experiment)
            return store
        if (path / document.FILE).exists() or run_folders(path):
            former = cls._intact(path)
            check(path, None if former is None else former.experiment, experiment)
        document.write(path, experiment, asked)
        return cls.open(path)

    def _made(self, runs: Sequence[tuple[Arm, int]], making: Making, tell: Callable[[str], object]) -> tuple[Run, ...]:
        """Runs, those without a folder made in batches; for whoever has the turn."""
        missing = {
            (arm.full_name, seed): arm.spec(seed)
            for arm, seed in runs
            if not holds_run(self._folder(arm.full_name, seed))
        }
        waiting = [path for path in run_folders(self.path) if not (path / "lease").exists()] if missing else []
        batches = half_made({path: _batch(path) for path in waiting}, missing)
        anew, notes = making.batches({name: spec for name, spec in missing.items() if name not in batches})
        batches |= anew
        for sentence in notes:
            tell(sentence)
        made = []
        for arm, seed in runs:
            name = arm.full_name, seed
            batch = batches.get(name)
            threads = making.threads_of(missing[name], batch) if name in missing else None
            made.append(self._add(arm, seed, batch, threads))
        return tuple(made)

    def add(self, arm: Arm, seed: int) -> Run:
        """The run of an arm and a seed; its folder is made if it does not exist, and otherwise left as it is.

        A folder that is made here is that of a run that is trained alone. One that cannot be relied on gives a run with
        status `damaged`.

        Raises:
            ResultsError: when the folder holds a run of another content, or cannot be written.
        """
        if not holds_run(self._folder(arm.full_name, seed)):
            with _writing(self.path), turn(self.path):
                document.record(self.path, asked=[(arm.full_name, seed)])
        return self._add(arm, seed)

    def _add(self, arm: Arm, seed: int, batch: RunBatch | None = None, threads: int | None = None) -> Run:
        """Make the folder of a run, with its batch and its number of threads; None: whoever begins it decides."""
        path = self._folder(arm.full_name, seed)
        run = Run(
            path=path,
            id=arm.spec(seed).id,
            arm=arm.name,
            control=arm.control,
            group=arm.group,
            seed=seed,
            status="waiting",
            message="",
            config=arm.configuration(seed),
            log_every=self.experiment.logging.every,
            keeps_weights=self.experiment.kept_weights(arm),
            execution={} if threads is None else {"threads": threads},
            metrics={},
            batch=batch,
        )
        with _writing(path):
            folder_in(self.path, "runs", arm.full_name, path.name)
            if not holds_run(path):  # one that has lost its run.json is told, and left as it is
                create_text(path / "run.json", document_run(run))
        examined = self._examined(path)
        if examined.status != "damaged" and examined.id != run.id:
            raise ResultsError(
                f"{path} holds run {examined.id}, and {arm.full_name} with seed {seed} is {run.id}; "
                "choose another directory"
            )
        return examined

    def runs(self, depth: Depth = "changed") -> tuple[Run, ...]:
        """All runs that have a folder, in the document's order of arms, then by seed.

        Those whose folder cannot be relied on are `damaged`, with a message, and so are those that are not what the
        document asks for; what is done can be read.

        Args:
            depth: the depth of the check of finished runs: `changed` reads the files that were not read yet, `whole`
                reads all, and `sizes` reads none.
        """
        order = {arm.full_name: place for place, arm in enumerate(self.experiment.arms)}
        runs = [self._asked(self._examined(folder, depth)) for folder in run_folders(self.path)]
        self._known.save()
        return tuple(sorted(runs, key=lambda run: (order.get(run.name, len(order)), run.name, run.seed)))

    @property
    def compared(self) -> Experiment:
        """The experiment with the arms that have runs here selected, which are those that are compared."""
        return self.experiment.among(document.compared_arms(self.path, self.experiment))

    def gone(self) -> list[str]:
        """The runs, `ARM/seed-N`, that the document names, and that have no folder."""
        return [f"{arm}/seed-{seed}" for arm, seed in document.missing(self.path)]

    def run(self, arm: str, seed: int) -> Run:
        """The run of an arm (`ARM` or `ARM+CONTROL`) and a seed; `damaged` if its folder cannot be relied on.

        Raises:
            ResultsError: when it has no folder here.
        """
        path = self._folder(arm, seed)
        if not holds_run(path):
            names = {folder.name for folder in entries(self.path, "runs/*")}
            if arm not in names:
                raise ResultsError(f"{self.path} has no runs of arm {arm!r}; {near(arm, names)}")
            there = with_numbers("seed", [run.seed for run in self.runs() if run.name == arm])
            raise ResultsError(f"{self.path} has no run of arm {arm!r} with seed {seed}; it has {there}")
        return self._asked(self._examined(path))

    def drop(self, *names: str, seeds: int | Sequence[int] | None = None, delete: bool = False) -> tuple[Path, ...]:
        """Put the runs of arms (`ARM` or `ARM+CONTROL`) aside, to `DIR/dropped`, or delete them; where they are now.

        Of a seed, or of some, only those: `seeds=2` is seed 2. The document notes it, also for a run whose folder is
        missing.

        Raises:
            ResultsError: when what is given is no seed, an arm has no such runs, a process works on one of them (then
                none is moved), or the directory cannot be written.
        """
        asked = None if seeds is None else _seeds(seeds)
        try:
            with turn(self.path), ExitStack() as owned:
                missing, folders, dropped = document.missing(self.path), list[Path](), set[document.Name]()
                for name in dict.fromkeys(names):
                    chosen, gone = _chosen(self.path, name, asked, missing)
                    folders += chosen
                    dropped |= gone | {(name, seed_of(folder)) for folder in chosen if folder.name[5:].isdecimal()}
                for folder in folders:
                    owned.enter_context(_lease(folder))
                # First: a kill leaves runs that are there, and none missing.
                document.record(self.path, dropped=dropped)
                return tuple(_move(self.path, folder, delete) for folder in folders)
        except OSError as error:
            raise ResultsError(f"{self.path} cannot be written: {error.strerror}; nothing more was dropped") from None

    def records(self) -> list[dict[str, Any]]:
        """A mapping per run: arm, label, control, seed, status and its final metrics (none before it is done)."""
        labels = {arm.full_name: arm.label for arm in self.experiment.arms}
        names = ("arm", "control", "group", "seed", "status")
        return [
            {"label": labels.get(run.name, run.name), **{name: getattr(run, name) for name in names}, **run.metrics}
            for run in self.runs()
        ]

    def frame(self) -> Any:
        """The records as a pandas DataFrame; `frame.attrs["units"]` has the unit of each metric.

        Raises:
            ResultsError: when pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ResultsError("a DataFrame was asked for, but pandas is not installed; use records()") from None
        frame = pandas.DataFrame.from_records(self.records())
        frame.attrs["units"] = {name: METRICS[name].unit for name in frame.columns if name in METRICS}
        return frame

    def _examined(self, path: Path, depth: Depth = "changed") -> Run:
        """A run, in the group that the document has now: run.json says in which it was made.

        A finished run does not change, and to examine it is to read all of its files, which is done once.
        """
        stamp = file_stamp(path / "run.json")
        known = self._sound.get((path, depth))
        run = known[1] if known and known[0] == stamp else Run.examine(path, depth, self._known)
        if run.status == "done":
            self._sound[path, depth] = stamp, run
        group = self._arms[run.name].group if run.name in self._arms else run.group
        return run if group == run.group else replace(run, group=group)  # which would read its configuration again

    def _asked(self, run: Run) -> Run:
        """A run that is the one that the document asks for; damaged if it is another."""
        if run.status == "damaged":
            return run
        why_not = why_not_asked(self.path, run, self._arms.get(run.name))
        stamp = file_stamp(self.path / document.FILE) if why_not else None
        if why_not and stamp != self._arms_stamp:  # others may have let it grow
            self._arms, self._arms_stamp = Store.open(self.path)._arms, stamp
            why_not = why_not_asked(self.path, run, self._arms.get(run.name))
        return replace(unreliable_run(run.path, why_not), group=run.group) if why_not else run

    @cached_property
    def _known(self) -> Checked:
        return Checked(self.path)

    def _folder(self, arm: str, seed: int) -> Path:
        return inside(self.path, "runs", arm, f"seed-{seed}")


def _batch(path: Path) -> RunBatch | None:
    """The runs that a run is trained together with, by its run.json alone."""
    try:
        return read(path).batch
    except ResultsError:
        return None


def _status(path: Path) -> Status:
    """The status of a run by its run.json alone."""
    try:
        return Run.open(path).status
    except ResultsError:
        return "damaged"


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raise ResultsError if something cannot be written in the block."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise failure(path, error) from None
        raise ResultsError(f"{path} cannot be written: {error.strerror}; choose another directory") from None


def is_directory(name: object) -> TypeGuard[str | Path]:
    """Return whether a name is that of a directory, and not of an experiment or of its file."""
    return isinstance(name, str | Path) and str(name) not in shipped() and os.path.isdir(name)


def asked_in(directory: Path, *, plugins: Iterable[str | Path] = (), changed: Iterable[str] = ()) -> Experiment:
    """The experiment of a directory, with the runs that were asked for; where there were none, all of its document.

    Runs that were dropped were asked for, too, and so were those whose folders are missing.

    To go on with its runs is to run the code of one's own that it keeps.

    Args:
        directory: the results directory.
        plugins: the further code of the user.
        changed: the options that were given and would change the document.

    Raises:
        UserError: when something would be changed, or the directory is none, is of a later Headway, or its document is
            not as it was written: it would be written anew as it is.
    """
    for option in changed:
        raise UserError(
            f"{directory} is a results directory, and Headway resumes its experiment unchanged; leave {option} out, or "
            "begin another experiment from a file (`headway show` writes one)"
        )
    check_schema(directory)
    allow(directory)
    experiment = Store.open(directory, plugins).experiment
    if doubt := document.doubt(directory):
        raise ResultsError(doubt)
    pairs = set[document.Name]().union(*document.runs_of(directory), document.there(directory))
    names = [arm.full_name for arm in experiment.arms if arm.full_name in dict(pairs)]
    if not names:
        return experiment
    seeds = tuple(sorted({seed for _, seed in pairs}))
    return replace(experiment.among(names), seeds=seeds, only=frozenset(pairs))

"""Lab: every file of a results directory read whole, and what is damaged named.

What a directory of before holds is taken as it is, as far as it can be read; it is sealed when somebody asks for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headway.errors import ResultsError
from headway.files import Content, entries, inside, kept_json
from headway.identity import DIGEST, is_as_signed
from headway.runs import resolved, seal
from headway.runs.checked import Checked
from headway.runs.folder import Run
from headway.runs.folder_written import update
from headway.runs.growth import why_not_asked
from headway.runs.lease import LeaseHeld
from headway.runs.recorder import why_not_newest
from headway.runs.records import READ, anew, run_folders, step_files
from headway.runs.store import Store
from headway.runs.timing_files import read_timings, timing_file
from headway.runs.watching import take_patiently
from headway.train import checkpoint


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was found in a run folder, or beside the runs.

    Attributes:
        n_files: files that were read whole.
        n_bytes: what they hold.
        damages: a sentence each.
        unsealed: whether it is a finished run of before, which nobody has sealed.
        sealed: whether it was sealed just now.
        held: whether a process works on it, so that it was left alone.
    """

    n_files: int = 0
    n_bytes: int = 0
    damages: tuple[str, ...] = ()
    unsealed: bool = False
    sealed: bool = False
    held: bool = False


def verify(directory: Path, *, adopt: bool = False) -> Iterator[Looked]:
    """Look at a results directory whole: first at what stands beside the runs, then at one run after another.

    Args:
        directory: the results directory.
        adopt: whether runs of before are sealed as they are, when they can be read, and those that are gone forgotten.

    Raises:
        ResultsError: when it is none.
    """
    store, damages = None, []
    try:
        store = Store.open(directory)
    except ResultsError as error:
        if not run_folders(directory):
            raise
        damages.append(str(error))
    doubt = resolved.doubt(directory) if store else ""
    if adopt and store and not doubt and not resolved.is_headed(directory):
        resolved.adopt(directory)
    known = Checked(directory)
    gone = known.gone()
    if adopt:
        known.forget(gone)
    else:
        damages += [_gone(directory, name) for name in gone]
    yield Looked(n_files=1, damages=(*damages, *filter(None, [doubt]), *_derived(directory)))
    for folder in run_folders(directory):
        yield _look(folder, store, known, adopt)
    known.save()


def _gone(directory: Path, name: str) -> str:
    return (
        f"{directory / 'runs' / name}: it was finished here before, and its folder is gone; `headway run` trains it "
        "anew, and --adopt takes what is there for all there is"
    )


def _derived(directory: Path) -> Iterator[str]:
    """What is damaged of what was computed from runs and kept."""
    for file in entries(inside(directory, "estimators"), "*.json"):
        content = kept_json(file)
        if not isinstance(content, dict) or (DIGEST in content and not is_as_signed(content)):
            yield f"{file} is not as it was written; `headway compare {directory}` computes it anew"
    for name, timing in read_timings(directory).items():
        if timing is None:
            file = timing_file(directory, name)
            yield f"{file} is not as it was written; `headway run` with --timing measures it again"


def _look(folder: Path, store: Store | None, known: Checked, adopt: bool) -> Looked:
    try:
        run = Run.open(folder)
        run.check_name()
        arms = {arm.full_name: arm for arm in store.experiment.arms} if store else {}
        if store and (why_not := why_not_asked(store.path, run, arms.get(run.name))):
            return Looked(damages=(why_not,))
        if run.status == "running":
            return Looked(held=True)
        if run.status != "done":
            return Looked(damages=tuple(f"{folder}: {damage}" for damage in why_not_newest(folder, run.id)))
        if run.seal is not None:
            return _sealed(run, known)
        run.check(known=known)  # as far as it can be read
        return _adopted(run, known) if adopt else Looked(unsealed=True)
    except ResultsError as error:
        return Looked(damages=(str(error),))


def _sealed(run: Run, known: Checked) -> Looked:
    contents = seal.read(run.path, run.seal or "")
    found = [*seal.damages(run.path, contents), *seal.foreign(run.path, contents)]
    if not found:
        known.note(run.path, run.seal or "", (seal.FILE, *contents))
    return Looked(
        n_files=len(contents) + 2,
        n_bytes=sum(content.n_bytes for content in contents.values()),
        damages=tuple(f"{run.path / damage}; {anew(run.path)}" for damage in found),
    )


def _adopted(run: Run, known: Checked) -> Looked:
    """Seal a finished run of before as it is."""
    path = run.path
    names = [name for name in (*READ, *step_files(path)) if (path / name).is_file()]
    contents = {name: Content.of_file(path / name) for name in names}
    stored = checkpoint.contents(path / "checkpoint")
    contents |= {f"checkpoint/{name}": content for name, content in stored.items()}
    try:
        with take_patiently(path / "lease") as lease:
            update(run, lease, seal=seal.write(path, contents))
    except LeaseHeld:
        return Looked(held=True)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}; free space or check permissions") from None
    return replace(_sealed(replace(run, seal=Run.open(path).seal), known), sealed=True)

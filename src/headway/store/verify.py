"""Verification of a results directory: every file is read whole, and every damage or loss is named.

A run may be finished by two processes: a holder was given up while it slept, or a node was thought lost. The first
result is kept, and the second is compared with it. Both processes computed the same function. So everything but times
and memory must be equal to the bit if both were executed equally; otherwise one of the machines is defective. Another
instruction set sums in another order, which is no defect.

`directory_warnings` are sentences on a directory, apart from its damaged runs, to read before its results are believed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.base.files import Content, entries, json_text, plain, read_bytes
from headway.base.identity import without
from headway.base.text import command_line, listed
from headway.config.own_program import FOLDER, is_kept
from headway.config.plugins import check_kept
from headway.config.yaml import differing
from headway.errors import DeclarationError, ResultsError
from headway.store import document, integrity, look_plans
from headway.store.directory import Store
from headway.store.environment import changes
from headway.store.growth import why_not_asked
from headway.store.integrity import Checked
from headway.store.records import anew, run_folders, signed_json
from headway.store.run import Run
from headway.store.run_writer import why_not_newest


@dataclass(frozen=True, kw_only=True)
class Looked:
    """The findings in a run folder, or beside the runs.

    Attributes:
        n_files: the number of files that were read whole.
        n_bytes: the size of these files, in bytes.
        damages: the damages, one sentence each.
        held: True if a process works on the run, so that it was not checked.
    """

    n_files: int = 0
    n_bytes: int = 0
    damages: tuple[str, ...] = ()
    held: bool = False


def verify(directory: Path) -> Iterator[Looked]:
    """Look at a results directory whole: first at what stands beside the runs, then at one run after another.

    Raises:
        ResultsError: when it is none, or its document has no seal.
    """
    doubt, store = document.doubt(directory), None
    try:
        store = Store.open(directory)
    except ResultsError as error:
        if not run_folders(directory) or str(error) == doubt:
            raise
        doubt = str(error)
    checked, beside = Checked(directory), _beside(directory)
    damages = (*filter(None, [doubt]), *_misplaced(directory), *beside.damages)
    yield replace(beside, damages=damages)
    for folder in run_folders(directory):
        yield _examined(folder, store, checked)
    checked.save()


def _misplaced(directory: Path) -> Iterator[str]:
    """A sentence for each arm with runs that are missing, and one on runs that the document does not know of."""
    missing, strangers = document.missing_and_strangers(directory)
    for arm, seeds in document.compact(missing).items():
        yield (
            f"{directory / 'runs' / arm}: folders of seeds that {document.FILE} lists are missing: {seeds}; "
            f"`{command_line('run', directory)}` trains what is missing, and "
            f"`{command_line('drop', directory, arm, seeds=seeds)}` drops it"
        )
    if strangers:
        yield (
            f"{document.FILE} does not list {document.told(strangers)}: somebody added folders, or restored an older "
            f"document; `{command_line('run', directory)}` lists them again"
        )


def _beside(directory: Path) -> Looked:
    """The damages among the files beside the runs."""
    code = entries(directory, "plugins/*.py")
    commands = entries(directory, f"{FOLDER}/*")
    changed = [file for file in commands if not is_kept(file)]
    signed = [file for pattern in document.SIGNED for file in entries(directory, pattern)]
    damages = [
        *map(_why_not_code, code),
        *(f"{file} is not as it was written; the experiment's file writes it again" for file in changed),
        *(_why_not_signed(directory, file) for file in signed),
    ]
    for arm in document.timed_arms(directory):
        file = document.timing_file(directory, arm)
        if not file.exists():
            damages.append(f"{file} is gone; `headway run` with --timing measures it again")
    damages += [*look_plans.damages(directory), *look_plans.unaccounted(directory)]
    sizes = [file.stat().st_size for file in (*code, *commands, *signed) if file.is_file()]
    return Looked(n_files=len(sizes) + 1, n_bytes=sum(sizes), damages=tuple(filter(None, damages)))


def _why_not_signed(directory: Path, file: Path) -> str:
    """Why a file of JSON with a digest of itself is damaged, and what to do; empty where it is not."""
    if file.parent.name == "timings":
        found, todo = document.read_timing(file), "`headway run` with --timing measures it again"
    else:
        found, todo = signed_json(file), f"`headway compare {directory}` computes it again"
    # A key that stands twice says the same.
    return "" if found and read_bytes(file) == json_text(found).encode() else f"{file} is not as it was written; {todo}"


def _why_not_code(file: Path) -> str:
    """Return why kept code is not as written: its name holds its hash."""
    try:
        check_kept(file)
    except (DeclarationError, OSError) as error:
        return str(error)
    return ""


def _examined(folder: Path, store: Store | None, known: Checked) -> Looked:
    try:
        run = Run.open(folder)
        run.check_name()
        arms = {arm.full_name: arm for arm in store.experiment.arms} if store else {}
        if store and (why_not := why_not_asked(store.path, run, arms.get(run.name))):
            return Looked(damages=(why_not,))
        if run.status == "running":
            return Looked(held=True)
        if run.status == "done":
            return _sealed(run, known)
        damages = [f"{folder}: {damage}" for damage in why_not_newest(folder, run.id)]
        if (folder / integrity.SEAL).exists():
            what = f"its run.json says that it is {run.status}, and its seal that it was finished"
            damages.append(f"{folder}: {what}; `{command_line('run', folder.parents[2])}` finishes it again")
        return Looked(damages=tuple(damages))
    except ResultsError as error:
        return Looked(damages=(str(error),))


def _sealed(run: Run, known: Checked) -> Looked:
    contents = integrity.read(run.path, run.seal or "")
    damages = [*integrity.damages(run.path, contents), *integrity.foreign(run.path, contents)]
    if not damages:
        known.note(run.path, run.seal or "", (integrity.SEAL, *contents))
    return Looked(
        n_files=len(contents) + 2,
        n_bytes=sum(content.n_bytes for content in contents.values()),
        damages=tuple(f"{run.path / damage}; {anew(run.path)}" for damage in damages),
    )


PASSING = ("_s", "_bytes")
"""How the names of times, rates and memory end."""
_TIMES, _ARRAYS = ("metrics.jsonl", "checkpoint/"), ".safetensors"
_OF_A_PLACE = ("host", "changes")


def differences(first: Run, metrics: Mapping[str, Any], contents: Mapping[str, Content]) -> list[str]:
    """Names of what the first result and a second one differ in, times and memory apart.

    Args:
        first: the stored run.
        metrics: the metrics of the second result.
        contents: the contents of the second result's files, by path in the folder.
    """
    names = [name for name in differing(first.metrics, plain(dict(metrics))) if not name.endswith(PASSING)]
    try:
        sealed = integrity.read(first.path, first.seal or "")
    except ResultsError:
        return names
    # Files that hold times differ in two executions.
    same = [name for name in sealed.keys() & contents.keys() if name.endswith(_ARRAYS) or not name.startswith(_TIMES)]
    return names + sorted(name for name in same if sealed[name] != contents[name])


def said(first: Run, execution: Mapping[str, Any], names: list[str]) -> str:
    """Return a sentence on a run that was finished twice and differs in what is named; empty if nothing is."""
    if not names:
        return ""
    before, now = (without(one, *_OF_A_PLACE) for one in (first.execution, execution))
    hosts = f"{first.execution.get('host')} and {execution.get('host')}"
    what = f"finished twice, on {hosts}, and {listed(names)} differ"
    if changed := changes(before, now):
        return f"{what}; they were executed differently ({', '.join(changed)}), and the first result is kept"
    if ("instruction_sets" in before) != ("instruction_sets" in now):
        return (
            f"{what}; one of them does not record its instruction sets, which may differ, and the first result is kept"
        )
    return (
        f"{what} though both were executed equally: one of these machines is faulty (memory, processor or disk); the "
        "first result is kept; trust neither before you have trained the run on another machine"
    )


def directory_warnings(directory: Path) -> Iterator[str]:
    """A sentence each on what is not as it was written, or is gone: the document, looks, timings, runs."""
    if doubt := document.doubt(directory):
        yield doubt
    yield from look_plans.damages(directory)
    if lost := document.looks_given_up(directory):
        yield (
            f"{listed(f'looks/{name}.json' for name in lost)}: lost here, and runs went on all the same; error rates "
            "are higher than stated if seeds were chosen by the lost content"
        )
    for name, timing in document.timings_of_arms(directory).items():
        if timing is None:
            file = document.timing_file(directory, name)
            what = "is damaged and left out" if file.exists() else "is gone"
            yield f"{file} {what}; `headway run` with --timing measures it again"
    yield from _misplaced(directory)

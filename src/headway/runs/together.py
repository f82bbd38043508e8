"""Runs: many runs of one shape, worked on by one process as one batched program, each in its own folder.

The worker of a run takes along others of its directory that wait and have its shape, as long as it gets their leases.
Each is recorded, stored, judged and sealed by itself; a member that fails ends alone. Members are advanced in turn, an
event at a time, so that all stand at one step after each round.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from headway.declare.run import RunSpec
from headway.errors import HeadwayError, ResultsError, UserError, shortened
from headway.files import appending, entries
from headway.runs.folder import Run
from headway.runs.lease import Lease, LeaseHeld
from headway.runs.memory import estimated_bytes
from headway.runs.records import holds_run
from headway.runs.stop import Wishes
from headway.runs.storage import exit_code, outcome
from headway.runs.work import DONE, ELSEWHERE, OpenStudy, OwnedRun, work
from headway.train.loop import Study
from headway.words import counted

USUAL = 64
"""Runs that are worked on together at most, where nobody says how many."""

_MEMORY = 0.5
"""The share of the machine's memory, or of what is free of a GPU's, that runs may take together, by the estimate."""

GpuMemory = Callable[[], int | None]
"""Bytes that are free on a GPU; None where there is none."""

OpenTogether = Callable[[Sequence[RunSpec]], Sequence[Study]]
"""Opens the studies of runs of one shape."""


def work_together(
    path: Path,
    open_study: OpenStudy,
    open_together: OpenTogether,
    *,
    at_most: int | None,
    parent: int | None = None,
    gpu_memory: GpuMemory = lambda: None,
) -> int:
    """Train and judge the run in a folder, and along with it others of its shape that wait in its directory.

    Args:
        path: the run folder.
        open_study: what opens its study where it is worked on alone.
        open_together: what opens those of several.
        at_most: runs; None: `USUAL` of those whose steps are small, otherwise one.
        parent: the process to stop with; None to outlive any.
        gpu_memory: bytes that are free on the GPU that they would be trained on; None: on none.

    Returns:
        The exit code of the run in the folder, as `headway.runs.work` lists them; the others' folders tell of them.

    Raises:
        ResultsError: when the folder holds no run.
    """
    run = Run.open(path)
    if run.status == "done":
        return DONE
    try:
        n, said = how_many(run.spec, at_most, gpu_memory)
        alone = about_alone(run.spec) if at_most is not None and at_most > 1 else ""
        others = companions(path, run.spec, n - 1) if n > 1 else []
    except HeadwayError:  # whoever works on it alone says what is wrong with it
        others, alone = [], ""
    if not others:
        return work(path, _saying(alone, open_study) if alone else open_study, parent=parent)
    with _Patient(parent).heard() as wishes, contextlib.ExitStack() as held:
        members = []
        for each in (path, *others):
            try:
                member = _Member.take(each, held)
            except LeaseHeld as error:
                if each == path:
                    print(f"{path}: {error}")
                    return ELSEWHERE
                continue
            except OSError as error:
                print(outcome(path, error))
                return exit_code(error)
            if member.run.status != "done":  # its former owner may have finished it since
                members.append(member)
        if said:
            print(said, flush=True)
        codes = _work_on(members, wishes, open_study, open_together)
        return codes.get(path, DONE)


def checked_together(asked: str | int) -> str:
    """How many runs are to be trained together, as a worker is told.

    Raises:
        UserError: for anything but `auto` and numbers from 1.

    Examples:
        >>> checked_together(8)
        '8'
    """
    text = str(asked)
    if text == "auto" or (text.isdecimal() and int(text) > 0):
        return text
    raise UserError(f"together {shortened(text)}: give auto, or a number of runs; 1 trains each alone")


def companions(path: Path, spec: RunSpec, at_most: int) -> list[Path]:
    """Other run folders of a directory that wait for the same program: of the same shape, not begun or interrupted."""
    found: list[Path] = []
    for arm in [path.parent, *(each for each in entries(path.parent.parent, "*") if each != path.parent)]:
        folders = sorted((f for f in entries(arm, "seed-*") if f != path and holds_run(f)), key=_seed)
        # Seeds are no part of a shape: one run tells that of its arm.
        if not folders or (arm != path.parent and _shape(folders[0]) != spec.shape):
            continue
        for folder in folders:
            if len(found) >= at_most:
                return found
            if _waits(folder):
                found.append(folder)
    return found


def _seed(folder: Path) -> tuple[int, str]:
    number = folder.name.removeprefix("seed-")
    return (int(number) if number.isdecimal() else -1, number)


def _shape(folder: Path) -> str | None:
    try:
        return Run.open(folder).spec.shape
    except ResultsError:
        return ""


def _waits(folder: Path) -> bool:
    try:
        return Run.open(folder).status in ("waiting", "interrupted")
    except ResultsError:
        return False


def about_alone(spec: RunSpec) -> str:
    """Why a run is not trained together with others, a sentence; empty where it can be."""
    return (
        f"trained alone, and not together with others of its shape: {'; '.join(why)}"
        if (why := spec.trained_alone)
        else ""
    )


def _saying(said: str, open_study: OpenStudy) -> OpenStudy:
    """The same, which writes a sentence into the log of the run first."""

    def opened(spec: RunSpec, stored: Any) -> Study:
        print(said, flush=True)
        return open_study(spec, stored)

    return opened


def how_many(spec: RunSpec, at_most: int | None, gpu_memory: GpuMemory = lambda: None) -> tuple[int, str]:
    """How many runs of a shape are worked on together, and where memory bounds it, a sentence that says so.

    Args:
        spec: one of them.
        at_most: so many; None: as `work_together`.
        gpu_memory: what is free of a GPU's memory; None: the machine's own counts.
    """
    if spec.shape is None:
        return 1, ""
    asked = at_most if at_most is not None else USUAL if spec.small else 1
    if asked == 1:
        return 1, ""
    free = gpu_memory()
    each, there = estimated_bytes(spec) or 1, _MEMORY * (psutil.virtual_memory().total if free is None else free)
    fit = max(1, int(there / each))
    if fit >= asked:
        return asked, ""
    return fit, (
        f"{counted(asked, 'run')} together need about {asked * each / 1e9:.1f} GB, and half of "
        f"{'the memory' if free is None else 'what is free of the memory of the GPU'} is {there / 1e9:.1f} GB: "
        f"{counted(fit, 'run')} {'is' if fit == 1 else 'are'} trained together, the others after them"
    )


class _Patient(Wishes):
    """Wishes that are kept until the end of a round: a step that is broken off is broken off for all members."""

    @property
    def patient(self) -> bool:
        """Always; a second wish interrupts nevertheless."""
        return True

    @patient.setter
    def patient(self, _value: bool) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class _Member:
    """One run of several, owned by this process, and its log."""

    run: Run
    lease: Lease
    log: IO[str]

    @classmethod
    def take(cls, path: Path, held: contextlib.ExitStack) -> "_Member":
        """Own a run as long as others are held.

        Raises:
            LeaseHeld: when another process has it.
        """
        lease = held.enter_context(Lease.take(path / "lease"))
        log = held.enter_context(open(appending(path / "log.txt"), "a", encoding="utf-8", buffering=1))  # noqa: SIM115
        return cls(run=Run.open(path), lease=lease, log=log)


def _work_on(
    members: Sequence[_Member], wishes: Wishes, open_study: OpenStudy, open_together: OpenTogether
) -> dict[Path, int]:
    """The exit codes of runs that are worked on together; of those at different steps, step by step."""
    if len(members) == 1:
        with contextlib.redirect_stdout(members[0].log):
            code = OwnedRun(members[0].run, members[0].lease, wishes).outcome(open_study)
        return {members[0].run.path: code}
    studies: list[Study] = []

    def opened(number: int) -> OpenStudy:
        def open_study(_spec: RunSpec, _stored: Any) -> Study:
            if not studies:
                studies.extend(open_together([member.run.spec for member in members]))
            return studies[number]

        return open_study

    goings = {
        number: OwnedRun(member.run, member.lease, wishes).going(opened(number))
        for number, member in enumerate(members)
    }
    codes: dict[Path, int] = {}
    _round(goings, members, codes)
    steps = Counter(studies[number].trainer.step for number in goings) if studies else Counter[int]()
    if len(steps) > 1:
        # They were interrupted at different steps: those of one step go on together.
        for going in goings.values():
            going.close()
        for step in sorted(steps):
            some = [members[number] for number in goings if studies[number].trainer.step == step]
            codes |= _work_on(some, wishes, open_study, open_together)
        return codes
    while goings:
        _round(goings, members, codes)
    return codes


def _round(goings: dict[int, Generator[None, None, int]], members: Sequence[_Member], codes: dict[Path, int]) -> None:
    """An event of each member that is left; those that ended leave."""
    for number, going in list(goings.items()):
        try:
            with contextlib.redirect_stdout(members[number].log):
                next(going)
        except StopIteration as end:
            codes[members[number].run.path] = int(end.value)
            del goings[number]

"""Runs: runs of which a Ray actor has a copy: this process alone writes their folders, and takes in what is sent.

It has the lease of each, and of the others of its batch, so that other drivers leave them alone. What a checkpoint
belongs to arrives whole and is written in an order in which the folder can be gone on with at any moment: the commit
after its arrays, the end last.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import LeaseLost
from headway.files import entries, files_below, folder_in, inside, read_bytes, remove, write_bytes
from headway.runs.lease import Lease, LeaseHeld
from headway.runs.lease_files import Holder
from headway.runs.places import LOST
from headway.runs.ray_slot import LEFT_OUT, Changes
from headway.runs.storage import DISK_FULL, UNREACHABLE, exit_code
from headway.runs.together import left_of_batch
from headway.runs.work import ELSEWHERE, STOPPED

_PRUNED = ("checkpoint", "heads")
"""Folders of a run from which its owner removes files."""


@dataclass(eq=False)
class CopyWorker:
    """The actor of a slot at work on a copy of a run."""

    ray: Any
    actor: Any
    run: Path
    lease: Lease | None
    refuse: Callable[[str], None]
    lost: Callable[[], None]
    code: int | None = None
    others: Mapping[str, tuple[Path, Lease]] = field(default_factory=dict)
    """The other runs of its batch that are left, by name."""
    _reference: Any = None
    _stopping: bool = field(default=False, repr=False)

    @classmethod
    def begun(
        cls, ray: Any, actor: Any, run: Path, refuse: Callable[[str], None], lost: Callable[[], None]
    ) -> "CopyWorker":
        """Send a run folder to an actor, with those of its batch; it begins to work on them.

        Raises:
            OSError: when one cannot be read, or its lease not be written.
        """
        with contextlib.ExitStack() as held:
            try:
                owned = {path: held.enter_context(Lease.take(path / "lease")) for path in left_of_batch(run)}
            except LeaseHeld:
                return cls(ray, None, run, None, refuse, lost, code=ELSEWHERE)
            files = {
                path: {file.relative_to(path).as_posix(): read_bytes(file) for file in _files(path)} for path in owned
            }
            held.pop_all()  # they are given back at the end of the work
        others = {_name(path): (path, lease) for path, lease in owned.items() if path != run}
        worker = cls(ray, actor, run, owned[run], refuse, lost, others=others)
        theirs = {_name(path): files[path] for path in owned if path != run}
        worker._reference = worker.actor.copy.remote(_name(run), files[run] | _plugins_of(run), theirs)
        return worker

    @property
    def ended(self) -> int | None:
        """Its worker's exit code, or LOST when its node is gone; what has been sent meanwhile is taken in."""
        if self.code is None and self.ray.wait([self._reference], timeout=0)[0]:
            try:
                changes: Changes = self.ray.get(self._reference)
            except self.ray.exceptions.RayError:
                self.lost()
                return self._end(LOST)
            self._take_in(changes)
        return self.code

    def ask_to_stop(self) -> None:
        """Ask it to store where it is."""
        if self.ended is None:
            self._stopping = True
            self.actor.ask_to_stop.remote()

    def kill(self) -> None:
        """End it."""
        if self.ended is None:
            self.actor.kill.remote()

    def has(self, lease: Holder) -> bool:
        """Whether a lease is held: by this process, for it."""
        return not lease.released

    def _take_in(self, changes: Changes) -> None:
        assert self.lease is not None
        if changes.code in (DISK_FULL, UNREACHABLE):  # that is the disk of the node, not ours
            self.refuse("its disk is full or fails")
            self._end(LOST)
            return
        self.lease.progress(changes.step, changes.steps_per_s, changes.worker)
        try:
            for name, (run, lease) in self.others.items():
                if name in changes.others:
                    theirs = changes.others[name]
                    lease.progress(theirs.step, theirs.steps_per_s, theirs.worker)
                    if theirs.names:
                        write_changes(run, lease, theirs)
            if changes.names:
                write_changes(self.run, self.lease, changes)
        except LeaseLost:
            self.actor.kill.remote()
            self._end(ELSEWHERE)
            return
        except OSError as error:
            self.actor.kill.remote()
            self._end(exit_code(error))
            return
        if changes.code is None:
            self._reference = self.actor.changes.remote()
        else:
            self._end(changes.code)

    def _end(self, code: int) -> int:
        for lease in (self.lease, *(lease for _, lease in self.others.values())):
            if lease is not None:
                lease.__exit__(None, None, None)
        self.code = STOPPED if code == LOST and self._stopping else code
        return self.code


def _name(run: Path) -> str:
    return f"{run.parent.name}/{run.name}"


def write_changes(run: Path, lease: Lease, changes: Changes) -> None:
    """Write what was sent of a run into its folder.

    Raises:
        LeaseLost: when another process owns it.
        OSError: when it cannot be written.
    """
    for name in sorted(changes.files, key=_order):
        *above, last = name.split("/")
        lease.check()
        # Not the run's own folder: one that was removed stays so.
        write_bytes(inside(folder_in(run, *above), last), changes.files[name])
    lease.check()
    for path in _files(run):
        name = path.relative_to(run).as_posix()
        if name.split("/")[0] in _PRUNED and name not in changes.names:
            remove(path)


def _order(name: str) -> tuple[int, str]:
    last = {"seal.json": 3, "run.json": 4}
    is_commit = name.startswith("checkpoint/") and name.endswith(".json")
    return last.get(name, 2 if is_commit else 1 if name.startswith("checkpoint/") else 0), name


def _plugins_of(run: Path) -> dict[str, bytes]:
    """The code of one's own that its directory keeps, and the document that names it, where they stand from the run."""
    above = run.parent.parent.parent
    kept = entries(inside(above, "plugins"), "*.py")
    sent = [above / "experiment.yaml", *kept] if kept else []
    return {f"../../../{path.relative_to(above).as_posix()}": read_bytes(path) for path in sent}


def _files(run: Path) -> list[Path]:
    """Everything of a run folder that a copy needs."""
    files = [path for path in files_below(run) if not path.name.endswith(".tmp")]
    return [path for path in files if path.relative_to(run).parts[0] not in LEFT_OUT]

"""Runs: runs of which a Ray actor has a copy: this process alone writes their folders, and takes in what is sent.

It has the lease of each, so that other drivers leave it alone. What a checkpoint belongs to arrives whole and is
written in an order in which the folder can be gone on with at any moment: the commit after its arrays, the end last.
"""

from collections.abc import Callable
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
    _reference: Any = None
    _stopping: bool = field(default=False, repr=False)

    @classmethod
    def begun(
        cls, ray: Any, actor: Any, run: Path, refuse: Callable[[str], None], lost: Callable[[], None]
    ) -> "CopyWorker":
        """Send a run folder to an actor, which begins to work on it.

        Raises:
            OSError: when it cannot be read, or its lease not be written.
        """
        try:
            lease = Lease.take(run / "lease")
        except LeaseHeld:
            return cls(ray, None, run, None, refuse, lost, code=ELSEWHERE)
        lease.__enter__()
        try:
            files = {path.relative_to(run).as_posix(): read_bytes(path) for path in _files(run)}
            files |= _plugins_of(run)
        except OSError:
            lease.__exit__(None, None, None)
            raise
        worker = cls(ray, actor, run, lease, refuse, lost)
        worker._reference = worker.actor.copy.remote(f"{run.parent.name}/{run.name}", files)
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
        if self.lease is not None:
            self.lease.__exit__(None, None, None)
        self.code = STOPPED if code == LOST and self._stopping else code
        return self.code


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

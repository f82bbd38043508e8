"""Runs on nodes that do not see the directory: a Ray actor works on a copy, and this process writes the folder.

`RaySlot` is the actor: it has a place of its node, and works there on one run after the other. It hands over what has
changed whenever a checkpoint was stored, and at the end.

`CopyWorker` takes in what the actor sends. It holds the lease of the run, and of the others of its batch, so that other
processes leave them alone. The parts of a checkpoint arrive whole. They are written in an order that lets a run resume
from the folder at any moment: the commit after its arrays, the end last.
"""

import contextlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.base.files import entries, files_below, folder_in, inside, read_bytes, remove, write_bytes, write_new
from headway.errors import LeaseLost
from headway.execute.ensemble import left_of_batch
from headway.execute.places import LOST, WORKER, LocalPlace, PersistentPlace, Worker
from headway.execute.ray_cluster import Scratch
from headway.execute.work import ELSEWHERE, STOPPED
from headway.store.environment import Slot
from headway.store.lease import Holder, Lease, LeaseHeld, last_holder
from headway.store.storage import DISK_FULL, UNREACHABLE, exit_code

_POLL_EVERY_S = 0.02
_TELL_EVERY_S = 1.0
LEFT_OUT = ("lease",)
"""The parts of a run folder that belong to its place, and are not copied."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The changes of a run that is worked on in a copy.

    Attributes:
        files: that changed, by path in the folder.
        names: of all files that there are.
        step: how far it is.
        steps_per_s: how fast.
        code: the worker's exit code, once it has ended.
        worker: who works on it.
        others: the same of the other runs of its batch, by name.
    """

    files: Mapping[str, bytes]
    names: tuple[str, ...]
    step: int
    steps_per_s: float
    code: int | None
    worker: str = ""
    others: Mapping[str, "Changes"] = field(default_factory=dict)


class RaySlot:
    """The actor of a slot.

    Args:
        device: of its place.
        threads: of a worker.
        command: what starts one.
        lasts: whether a worker continues with the next run.
        folder: where the paths begin that runs name, if there is such a folder here.
    """

    def __init__(
        self, device: str, threads: int, command: tuple[str, ...] = WORKER, lasts: bool = True, folder: str = ""
    ):
        with contextlib.suppress(OSError):
            os.chdir(folder or ".")
        place = LocalPlace(slot=Slot(device=device, threads=threads), command=command)
        self._place: Any = PersistentPlace(place=place) if lasts else place
        self._worker: Worker | None = None
        self._copy: _Copy | None = None
        self._others: dict[str, _Copy] = {}

    def work(self, run: str) -> int:
        """Work on a run in its folder; the worker's exit code."""
        self._worker = self._place.start(Path(run), log=Path(run) / "log.txt")
        while (code := self._worker.ended) is None:
            time.sleep(_POLL_EVERY_S)
        return code

    def copy(
        self, name: str, files: Mapping[str, bytes], others: Mapping[str, Mapping[str, bytes]] | None = None
    ) -> Changes:
        """Begin to work on a run, and others of its batch, in copies of their folders; what is new after a while."""
        self.kill()
        if self._copy is not None:
            self._copy.remove()
        try:
            scratch = Scratch("headway-ray-")
            self._copy = _Copy(scratch, name, files)
            self._others = {other: _Copy(scratch, other, theirs) for other, theirs in (others or {}).items()}
            path = self._copy.path
            self._worker = self._place.start(path, log=path / "log.txt")
        except OSError as error:  # the disk of this node, which the others do not share
            return Changes(files={}, names=(), step=0, steps_per_s=0.0, code=exit_code(error))
        return self.changes()

    def changes(self) -> Changes:
        """Wait until there is something new of the copy, for a second at most."""
        assert self._copy is not None
        assert self._worker is not None
        until = time.monotonic() + _TELL_EVERY_S
        while (code := self._worker.ended) is None and time.monotonic() < until:
            time.sleep(_POLL_EVERY_S)
        others = {name: copy.changes(code) for name, copy in self._others.items()}
        return replace(self._copy.changes(code), others=others)

    def ask_to_stop(self) -> None:
        """Ask the worker to store where it is."""
        if self._worker is not None:
            self._worker.ask_to_stop()

    def kill(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()

    def rest(self) -> None:
        """End the work here."""
        self._place.rest()
        if self._copy is not None:
            self._copy.remove()


class _Copy:
    """The copy of a run folder."""

    def __init__(self, scratch: Scratch, name: str, files: Mapping[str, bytes]):
        self._scratch = scratch
        self.path = self._scratch.path / "runs" / name
        self._told: dict[str, tuple[int, int]] = {}
        self._commit = ""
        for file, data in files.items():
            path = self.path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, data)
        self._told = {file: stamp for file in files if (stamp := self._stamp(file))}

    def changes(self, code: int | None) -> Changes:
        """Return the changes: everything at the end, and the parts of a checkpoint when one was stored."""
        holder = last_holder(self.path / "lease")
        step, rate, worker = (holder.step, holder.steps_per_s, holder.worker) if holder else (0, 0.0, "")
        commit = max((path.name for path in entries(self.path, "checkpoint/*.json")), default="")
        files, names = self._beginning() if code is None and commit == self._commit else self._stored(commit, code)
        return Changes(files=files, names=names, step=step, steps_per_s=rate, code=code, worker=worker)

    def _beginning(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Return the run.json of a worker that has just started, which marks the run as running."""
        stamp = self._stamp("run.json")
        if stamp is None or stamp == self._told.get("run.json"):
            return {}, ()
        with contextlib.suppress(OSError, ValueError):
            text = read_bytes(self.path / "run.json")
            if json.loads(text)["status"] == "running":  # what ends a run goes with everything that belongs to it
                self._told["run.json"] = stamp
                return {"run.json": text}, tuple(self._told)
        return {}, ()

    def _stored(self, commit: str, code: int | None) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Everything that is new, when a checkpoint was stored, or at the end."""
        for _ in range(5):
            with contextlib.suppress(FileNotFoundError):  # one that was removed while we looked: look again
                names, files = self._news()
                if code is not None or not commit or f"checkpoint/{commit}" in names:
                    self._commit = commit
                    return files, names
        return {}, ()

    def _news(self) -> tuple[tuple[str, ...], dict[str, bytes]]:
        paths = [path for path in files_below(self.path) if not path.name.endswith(".tmp")]
        names = [path.relative_to(self.path).as_posix() for path in paths]
        names = sorted(name for name in names if name.split("/")[0] not in LEFT_OUT)
        stamps = {name: self._stamp(name) for name in names}
        files = {name: read_bytes(self.path / name) for name, stamp in stamps.items() if stamp != self._told.get(name)}
        self._told |= {name: stamp for name, stamp in stamps.items() if stamp and name in files}
        return tuple(names), files

    def _stamp(self, name: str) -> tuple[int, int] | None:
        with contextlib.suppress(FileNotFoundError):
            status = (self.path / name).stat()
            return status.st_mtime_ns, status.st_size
        return None

    def remove(self) -> None:
        """Remove the copy."""
        self._scratch.remove()


_PRUNED = ("checkpoint", "heads")
"""Folders of a run from which its owner removes files."""


@dataclass(eq=False)
class ActorWorker(ABC):
    """The actor of a slot at work on a run."""

    ray: Any
    actor: Any

    @property
    @abstractmethod
    def ended(self) -> int | None:
        """The exit code of the worker, LOST if its node is gone, or None while it runs."""

    def ask_to_stop(self) -> None:
        """Ask it to store where it is."""
        if self.ended is None:
            self.actor.ask_to_stop.remote()

    def kill(self) -> None:
        """End it."""
        if self.ended is None:
            self.actor.kill.remote()

    def has(self, lease: Holder) -> bool:
        """Return whether a lease is held; no other worker was started on the run."""
        return not lease.released


@dataclass(eq=False)
class CopyWorker(ActorWorker):
    """The actor of a slot at work on a copy of a run, whose leases this process holds."""

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
    """Return the plugin files that a directory keeps, and the document that names them, as paths from the run."""
    above = run.parent.parent.parent
    kept = entries(inside(above, "plugins"), "*.py")
    sent = [above / "experiment.yaml", *kept] if kept else []
    return {f"../../../{path.relative_to(above).as_posix()}": read_bytes(path) for path in sent}


def _files(run: Path) -> list[Path]:
    """Everything of a run folder that a copy needs."""
    files = [path for path in files_below(run) if not path.name.endswith(".tmp")]
    return [path for path in files if path.relative_to(run).parts[0] not in LEFT_OUT]

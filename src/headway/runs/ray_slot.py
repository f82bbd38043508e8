"""Runs: what an actor of a Ray cluster does: it has a place of its node, and works on one run after the other there.

Where nodes do not see the directory, it works on a copy in a folder of its own, and hands over what has changed when
a checkpoint was stored, and at the end.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headway.files import entries, files_below, read_bytes, write_new
from headway.runs.devices import Slot
from headway.runs.lasting import LastingPlace
from headway.runs.lease import last_holder
from headway.runs.places import WORKER, LocalPlace, Worker
from headway.runs.scratch import Scratch
from headway.runs.storage import exit_code

_LOOK_EVERY_S = 0.02
_TELL_EVERY_S = 1.0
LEFT_OUT = ("lease",)
"""What of a run folder belongs to the place where it is."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is new of a run that is worked on in a copy.

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
        lasts: whether a worker goes on with the next run.
        folder: where the paths begin that runs name, if there is such a folder here.
    """

    def __init__(
        self, device: str, threads: int, command: tuple[str, ...] = WORKER, lasts: bool = True, folder: str = ""
    ):
        with contextlib.suppress(OSError):
            os.chdir(folder or ".")
        place = LocalPlace(slot=Slot(device=device, threads=threads), command=command)
        self._place: Any = LastingPlace(place=place) if lasts else place
        self._worker: Worker | None = None
        self._copy: _Copy | None = None
        self._others: dict[str, _Copy] = {}

    def work(self, run: str) -> int:
        """Work on a run in its folder; the worker's exit code."""
        self._worker = self._place.start(Path(run), log=Path(run) / "log.txt")
        while (code := self._worker.ended) is None:
            time.sleep(_LOOK_EVERY_S)
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
            time.sleep(_LOOK_EVERY_S)
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
        """Nothing more is to be done here."""
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
        """What is new: everything at the end, and what belongs to a checkpoint when one was stored."""
        holder = last_holder(self.path / "lease")
        step, rate, worker = (holder.step, holder.steps_per_s, holder.worker) if holder else (0, 0.0, "")
        commit = max((path.name for path in entries(self.path, "checkpoint/*.json")), default="")
        files, names = self._beginning() if code is None and commit == self._commit else self._stored(commit, code)
        return Changes(files=files, names=names, step=step, steps_per_s=rate, code=code, worker=worker)

    def _beginning(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """The run.json of a worker that has just begun: the folder says then that the run goes on, as everywhere."""
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
            found = (self.path / name).stat()
            return found.st_mtime_ns, found.st_size
        return None

    def remove(self) -> None:
        """Nothing is left of it."""
        self._scratch.remove()

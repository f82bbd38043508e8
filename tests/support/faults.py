"""Doubles that meet their end: processes at a file operation, slots of a cluster, a Slurm of one node.

`Operations` counts file operations and dies, or fills the disk, at a chosen one: Python announces them to audit hooks
before it does them, and writing and syncing are announced here. `Cluster` takes no time: its nodes are lost and come
back, its runs of 1 to 100 s fail and resume. The Slurm runs on the loopback address, from the packages munge and
slurm-wlm, in a folder of its own.
"""

import contextlib
import errno
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headway.execute.work
from headway.errors import UserError
from headway.execute.places import LOST
from headway.execute.queue import Assignment, Queue
from headway.execute.work import work
from headway.store.run import Run
from support import quadratic

KILLED = 9
_ANNOUNCED = ("open", "os.rename", "os.mkdir", "os.link", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Operations:
    """Counts a process's operations on files below a directory; from the one of a number on, does something else.

    With `once`, at that one alone; with `reading`, files that are opened for reading are counted too.
    """

    def __init__(
        self, below: Path, number: int, instead: Callable[[], None], *, once: bool = False, reading: bool = False
    ):
        self._below, self._left, self._instead = str(below), number, instead
        self._once, self._reading = once, reading
        self.write, self.fsync = os.write, os.fsync
        os.write, os.fsync = self._write, self._fsync
        sys.addaudithook(self._hear)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0 or (self._left < 0 and not self._once):
            self._instead()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Removing needs no space on a disk.
        if event not in (*_ANNOUNCED, *(("os.remove",) if self._instead is die else ())):
            return
        if self._below not in str(arguments[0]):
            return
        if event == "open":
            _, mode, flags = arguments
            if not (self._reading or set(mode or "") & set("wax+") or flags & _WRITING):
                return
        self._count()

    def _write(self, descriptor: int, data: bytes) -> int:
        if self._left == 1:
            self.write(descriptor, data[: len(data) // 2])
        self._count()
        return self.write(descriptor, data)

    def _fsync(self, descriptor: int) -> None:
        self._count()
        self.fsync(descriptor)


def die() -> None:
    """What kill -9 does: nothing more."""
    os._exit(KILLED)


def disk_full() -> None:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(number: int) -> Callable[[], None]:
    """What a file system answers that fails with an error of that number."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def working(run: Run, number: int, instead: Callable[[], None], *, checkpoint_every_s: float = 0.0, **how: bool) -> int:
    """The exit code of a process that works on a run until its operation of a number."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            headway.execute.work.CHECKPOINT_EVERY_S = checkpoint_every_s
            Operations(run.path, number, instead, **how)
            code = work(run.path, quadratic.study)
        except UserError:
            code = 2  # as the worker's command line ends then
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


LOOK_EVERY_S = 0.25


@dataclass(eq=False, slots=True)
class SimulatedRun:
    """What is left of a run; its checkpoints come every 10 s."""

    left_s: float
    fails: bool


@dataclass(eq=False, slots=True)
class WorkerOfNode:
    """Works on a run from a moment on, until it is through or its node is lost."""

    cluster: "Cluster"
    run: SimulatedRun
    node: "Node"
    since: float
    generation: int

    @property
    def ended(self) -> int | None:
        now = self.cluster.now
        if self.node.generation != self.generation:
            worked = max(0.0, self.node.lost_at - self.since)
            self.cluster.busy_s += worked
            self.run.left_s -= worked - worked % 10.0
            return LOST
        if now - self.since < self.run.left_s:
            return None
        self.cluster.busy_s += self.run.left_s
        return 1 if self.run.fails else 0

    def ask_to_stop(self) -> None: ...

    def kill(self) -> None: ...

    def has(self, lease: Any) -> bool:
        return True


@dataclass(eq=False, slots=True)
class Node:
    """Some slots that are lost together, and come back a minute later."""

    slots: tuple["SlotOfNode", ...] = ()
    generation: int = 0
    lost_at: float = -1e9


@dataclass(eq=False, slots=True)
class SlotOfNode:
    """A place of a simulated node."""

    node: Node

    def start(self, run: Any, *, log: Any, options: Any = ()) -> WorkerOfNode:
        raise AssertionError("the cluster starts workers")

    ready = True

    def make_ready(self) -> None:
        """Nothing: it is."""

    def rest(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of all runs, and what it took."""

    done: int
    failed: int
    lost: int
    idle_share: float
    queue_s_per_run: float
    simulated_s: float
    peak_bytes: int


class Cluster:
    """Nodes of ten slots, and the hands of a queue on them."""

    def __init__(self, *, n_slots: int, n_runs: int, seed: int = 0):
        self._chance = random.Random(seed)
        self.nodes = [Node() for _ in range(n_slots // 10)]
        for node in self.nodes:
            node.slots = tuple(SlotOfNode(node) for _ in range(10))
        lengths = [self._chance.uniform(1.0, 100.0) for _ in range(n_runs)]
        self.runs = [SimulatedRun(length, self._chance.random() < 0.02) for length in lengths]
        self.now = self.busy_s = 0.0
        self.done = self.failed = self.lost = 0

    def begin(self, item: int, place: SlotOfNode) -> Assignment:
        worker = WorkerOfNode(self, self.runs[item], place.node, self.now, place.node.generation)
        return Assignment(worker=worker, place=place)

    def has_settled(self, item: int, code: int) -> bool:
        self.done += code == 0
        self.failed += code == 1
        self.lost += code == LOST
        return code != LOST

    def places(self) -> Iterator[SlotOfNode]:
        for node in self.nodes:
            if self.now - node.lost_at > 60.0:
                yield from node.slots

    def outcome(self, *, memory: bool = False) -> Outcome:
        """Go through all of it."""
        if memory:
            tracemalloc.start()
        began = time.thread_time()
        queue = Queue(((number, run.left_s) for number, run in enumerate(self.runs)), self.begin, self.has_settled)
        own_s, there_s = time.thread_time() - began, 0.0
        while True:
            began = time.thread_time()
            is_left = queue.poll(self.places())
            own_s += time.thread_time() - began
            if not is_left:
                break
            there_s += LOOK_EVERY_S * sum(1 for _ in self.places())
            self.now += LOOK_EVERY_S
            if self._chance.random() < 0.01:
                node = self._chance.choice(self.nodes)
                node.generation, node.lost_at = node.generation + 1, self.now
        peak = tracemalloc.get_traced_memory()[1] if memory else 0
        tracemalloc.stop()
        return Outcome(
            done=self.done,
            failed=self.failed,
            lost=self.lost,
            idle_share=1 - self.busy_s / there_s,
            queue_s_per_run=own_s / len(self.runs),
            simulated_s=self.now,
            peak_bytes=peak,
        )


CONFIGURATION = """
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=short Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def answers() -> bool:
    """Whether there is a Slurm that takes jobs."""
    if shutil.which("sinfo") is None or shutil.which("sbatch") is None:
        return False
    try:
        return b"idle" in subprocess.run(["sinfo", "-h"], capture_output=True, timeout=10, check=False).stdout
    except subprocess.TimeoutExpired:
        return False


def why_not() -> str:
    """Why none can be started here; empty where one can."""
    if missing := [tool for tool in ("munged", "slurmctld", "slurmd", "sbatch") if _tool(tool) is None]:
        return f"no Slurm answers, and there is no {missing[0]} to start one (packages munge and slurm-wlm)"
    return "" if os.getuid() == 0 else "no Slurm answers, and slurmd is started by root alone"


@contextlib.contextmanager
def started(folder: Path) -> Iterator[None]:
    """In the block, have one, and the environment that finds it."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
    (folder / "munge" / "key").chmod(0o600)
    said = {"folder": folder, "user": "root", "controller": _free_port(), "daemon": _free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**said))
    former, os.environ["SLURM_CONF"] = os.environ.get("SLURM_CONF"), str(folder / "slurm.conf")
    try:
        _run("munged", *(f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")),
             f"--socket={folder}/munge/socket", "--force")  # fmt: skip
        _run("slurmctld", "-c")
        _run("slurmd", "-N", "localhost")
        until = time.monotonic() + 30
        while not answers() and time.monotonic() < until:
            time.sleep(0.5)
        assert answers(), (folder / "slurmctld.log").read_text()
        yield
    finally:
        for file in (folder / "slurmd.pid", folder / "slurmctld.pid", folder / "munge" / "pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(file.read_text())
                os.kill(pid, signal.SIGTERM)
                _wait_for_the_end_of(pid)
        os.environ.pop("SLURM_CONF")
        if former is not None:
            os.environ["SLURM_CONF"] = former


def _tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _run(name: str, *arguments: str) -> None:
    subprocess.run([_tool(name) or name, *arguments], check=True, timeout=30, stdout=subprocess.DEVNULL)


def _wait_for_the_end_of(pid: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        os.kill(pid, 0)
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

"""Disks that get full while `headway run` works on them: it must end, say why, lose nothing and go on with equal bits.

    python tools/faults/full_disks.py [--ways 20] [--laboratories "icl, native" ...]

A way is a file system of a size, of a number of inodes, or one that is filled when a file of a name appears. The first
two are spread evenly over what an undisturbed directory needs: so they run out at its document, its run folders,
leases, records, checkpoints, seals, results, report and figures. Then there is space again, the same command goes on,
and what was recorded is compared with that of a directory that nobody disturbed.

All processes are forked from one that has loaded everything, as in `kills.py`. File systems are mounted by root, or in
a user namespace.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from headway.execute import worker

sys.path.insert(0, str(Path(__file__).parents[1]))

if __name__ == "__main__":  # as a worker does, before anything that reads it is imported
    worker.set_up_process(1)

import headway.api
import headway.execute.places
from faults import kills
from headway import cli
from headway.config.experiment import Experiment
from headway.stats.results import write
from headway.store.directory import Store

WITHIN_S = 30.0
"""Seconds in which whatever worked on a full disk ends, beside those that it takes on an ample one."""
_AGAIN_S = 600.0
_AMPLE = "size=300m,nr_inodes=20000"
_EVERY_WAY = 20


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """Runs that are worked on.

    Attributes:
        experiment: makes their document.
        options: of `headway run`.
        others: commands that work on the directory as well, as soon as runs are worked on; `run` is the same again.
        torch: whether its workers load torch.
        reports: whether the report is written, which takes longer than the runs; results always are.
        moment: a file name at whose appearance the disk is filled, beside those of every laboratory.
    """

    experiment: Callable[[], Experiment]
    options: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    torch: bool = True
    reports: bool = False
    moment: str = "runs/*/*/heads/*.safetensors"


def _native(seeds: int = 1) -> Experiment:
    return kills.icl(3_000, 250).select(seeds=seeds)


_USUAL = ("--workers", "2", "--device", "cpu")
_BARE = (*_USUAL, "--no-figures", "--no-timing")
_PLAN = (*_BARE, "--until", "50%", "--max-seeds", "4")
LABORATORIES = {
    "icl, native": Laboratory(
        experiment=lambda: _native(2), options=_BARE, torch=False, reports=True, moment="report.html"
    ),
    "plan": Laboratory(experiment=_native, options=_PLAN, torch=False, moment="looks/plan.json"),
    "two drivers": Laboratory(experiment=lambda: _native(2), options=_BARE, others=("run",), torch=False),
    "joined": Laboratory(experiment=lambda: _native(2), options=_BARE, others=("worker",), torch=False),
    "icl, stacks": Laboratory(experiment=lambda: kills.stacks(60), options=_BARE),
    "text": Laboratory(
        experiment=lambda: kills.tokens(60), options=(*_BARE, "--look"), reports=True, moment="look.html"
    ),
    "known answers": Laboratory(
        experiment=lambda: kills.parity(60), options=(*_USUAL, "--no-figures", "--timing"), moment="timings/*.log"
    ),
    "together": Laboratory(experiment=lambda: kills.parity(60, seeds=3), options=(*_BARE, "--batch-runs", "4")),
    "figures": Laboratory(experiment=_native, options=_USUAL, torch=False, reports=True, moment="figures/*.svg"),
}
"""What is worked on, and how."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a disk gets full: the options of its mount, and the file at whose appearance it is filled."""

    name: str
    mount: str = _AMPLE
    at: str = ""


@dataclass(kw_only=True)
class Ended:
    """What became of a way: a row of the table."""

    laboratory: str
    way: str
    seconds: float
    codes: list[int]
    said: str
    wrong: list[str] = field(default_factory=list)


class Disk:
    """A file system that is mounted in the block."""

    def __init__(self, at: Path):
        self.path = at / "disk"
        self.path.mkdir()

    def mount(self, options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.path)], check=True)

    def used(self) -> tuple[int, int]:
        """Inodes, and kilobytes."""
        found = os.statvfs(self.path)
        return found.f_files - found.f_ffree, (found.f_blocks - found.f_bfree) * found.f_frsize // 1024

    def fill(self) -> None:
        """Until neither a byte nor a file fits."""
        with contextlib.suppress(OSError), open(self.path / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        with contextlib.suppress(OSError):
            for number in range(10**6):
                (self.path / f"ballast-{number}").touch()

    def free(self) -> None:
        for path in self.path.glob("ballast*"):
            path.unlink()
        subprocess.run(["mount", "-o", f"remount,{_AMPLE}", str(self.path)], check=True)


def _command(words: Sequence[str], output: int, laboratory: Laboratory) -> int:
    """The process of a `headway` command, in a session of its own."""

    def work() -> int:
        if not laboratory.torch:
            sys.modules.pop("torch", None)  # its processes go on with the next run
        if not laboratory.reports:
            headway.api.finish = lambda store, **_: write(store)
        headway.execute.places.LocalPlace.process = kills.process  # type: ignore[method-assign,assignment]
        sys.argv = ["headway", *words]
        try:
            cli.main()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return kills._forked(work, output, session=True)


class Filler:
    """Ways of one laboratory.

    Attributes:
        seconds: that it takes on an ample disk.
    """

    def __init__(self, name: str, folder: Path):
        self._name, self._laboratory, self._folder = name, LABORATORIES[name], folder
        self._disk, self._file = Disk(folder), folder / "mine.yaml"
        self._file.write_text(self._laboratory.experiment().dump())
        self._disk.mount(_AMPLE)
        self._results = self._disk.path / "results"
        self._at_results = 0
        codes, self.seconds, said = self._run("results.json", self._look)
        assert not any(codes), f"{name}: on an ample disk it ended with {codes}: {said}"
        self._inodes, self._kilobytes = self._disk.used()
        self._at_results = self._at_results or self._kilobytes
        self._whole = self._found()
        self._disk.unmount()

    def ways(self, n: int) -> list[Way]:
        """So many, of each kind."""
        moments = ["experiment.yaml", "runs/*/*/metrics.jsonl", "runs/*/*/checkpoint/*.json", "runs/*/*/seal.json"]
        named = [*moments, "results.json", self._laboratory.moment][: max(1, n * 6 // _EVERY_WAY)]
        by_inodes, by_size = (n - len(named) + 1) // 2, (n - len(named)) // 2
        inodes = [3 + round((self._inodes - 5) * at / max(1, by_inodes - 1)) for at in range(by_inodes)]
        sizes = [4 + round((self._at_results - 4) * at / max(1, by_size - 1)) for at in range(by_size - 1)]
        sizes.append(self._kilobytes - 12)  # most of all is the report
        little = f"size={self._kilobytes + 2_000}k,nr_inodes={self._inodes + 60}"  # which is filled at once
        return [
            *(
                Way(name=f"{number} inodes of {self._inodes}", mount=f"size=300m,nr_inodes={number}")
                for number in inodes
            ),
            *(Way(name=f"{size} kB of {self._kilobytes}", mount=f"size={size}k") for size in sizes),
            *(Way(name=f"filled at {pattern}", at=pattern, mount=little) for pattern in named),
        ]

    def go(self, way: Way) -> Ended:
        """Let a disk get full, see the end, and go on."""
        self._disk.mount(way.mount)
        try:
            codes, seconds, said = self._run(way.at, self._disk.fill, within_s=self.seconds + 2 * WITHIN_S)
            ended = Ended(laboratory=self._name, way=way.name, seconds=seconds, codes=codes, said=said)
            before = _lines(self._results)
            self._judge_end(ended)
            self._disk.free()
            codes, _, said = self._run(again=True)
            if any(codes):
                ended.wrong.append(f"went on to {codes}: {said}")
            found = self._found()
            ended.wrong += [f"{name}: other bits" for name, whole in self._whole.items() if found.get(name) != whole]
            ended.wrong += [f"{run}: lost lines" for run, lines in before.items() if not _are_in(lines, found[run])]
            return ended
        finally:
            self._disk.unmount()

    def _judge_end(self, ended: Ended) -> None:
        if ended.seconds > WITHIN_S + self.seconds:
            ended.wrong.append("late")
        for code in ended.codes:
            if code not in (0, 1):
                ended.wrong.append(f"exit code {code}")
        has_advice = "resume" in ended.said or "try again" in ended.said
        if any(ended.codes) and ("Traceback" in ended.said or not has_advice):
            ended.wrong.append("no advice")

    def _look(self) -> None:
        self._at_results = self._disk.used()[1]

    def _run(
        self, at: str = "", do: Callable[[], object] = bool, *, within_s: float = _AGAIN_S, again: bool = False
    ) -> tuple[list[int], float, str]:
        """Exit codes of all commands, the seconds until the last ended, and the errors or the last line."""
        command = ["run", str(self._file), "--out", str(self._results), *self._laboratory.options]
        words = {"run": command, "worker": ["worker", str(self._results), "--slots", "1"]}
        output = self._folder / "output.txt"
        over, began = threading.Event(), time.monotonic()
        with open(output, "wb") as file:
            pids = [_command(command, file.fileno(), self._laboratory)]
            thread = threading.Thread(target=self._do_at, args=(at, do, over))
            thread.start()
            for other in () if again else self._laboratory.others:
                if self._has_begun(pids[0]):
                    pids.append(_command(words[other], file.fileno(), self._laboratory))
            codes = [_code(pid, began + within_s) for pid in pids]
        over.set()
        thread.join()
        said = [line for line in output.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("error: ") or "Traceback" in line]
        return codes, time.monotonic() - began, " // ".join(errors or said[-1:])

    def _do_at(self, pattern: str, do: Callable[[], object], over: threading.Event) -> None:
        while pattern and not over.is_set():
            if glob.glob(str(self._results / pattern)):
                do()
                return
            time.sleep(0.001)

    def _has_begun(self, pid: int) -> bool:
        """Wait until a driver works on runs; False if it ends before."""
        while kills._session(pid):
            if glob.glob(str(self._results / "runs/*/*/lease")):
                return True
            time.sleep(0.005)
        return False

    def _found(self) -> dict[str, dict[str, Any]]:
        return {kills._name(run): kills.lasting(run) for run in Store.open(self._results).runs()}


def _code(pid: int, until: float) -> int:
    """The exit code of a command and its session; -1 if it had to be killed."""
    code = None
    while time.monotonic() < until:
        if code is None:
            found, status = os.waitpid(pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if found else None
        if code is not None and not kills._session(pid):
            return code
        time.sleep(0.01)
    for process in kills._session(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return -1


def _lines(results: Path) -> dict[str, list[dict[str, Any]]]:
    """The whole lines that each run had recorded."""
    found = {}
    for path in results.glob("runs/*/*/metrics.jsonl"):
        lines = path.read_bytes().split(b"\n")[:-1]
        found[f"{path.parent.parent.name}/{path.parent.name.removeprefix('seed-')}"] = [*map(json.loads, lines)]
    return found


def _are_in(lines: Sequence[dict[str, Any]], run: dict[str, Any]) -> bool:
    """Whether what was recorded before stands there still, but for times."""
    known = {record["step"]: record for record in run["records"]}
    return all(
        line["step"] in known and all(line.get(key) == value for key, value in known[line["step"]].items())
        for line in lines
    )


def fill(n: int, laboratories: Sequence[str], tell: Callable[[str], object] = print) -> list[Ended]:
    """So many ways in each laboratory; rows of a table are told as they come."""
    folder, ended = Path(tempfile.mkdtemp(prefix="headway-disks-")), []
    os.environ["HEADWAY_CACHE"] = str(folder / "cache")
    tell("| laboratory | way | s | exit code | said | went on |\n|---|---|---|---|---|---|")
    try:
        with kills._hurried():
            for number, name in enumerate(sorted(laboratories, key=lambda name: LABORATORIES[name].torch)):
                for module in kills._LOADED if LABORATORIES[name].torch else ():
                    import_module(module)
                (folder / str(number)).mkdir()
                filler = Filler(name, folder / str(number))
                tell(f"| {name} | an ample disk | {filler.seconds:.1f} | 0 | | |")
                for way in filler.ways(n):
                    row = filler.go(way)
                    ended.append(row)
                    codes = ", ".join(map(str, row.codes))
                    said = row.said.replace(str(folder), "").replace("|", "/")[:110]
                    tell(
                        f"| {row.laboratory} | {row.way} | {row.seconds:.1f} | {codes} | {said} | "
                        f"{'; '.join(row.wrong) or 'with equal bits'} |"
                    )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def as_root() -> list[str]:
    """What a command begins with that may mount file systems.

    Raises:
        PermissionError: where neither this user nor a user namespace may.
    """
    tried = "mount -t tmpfs tmpfs /mnt && umount /mnt"
    for before in ([], ["unshare", "--map-root-user", "--mount"]):
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*before, "sh", "-c", tried], capture_output=True, check=False).returncode == 0:
                return before
    raise PermissionError("neither this user nor a user namespace of its own (unshare -rm) may mount a file system")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Fill disks under `headway run`, and go on.")
    parser.add_argument("--ways", "--n", type=int, default=_EVERY_WAY, dest="ways", help="in each laboratory")
    parser.add_argument("--laboratories", nargs="+", choices=list(LABORATORIES), default=list(LABORATORIES))
    asked = parser.parse_args(arguments)
    if before := as_root():
        return subprocess.run([*before, sys.executable, __file__, *sys.argv[1:]], check=False).returncode
    ended = fill(asked.ways, asked.laboratories, lambda line: print(line, flush=True))
    wrong, worst = sum(bool(row.wrong) for row in ended), max(row.seconds for row in ended)
    print(f"\n{len(ended)} ways, {wrong} with something wrong; the last to end took {worst:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

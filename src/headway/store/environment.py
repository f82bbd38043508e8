"""The execution environment of a run: everything that may change bits, but is not a part of the configuration.

It stands in run.json apart from the configuration. So a run that resumes elsewhere, or two runs that are compared, can
be seen to have been computed differently.

`slots` divides this machine among runs at the same time: shares of the processor's cores, or GPUs. A worker is started
with its slot: it sees its own GPU only.
"""

import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from headway.base.text import counted
from headway.config.yaml import differing, leaves
from headway.errors import UserError


def surroundings() -> dict[str, Any]:
    """Versions, host and processor of this process; torch's version only where it is used."""
    packages = ("headway", "numpy", *(("torch",) if "torch" in sys.modules else ()))
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "host": socket.gethostname(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two executions, each as `KEY BEFORE -> NOW`.

    An instruction set that only one of them records is unknown, and no difference.

    Examples:
        >>> changes({"threads": 1, "versions": {"numpy": "2.0"}}, {"threads": 1, "versions": {"numpy": "2.1"}})
        ['versions.numpy 2.0 -> 2.1']
        >>> changes({"instruction_sets": {"ATen": "AVX512"}}, {"instruction_sets": {"ATen": "AVX2", "MKL": "AVX2"}})
        ['instruction_sets.ATen AVX512 -> AVX2']
    """
    old, new = leaves(before), leaves(now)
    unknown = {key for key in old.keys() ^ new.keys() if key.startswith("instruction_sets")}
    return [f"{key} {old.get(key)} -> {new.get(key)}" for key in differing(old, new) if key not in unknown]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_seconds() -> float:
    """Processor time until now, in seconds, of this process with its ended children."""
    # `os.times` counts ticks of 10 ms, which a short run does not fill.
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Processor time until now, in seconds: of this process with its ended children, and of the whole machine."""

    own: float
    machine: float
    at: float
    """A moment by a clock that nobody sets."""

    @classmethod
    def now(cls) -> "Usage":
        """The use until this moment."""
        times = psutil.cpu_times()
        machine = sum(getattr(times, kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal"))
        return cls(own=processor_seconds(), machine=machine, at=time.monotonic())

    def others_since(self, before: "Usage") -> float:
        """The cores that other processes have kept busy since then, on average."""
        others = (self.machine - before.machine) - (self.own - before.own)
        return max(0.0, others / max(self.at - before.at, 1e-9))


def is_quiet(others: float) -> bool:
    """Return whether a machine is quiet enough for its seconds to be a measurement.

    Args:
        others: the cores that other processes keep busy.
    """
    return others <= max(0.25, 0.02 * (os.cpu_count() or 1))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"  # run from its sources


def _processor() -> str:
    try:
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        return names[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return platform.processor()


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for one run: the device and threads of its worker, and what is added to its environment."""

    device: str
    threads: int
    environment: Mapping[str, str] = field(default_factory=dict)


MOST_WORKERS = 10_000
MOST_PER_GPU = 64


def slots(
    device: str, *, workers: int | None, runs: int, uses_gpu: bool = True, runs_per_gpu: int = 1
) -> tuple[Slot, ...]:
    """The places for runs, as many as are worked on at once.

    Args:
        device: the devices: `auto` takes the GPUs if there are any, `cuda` insists on them, `cuda:N` is one of them,
            `cpu`.
        workers: the largest number of places; None: every GPU, or one for each core.
        runs: the number of runs.
        uses_gpu: True if the runs include language models, which a GPU can compute.
        runs_per_gpu: the number of runs that share a GPU; each has its share of the memory, which is not enforced.

    Raises:
        UserError: when there is no worker, or no such device.

    Examples:
        >>> [slot.device for slot in slots("cpu", workers=2, runs=4)]
        ['cpu', 'cpu']
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers {workers}: at least 1 is needed; leave it out for one for each core")
    if workers is not None and workers > MOST_WORKERS:
        raise UserError(f"workers {workers}: at most {MOST_WORKERS:,} processes are started; give fewer")
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise UserError(f"device {device}: there is no such device; choose from auto, cpu, cuda and cuda:N")
    if not 1 <= runs_per_gpu <= MOST_PER_GPU:
        raise UserError(f"runs per GPU {runs_per_gpu}: give 1 to {MOST_PER_GPU}")
    if device == "cpu" and runs_per_gpu > 1:
        raise UserError(f"runs per GPU {runs_per_gpu}: device cpu has no GPU; leave one of them out")
    seen = visible_gpus() if device != "cpu" and uses_gpu else ()
    if device.startswith("cuda"):
        seen = _asked(device, seen, uses_gpu)
    if not seen:
        n = workers or max(1, min(cores(), runs))
        return (Slot(device="cpu", threads=_share(n)),) * n
    chosen = (seen * runs_per_gpu)[:workers]  # every GPU gets one before any gets two
    # `auto` stays: a torch without support for this GPU then computes on the processor.
    kind = "auto" if device == "auto" else "cuda"
    return tuple(
        Slot(device=kind, threads=_share(len(chosen)), environment={"CUDA_VISIBLE_DEVICES": gpu}) for gpu in chosen
    )


def check_device(device: str, *, workers: int | None, runs_per_gpu: int) -> None:
    """Raise UserError if the device does not exist, or if so many runs cannot share it, whatever they do.

    Raises:
        UserError: if `slots` would raise it.
    """
    slots(device, workers=workers, runs=1, uses_gpu=device.startswith("cuda"), runs_per_gpu=runs_per_gpu)


def visible_gpus() -> tuple[str, ...]:
    """The GPUs of this process as CUDA names them, found without torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        before_end = [name.strip() for name in named.split(",")]
        return tuple(before_end[: before_end.index("-1")] if "-1" in before_end else filter(None, before_end))
    files = [path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()]
    # A driver without files of its own lists its GPUs.
    n = len(files) or sum(line.startswith("GPU ") for line in _nvidia_smi("-L"))
    return tuple(str(number) for number in range(n))


def free_gpu_bytes(gpus: Sequence[str]) -> int | None:
    """The least memory that is free on one of some GPUs, by the driver's tool; None where that cannot be known."""
    query = ("--query-gpu=memory.free", "--format=csv,noheader,nounits", "-i", ",".join(dict.fromkeys(gpus)))
    try:
        return min(int(free) for free in _nvidia_smi(*query)) << 20
    except ValueError:  # no answer, or one that is no number
        return None


def _nvidia_smi(*options: str) -> list[str]:
    """Return the lines that the driver's tool prints; none if it is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        done = subprocess.run([tool, *options], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _asked(device: str, seen: tuple[str, ...], uses_gpu: bool) -> tuple[str, ...]:
    if not uses_gpu:
        raise UserError(f"device {device}: in-context models train on the processor; take cpu")
    number = device.partition(":")[2]
    if not seen or (number and int(number) >= len(seen)):
        raise UserError(f"device {device}: {counted(len(seen), 'GPU')} can be seen here; take cpu")
    return (seen[int(number)],) if number else seen


def _share(n: int) -> int:
    return max(1, cores() // n)

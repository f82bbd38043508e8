"""Runs: how a run was executed: what may change bits, but is no part of what was asked.

It stands in run.json apart from the configuration, so that a run that goes on elsewhere, or two that are compared,
can be seen to have been computed differently.
"""

import os
import platform
import socket
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headway.declare.mapping import leaves


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
    """What differs between two executions, each as `KEY BEFORE -> NOW`.

    An instruction set that only one of them records, as directories of before do not, is unknown and no difference.

    Examples:
        >>> changes({"threads": 1, "versions": {"numpy": "2.0"}}, {"threads": 1, "versions": {"numpy": "2.1"}})
        ['versions.numpy 2.0 -> 2.1']
        >>> changes({"instruction_sets": {"ATen": "AVX512"}}, {"instruction_sets": {"ATen": "AVX2", "MKL": "AVX2"}})
        ['instruction_sets.ATen AVX512 -> AVX2']
    """
    old, new = leaves(before), leaves(now)
    unknown = {key for key in old.keys() ^ new.keys() if key.startswith("instruction_sets")}
    differing = (key for key in sorted((old | new).keys() - unknown) if old.get(key) != new.get(key))
    return [f"{key} {old.get(key)} -> {new.get(key)}" for key in differing]


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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

"""How long verbs that answer take on many finished runs, whole processes, beside another checkout where one is named.

    python benchmarks/compare.py [--seeds 50] [--rounds 7] [--verbs compare,status,report] [--empty] [--against PATH]

The runs are fabricated: the ten arms of head progression, sealed, each with 121 records; `--seeds 1000` makes 10,000.
With `--empty` a directory has no note of what was read before (`.checked.json`), otherwise it has. Checkouts take turns
in each round, the first of which is not counted. Printed are the median and the range of wall time and of processor
time, which on a machine that others use says more; and what `headway compare --help` takes, which is the start alone.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make(path: Path, seeds: int) -> None:
    """A directory of finished runs."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.fabricate_text import fabricate_text, head_progression

    contrasts = {"descending": {"better": "descending-*", "than": "constant-*"}}
    experiment = head_progression(baseline="constant-medium", contrasts=contrasts).select(seeds=seeds, controls=[])
    sync, os.fsync = os.fsync, lambda _: None  # nothing of it has to survive
    fabricate_text(path, experiment)
    os.fsync = sync


def took(checkout: Path, *command: str) -> tuple[float, float]:
    """Seconds on the wall and of the processor that a process takes."""
    paths = os.pathsep.join([str(checkout / "src"), os.environ.get("PYTHONPATH", "")])
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *command], env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.DEVNULL, check=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--verbs", default="compare")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    checkouts = [ROOT] if asked.against is None else [asked.against, ROOT]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs"
        make(path, asked.seeds)
        timed = {verb: ("-m", "headway", verb, str(path)) for verb in asked.verbs.split(",")} | {
            "start": ("-m", "headway", "compare", "--help")
        }
        found: dict[tuple[str, Path], list[tuple[float, float]]] = {}
        for turn in range(asked.rounds + 1):
            for checkout in checkouts:
                for what, command in timed.items():
                    if asked.empty:
                        (path / ".checked.json").unlink(missing_ok=True)
                    one = took(checkout, *command)
                    found.setdefault((what, checkout), []).extend([one] if turn else [])
    for (what, checkout), seconds in found.items():
        for kind, values in zip(("wall", "processor"), zip(*seconds, strict=True), strict=True):
            said = f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"
            print(f"{10 * asked.seeds} runs, {what:7} {kind:9} {said}  {checkout}")


if __name__ == "__main__":
    main()

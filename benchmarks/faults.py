"""What odd input does: mutated experiment files, command lines and model folders; a table of what was found.

    python benchmarks/faults.py files --n 100000      # about half an hour on a core that is free
    python benchmarks/faults.py lines --n 10000
    python benchmarks/faults.py folders --n 2000

An error for users is what a case should end with, or nothing. Findings are tracebacks, hangs, memory that is filled,
errors that cannot be read, and anything of a folder that was run; each is kept in `findings/`. The limits: 2 s of
processor time and 500 MB for files and lines, 10 s and 1 GB more than before for folders. How cases are made stands in
`tests/faults/`.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))

import fuzz_experiments
import fuzz_folders

Fuzz = Callable[..., tuple[int, list[fuzz_experiments.Finding]]]


def files(n: int) -> Fuzz:
    return partial(fuzz_experiments.fuzz, files=n, commands=0)


def lines(n: int) -> Fuzz:
    return partial(fuzz_experiments.fuzz, files=0, commands=n)


def folders(n: int) -> Fuzz:
    return partial(fuzz_folders.fuzz, folders=n)


KINDS = {"files": (files, 100_000), "lines": (lines, 10_000), "folders": (folders, 2_000)}
"""With how many of each make the table of LOG.md."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--n", type=int, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same cases")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    asked = parser.parse_args()
    made, usual = KINDS[asked.kind]
    began, worked = time.monotonic(), time.process_time()
    tried, found = made(asked.n or usual)(seed=asked.seed, seconds=asked.seconds, told=partial(print, flush=True))
    wall, work = time.monotonic() - began, time.process_time() - worked
    print("| what | tried | findings | wall s | processor s | of them a second of the processor |")
    print("|---|---|---|---|---|---|")
    print(f"| {asked.kind} | {tried:,} | {len(found)} | {wall:,.0f} | {work:,.0f} | {tried / work:.1f} |")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""What breaks Headway: the tables of LOG.md, by hand and at length; a part of each is among the tests.

    python benchmarks/faults.py damages --n 2000     # random damage to every kind of file, none may be believed
    python benchmarks/faults.py kills --n 1000       # sweeps of all laboratories, ended at random moments
    python benchmarks/faults.py disk --n 20          # disks that get full under every laboratory, in so many ways each
    python benchmarks/faults.py files --n 100000     # mutated experiment files: half an hour on a free core
    python benchmarks/faults.py lines --n 10000      # mutated command lines
    python benchmarks/faults.py folders --n 2000     # hostile model folders
    python benchmarks/faults.py directories --n 5000 # hostile results directories, and a tree outside

An error for users is what odd input should end with, or nothing; findings are tracebacks, hangs, memory that is filled
(2 s of processor time and 500 MB for files and lines, 10 s and 1 GB more than before for folders), errors that cannot
be read, and anything of a folder that was run. How cases are made stands in `tools/faults/`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"
sys.path.insert(0, str(TOOLS))


def damages(asked: argparse.Namespace) -> bool:
    """Damage to finished directories and to interrupted runs, in the numbers that each kind of it came to."""
    from faults import damager

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        finished, resumed = damager.damages(asked.n, asked.seed, Path(folder), asked.resumes)
    for title, counts in (("damage to finished directories", finished), ("damage before a resume", resumed)):
        total = sum(counts.values(), Counter[str]())
        names = ("noticed", "harmless", "overlooked", "believed")
        print(f"\n| {title} ({total.total():,}) | {' | '.join(damager.DAMAGES)} | {' | '.join(names)} |")
        print("|" + "---|" * (1 + len(damager.DAMAGES) + len(names)))
        for kind in dict.fromkeys(kind for kind, _ in counts):
            tried = [counts[kind, damage].total() for damage in damager.DAMAGES]
            of_kind = sum((counts[kind, damage] for damage in damager.DAMAGES), Counter[str]())
            print(f"| {kind} | {' | '.join(map(str, [*tried, *(of_kind[name] for name in names)]))} |")
        tried = [sum(counts[k, d].total() for k, d in counts if d == damage) for damage in damager.DAMAGES]
        print(f"| all | {' | '.join(map(str, [*tried, *(total[name] for name in names)]))} |")
    print(f"\nseed {asked.seed}, {time.monotonic() - began:.0f} s")
    both = sum([*finished.values(), *resumed.values()], Counter[str]())
    return not both["believed"] and not both["overlooked"]


def kills(asked: argparse.Namespace) -> bool:
    """Sweeps ended at random moments, in a process that loads nothing else."""
    options = [f"--{name}={getattr(asked, name)}" for name in ("n", "seed", "seconds")]
    return subprocess.run([sys.executable, TOOLS / "faults" / "kills.py", *options], check=False).returncode == 0


def disk(asked: argparse.Namespace) -> bool:
    """Disks that get full, in a process that loads nothing else; on a laboratory alone with --only."""
    options = [f"--ways={asked.n}", *(["--laboratories", *asked.only] if asked.only else [])]
    return subprocess.run([sys.executable, TOOLS / "faults" / "full_disks.py", *options], check=False).returncode == 0


def fuzz(asked: argparse.Namespace) -> bool:
    """Odd input; each finding is kept in `findings/`."""
    from faults import fuzz_experiments, fuzz_folders

    tries = {
        "files": partial(fuzz_experiments.fuzz, files=asked.n, commands=0),
        "lines": partial(fuzz_experiments.fuzz, files=0, commands=asked.n),
        "folders": partial(fuzz_folders.fuzz, folders=asked.n),
        "directories": lambda **given: import_module("faults.fuzz_directories").fuzz(directories=asked.n, **given),
    }
    began, worked = time.monotonic(), sum(os.times()[:4])
    tried, found = tries[asked.part](seed=asked.seed, seconds=asked.seconds, told=partial(print, flush=True))
    wall, work = time.monotonic() - began, sum(os.times()[:4]) - worked
    print("| what | tried | findings | wall s | processor s | of them a second of the processor |")
    print("|---|---|---|---|---|---|")
    print(f"| {asked.part} | {tried:,} | {len(found)} | {wall:,.0f} | {work:,.0f} | {tried / work:.1f} |")
    return not found


PARTS = {
    "damages": (damages, 2_000),
    "kills": (kills, 1_000),
    "disk": (disk, 20),
    "files": (fuzz, 100_000),
    "lines": (fuzz, 10_000),
    "folders": (fuzz, 2_000),
    "directories": (fuzz, 5_000),
}
"""With how many of each make the table of LOG.md."""


def main() -> int:
    """Do a part; 1 when it found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True, metavar="PART", dest="part")
    for name, (do, usual) in PARTS.items():
        part = parts.add_parser(name, help=do.__doc__)
        part.add_argument("--n", type=int, default=usual, help="how many cases")
        part.add_argument("--seed", type=int, default=0, help="the same seed, the same cases")
        part.set_defaults(do=do)
        if do is damages:
            part.add_argument("--resumes", type=int, default=200, help="damages to interrupted runs")
        elif do is disk:
            part.add_argument("--only", nargs="+", help="laboratories, as tools/faults/full_disks.py names them")
        else:
            part.add_argument("--seconds", type=float, default=7200.0, help="stop after so many")
    asked = parser.parse_args()
    return 0 if asked.do(asked) else 1


if __name__ == "__main__":
    sys.exit(main())

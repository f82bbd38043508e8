"""What breaks Headway: the tables of LOG.md on damage, by hand and at length; a minute of each is among the tests.

    python benchmarks/faults.py damages --n 2000    # random damage to every kind of file, none may be believed

Each part is a function from its arguments to whether all went well; it prints its table.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "faults"), str(TESTS)]


def damages(asked: argparse.Namespace) -> bool:
    """Damage to finished directories and to interrupted runs, in the numbers that each kind of it came to."""
    import damager

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


def main() -> int:
    """Do a part; 1 when it found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True, metavar="PART")
    part = parts.add_parser("damages", help=damages.__doc__)
    part.add_argument("--n", type=int, default=2000, help="damages to finished directories")
    part.add_argument("--resumes", type=int, default=200, help="damages to interrupted runs")
    part.add_argument("--seed", type=int, default=0)
    part.set_defaults(do=damages)
    asked = parser.parse_args()
    return 0 if asked.do(asked) else 1


if __name__ == "__main__":
    sys.exit(main())

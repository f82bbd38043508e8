"""What Headway survives, counted: the tables of LOG.md.

    python benchmarks/faults.py kills --n 1000

`kills` ends sweeps of all laboratories at random moments, in every way, and goes on with them: see
`tests/faults/kills.py`.
"""

import runpy
import sys
from pathlib import Path

FAULTS = Path(__file__).parents[1] / "tests" / "faults"
COMMANDS = {"kills": FAULTS / "kills.py"}


def main() -> None:
    """Run the command that is named, with what follows."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: python benchmarks/faults.py {{{','.join(COMMANDS)}}} ...")
    script = COMMANDS[sys.argv[1]]
    sys.argv = [str(script), *sys.argv[2:]]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()

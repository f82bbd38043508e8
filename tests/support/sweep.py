"""As a script: work on all runs of a directory with two workers, as `headway run` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from headway.execute.sweep import run_all
from headway.store.directory import Store
from support import quadratic

if __name__ == "__main__":
    for _ in run_all(Store.open(sys.argv[1]).runs(), quadratic.places(2)):
        pass

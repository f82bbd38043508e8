"""As a script: work on all runs of a directory with two workers, as `headway run` does.

A second argument has a private Ray do it, whose slots work in the directory (`shared`) or on `copies`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from headway.execute.ray_cluster import ray_cluster
from headway.execute.ray_places import AllRayPlaces
from headway.execute.sweep import run_all
from headway.store.directory import Store
from support import quadratic

if __name__ == "__main__":
    directory, *how = sys.argv[1:]
    runs = Store.open(directory).runs()
    if how:
        with ray_cluster("local", workers=2) as joined:
            shared, path = how == ["shared"], Path(directory)
            for _ in run_all(runs, AllRayPlaces(joined, path, command=quadratic.WORKER, device="cpu", shared=shared)):
                pass
    else:
        for _ in run_all(runs, quadratic.places(2)):
            pass

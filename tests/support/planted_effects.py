"""Runs that take no time and end with a metric that was planted; as a script, one process that settles a directory.

An arm's effect in per cent is its learning rate times 10, less that of the plain arm; what a seed does to all arms and
the rest are drawn from the seed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import headway.store.lease
from headway.adaptive.until import PlanContext, Until, goal_of
from headway.base import rng
from headway.config.experiment import Experiment
from headway.config.load import resolve
from headway.errors import Diverged
from headway.execute.places import local_places
from headway.execute.sweep import run_all
from headway.execute.work import work
from headway.store.directory import Store
from headway.train.loop import Conclusion
from support import quadratic

WORKER = (sys.executable, __file__, "--work")
SPREAD = 0.3
"""Of a run beside its seed, in per cent."""
FAILS = 90.0
"""An effect from which on a run diverges."""


def experiment(effects: dict[str, float], **document: object) -> Experiment:
    """Arms with these effects in per cent; the first is the baseline."""
    return resolve(
        {
            "name": "planted",
            "task": {"kind": "regression", "d_x": 2, "n_pairs": 3},
            "model": {"family": "icl", "n_heads": 2},
            "training": {"optimizer": "sgd", "learning_rate": 1.0, "batch_size": 1, "steps": 2},
            "evaluation": {"every": 1},
            "probes": {"circuits": []},
            "logging": {"every": 1},
            "arms": {name: {"training": {"learning_rate": 1 + effect / 10}} for name, effect in effects.items()},
            "baseline": next(iter(effects)),
        }
        | document
    )


def study(spec, stored):
    """A study that ends with the planted metric after two steps."""
    effect = 10 * (spec.training.learning_rate - 1)
    if effect >= FAILS:
        raise Diverged("planted")
    time.sleep(float(os.environ.get("PLANTED_S", "0")))
    of_seed = 2 * rng.generator(spec.seed, "seed").normal()
    rest = SPREAD * rng.generator(spec.seed, "rest", round(1e6 * spec.training.learning_rate)).normal()
    found = quadratic.study(spec, stored)
    metrics = {"eval_mse": float(np.exp((effect + of_seed + rest) / 100))}
    return type(found)(**{**vars(found), "measures": (), "conclude": lambda: Conclusion(metrics=metrics)})


def hands(path: Path, of: Experiment, tell: Callable[[str], object], apart: bool = False) -> PlanContext:
    """What a goal works with: this process, or processes of their own (`apart`), at two places."""
    places = local_places("cpu", workers=2, runs=2, command=WORKER)

    def run(pairs):
        runs = Store.with_runs(path, of, pairs)[1]
        if not apart:
            for one in runs:
                assert one.status == "done" or work(one.path, study) in (0, 1)
            return
        for _ in run_all(runs, places):
            pass

    return PlanContext(
        experiment=of,
        path=path,
        run=run,
        tell=tell,
    )


def wished(**asked: object) -> Until | None:
    """A goal, from what a call says."""
    return goal_of(**{"until": None, "at_most": None, "seeds": None} | asked)


def settle(path: Path, of: Experiment, goal: Until, apart: bool = False) -> tuple[list[str], list[str]]:
    """What is told on the way, and at the end."""
    told: list[str] = []
    has = hands(path, of, told.append, apart)
    plan, first = goal.begin(has)
    Store.with_runs(path, first, first.runs)
    return told, list(goal.resume(plan, has))


def main() -> int:
    """A worker on a run, or one process that settles a directory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("--work", action="store_true")
    parser.add_argument("--parent", type=int)
    parser.add_argument("--at-most", type=int)
    asked, _ = parser.parse_known_args()
    if asked.work:
        headway.store.lease._BEAT_S = 0.1
        return work(asked.path, study, parent=asked.parent)
    of = Store.open(asked.path).experiment
    goal = wished(until="0.5%", at_most=asked.at_most)
    for said in settle(asked.path, of, goal, apart=True)[1]:
        print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())

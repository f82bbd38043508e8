"""Places where runs are worked on: what each costs on tiny runs, the queue with 1,000 slots, and nodes that are killed.

    python benchmarks/places.py [tiny] [queue] [nodes] [--runs 200] [--rounds 20]

`tiny`: in-context runs of about a second's tenth, by 2 local workers with a process each and with lasting processes,
by a private Ray with 2 slots, and by 2 joined workers, in one run of this script. The wall time is from when the first
run begins until the last has ended; the idle share is what of both workers' time then lies in no run, by the runs' own
clocks, so the beginning and end of processes count as idle.
`queue`: simulated places (tests/support/faults.py).
`nodes`: rounds on a Ray cluster of three nodes on this machine, in which nodes are killed and added at random while
runs of two laboratories go on; every run must end with the bits of an undisturbed one.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from headway.config.experiment import Experiment
from headway.config.load import resolve
from headway.execute.places import Place, lasting, local_places
from headway.execute.ray_cluster import ray_cluster
from headway.execute.ray_places import AllRayPlaces
from headway.execute.sweep import run_all
from headway.store.directory import Store
from headway.store.lease import Lease
from headway.store.run import Run

_PASSING = ("_s", "_bytes")


def tiny(n_runs: int, steps: int = 200) -> Experiment:
    """In-context runs of which each takes a moment."""
    return resolve(
        {
            "name": "tiny",
            "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
            "model": {"family": "icl", "n_heads": 2},
            "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": steps},
            "evaluation": {"every": 100, "prompts_during": 100, "prompts": 500, "curve": None},
            "logging": {"every": 50},
            "arms": {"one": {"model": {"n_heads": 1}}, "two": {}},
            "baseline": "two",
            "seeds": n_runs // 2,
        }
    )


def prepared(directory: Path, experiment: Experiment) -> tuple[Run, ...]:
    return Store.with_runs(directory, experiment, experiment.runs)[1]


def timed(runs: Sequence[Run], places: Iterable[Place]) -> tuple[float, float]:
    """Seconds from the start of the first run to the end of the last, and the idle share of two workers meanwhile."""
    began = None
    for snapshot in run_all(runs, places):
        if began is None and any(run.step or run.status == "done" for run in snapshot.runs):
            began = time.perf_counter()
    return ended(runs, time.perf_counter() - (began or 0.0))


def ended(runs: Sequence[Run], wall_s: float) -> tuple[float, float]:
    done = [Run.open(run.path) for run in runs]
    assert all(run.status == "done" for run in done), [run.message for run in done if run.message][:3]
    return wall_s, 1 - sum(run.metrics["wall_s"] for run in done) / (2 * wall_s)


def by_joined(n_runs: int, directory: Path) -> tuple[float, float]:
    """By two workers that have joined, and wait for a run that this process has; then the others are there too."""
    experiment = tiny(n_runs)
    (first,) = Store.with_runs(directory, experiment, experiment.runs[:1])[1]
    command = [sys.executable, "-m", "headway", "worker", str(directory), "--slots", "1", "--device", "cpu"]
    with Lease.take(first.path / "lease"):
        workers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()  # that it has seen who has the run
        runs = prepared(directory, experiment)
    while not any((run.path / "metrics.jsonl").exists() for run in runs[1:]):
        time.sleep(0.01)
    began = time.time()
    assert [worker.wait() for worker in workers] == [0, 0]
    return ended(runs, max((run.path / "run.json").stat().st_mtime for run in runs) - began)


def compare_tiny(n_runs: int, left_out: Sequence[str] = ()) -> None:
    """A table of the ways in which the same runs are worked on."""
    folder = Path(tempfile.mkdtemp(prefix="headway-places-"))
    here = local_places("cpu", workers=2, runs=2)
    ways: dict[str, Callable[[Path], tuple[float, float]]] = {
        "2 local workers, a process a run": lambda path: timed(prepared(path, tiny(n_runs)), here),
        "2 local workers, lasting": lambda path: timed(prepared(path, tiny(n_runs)), lasting(here)),
        "2 joined workers": lambda path: by_joined(n_runs, path),
    }
    print(f"{n_runs} tiny runs\n\n| way | wall s | to the lasting ones | idle share |\n|---|---|---|---|", flush=True)
    found = {}
    for name, way in ways.items():
        if name in left_out:
            continue
        directory = folder / name.replace(" ", "-").replace(",", "")
        found[name] = way(directory)
        base = found.get("2 local workers, lasting", (float("nan"), 0.0))[0]
        print(f"| {name} | {found[name][0]:.1f} | {found[name][0] / base:.2f} | {found[name][1]:.0%} |", flush=True)
    shutil.rmtree(folder)


def compare_queue() -> None:
    """The queue with a simulated place."""
    from support.faults import Cluster

    one = Cluster(n_slots=1_000, n_runs=100_000).outcome()
    peak = Cluster(n_slots=1_000, n_runs=100_000).outcome(memory=True).peak_bytes
    print("\n| slots | runs | done | failed | lost | idle share | queue, ms a run (CPU) | memory, MB |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| 1,000 | 100,000 | {one.done:,} | {one.failed:,} | {one.lost:,} | {one.idle_share:.2%} | "
        f"{1000 * one.queue_s_per_run:.3f} | {peak / 1e6:.0f} |",
        flush=True,
    )


def lasting_part(run: Run) -> Any:
    """What must be the same in two executions."""
    run = Run.open(run.path)
    run.check()
    kept = lambda record: {key: value for key, value in record.items() if not key.endswith(_PASSING)}  # noqa: E731
    weights = {name: value.tobytes() for name, value in run.weights().items()}
    return run.status, kept(run.metrics), [kept(record) for record in run.records()], weights, run.curves()


def laboratories(n_runs: int) -> tuple[Experiment, Experiment]:
    """So many runs of each of two laboratories, or one more, that take seconds each."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    from faults import kills

    tokens = kills.tokens(60)
    return tiny(n_runs + 1, steps=200_000), tokens.select(seeds=-(-n_runs // len(tokens.arms)))


def disturb_nodes(rounds: int, per_round: int, seed: int) -> None:
    """Rounds of runs while nodes are killed and added."""
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3"}
    folder, chance = Path(tempfile.mkdtemp(prefix="headway-nodes-")), random.Random(seed)
    small = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
    both = laboratories(per_round)
    whole: dict[str, Any] = {}
    for number, experiment in enumerate(both):
        runs = prepared(folder / f"whole-{number}", experiment)[:per_round]
        for _ in run_all(runs, lasting(local_places("cpu", workers=2, runs=2))):
            pass
        whole |= {f"{number}/{run.name}/{run.seed}": lasting_part(run) for run in runs}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0})
    nodes = [cluster.add_node(**small) for _ in range(3)]
    n_runs = n_killed = n_differing = n_undone = 0
    try:
        for round_ in range(rounds):
            for number, experiment in enumerate(both):
                directory = folder / f"{round_}-{number}"
                runs = prepared(directory, experiment)[:per_round]
                next_s = time.monotonic() + chance.uniform(3, 10)
                with ray_cluster(cluster.address) as joined:
                    for _ in run_all(runs, AllRayPlaces(joined, directory, device="cpu")):
                        if time.monotonic() > next_s:
                            next_s = time.monotonic() + chance.uniform(5, 15)
                            cluster.remove_node(nodes.pop(chance.randrange(len(nodes))), allow_graceful=False)
                            nodes.append(cluster.add_node(**small))
                            n_killed += 1
                for run in runs:
                    n_runs += 1
                    now = Run.open(run.path)
                    n_undone += now.status != "done"
                    key = f"{number}/{run.name}/{run.seed}"
                    n_differing += now.status == "done" and lasting_part(run) != whole[key]
                shutil.rmtree(directory)
            print(
                f"round {round_ + 1}: {n_runs} runs, {n_killed} nodes killed, {n_differing} differ, {n_undone} undone",
                flush=True,
            )
    finally:
        cluster.shutdown()
        shutil.rmtree(folder)
    print("\n| rounds | runs | nodes killed | differing bits | without a result |\n|---|---|---|---|---|")
    print(f"| {rounds} | {n_runs} | {n_killed} | {n_differing} | {n_undone} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["tiny", "queue", "nodes"], default=["tiny", "queue"])
    parser.add_argument("--runs", type=int, default=200, help="tiny runs")
    parser.add_argument("--all", action="store_true", help="a process a run too, which takes ten times as long")
    parser.add_argument("--rounds", type=int, default=20, help="of killed nodes")
    parser.add_argument("--per-round", type=int, default=30, help="runs of each laboratory in a round")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if "tiny" in asked.what:
        compare_tiny(asked.runs, [] if asked.all else ["2 local workers, a process a run"])
    if "queue" in asked.what:
        compare_queue()
    if "nodes" in asked.what:
        disturb_nodes(asked.rounds, asked.per_round, asked.seed)


if __name__ == "__main__":
    main()

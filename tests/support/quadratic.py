"""A study that takes no time: gradient descent with momentum on noisy quadratics; run as a script it is a worker.

Everything that real studies have is there: state beyond the weights, measures, arrays of heads, a divergence. Each
step takes QUADRATIC_STEP_S seconds, so that tests can interrupt it, and checkpoints come every QUADRATIC_CHECKPOINT_S.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import headway.execute.work
import headway.store.lease
from headway.base import rng
from headway.config.experiment import Experiment
from headway.config.load import resolve
from headway.config.run import RunSpec
from headway.errors import Diverged
from headway.execute.places import LocalPlace, local_places
from headway.execute.work import work
from headway.store import lease, verify
from headway.store.directory import Store
from headway.store.lease import Lease, last_holder
from headway.store.run import Run
from headway.train.loop import Conclusion, Measure, Measurements, Study

WORKER = (sys.executable, __file__)


class Quadratic:
    """Weights descend 0.5 w^2 with momentum and noise that depends on the seed and the step."""

    def __init__(self, seed: int, rate: float, step_s: float = 0.0):
        self.step, self._seed, self._rate, self._step_s = 0, seed, rate, step_s
        self._w = rng.generator(seed, "start").normal(size=(2, 3)).astype(np.float32)
        self._velocity = np.zeros_like(self._w)

    def advance(self, n: int) -> np.ndarray:
        losses = np.empty(n)
        for i in range(n):
            time.sleep(self._step_s)
            noise = rng.generator(self._seed, "noise", self.step + 1).normal(size=self._w.shape)
            with np.errstate(over="ignore", invalid="ignore"):
                self._velocity = np.float32(0.9) * self._velocity - np.float32(self._rate) * (self._w + noise)
                self._velocity = self._velocity.astype(np.float32)
                self._w = self._w + self._velocity
                losses[i] = np.square(self._w, dtype=np.float32).mean()
            self.step += 1
            if not np.isfinite(losses[i]):
                raise Diverged(f"the loss of step {self.step} is {losses[i]}")
        return losses

    def state(self) -> dict[str, np.ndarray]:
        return {"weights/W": self._w, "optimizer/velocity": self._velocity}

    def restore(self, step: int, state: dict[str, np.ndarray]) -> None:
        self.step, self._w, self._velocity = step, state["weights/W"].copy(), state["optimizer/velocity"].copy()

    def weights(self) -> dict[str, np.ndarray]:
        return {"W": self._w}


def study(spec: Any, stored: Mapping[str, Any] = {}, *, step_s: float = 0.0) -> Study:
    trainer = Quadratic(spec.seed, spec.training.learning_rate, step_s)
    mean = Measure(
        due=lambda step: step % spec.evaluation.every == 0,
        take=lambda: Measurements(metrics={"eval_mse": np.square(trainer.weights()["W"]).mean(dtype=np.float64)}),
    )
    heads = Measure(
        due=lambda step: step in spec.probes.circuits,
        take=lambda: Measurements(arrays={"qk": trainer.weights()["W"]}),
    )
    return Study(
        trainer=trainer,
        measures=(mean, heads),
        execution={"trainer": "quadratic", "threads": 1},
        conclude=lambda: Conclusion(
            metrics={"eval_mse": float(trainer.weights()["W"].mean()), "nothing": float("nan")},
            curves={"line": [1, 2]},
        ),
    )


def experiment(steps: int = 60, **document: Any) -> Experiment:
    """A small experiment: arms `slow` and `fast`, a control, milestones every 5 steps."""
    return resolve(
        {
            "name": "quadratics",
            "task": {"kind": "regression", "d_x": 2, "n_pairs": 3},
            "model": {"family": "icl", "n_heads": 2},
            "training": {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 1, "steps": steps},
            "evaluation": {"every": 7},
            "probes": {"circuits": [1, 10, 50]},
            "logging": {"every": 5},
            "arms": {"slow": {}, "fast": {"training": {"learning_rate": 0.1}}},
            "controls": {"long": {"training": {"steps": 2 * steps}}},
            "baseline": "slow",
            "seeds": 2,
        }
        | document
    )


def brief(**document: Any) -> Experiment:
    """The same arms without a control, for a few steps: a real worker takes a moment for them."""
    evaluation = {"every": 7, "prompts": 100, "curve": None}
    return experiment(**{"steps": 12, "controls": {}, "evaluation": evaluation, **document})


def endless(seeds: int = 2) -> Experiment:
    """Real in-context runs of the same arms, which last until somebody stops them."""
    return experiment(
        task={"kind": "regression", "d_x": 3, "n_pairs": 8},
        training={"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": 50_000_000},
        evaluation={"every": 10_000, "prompts": 100, "curve": None},
        logging={"every": 10_000},
        controls={},
        seeds=seeds,
    )


def fresh_run(directory: Path, seed: int = 0, **document: Any) -> Run:
    """A run folder that nobody has worked on yet."""
    of = experiment(**document)
    return Store.create(directory, of).add(of.arm("slow"), seed)


def places(n: int = 2, command: Sequence[str] = WORKER) -> tuple[LocalPlace, ...]:
    """So many places on the processor, where workers on quadratics are started."""
    return local_places("cpu", workers=n, runs=n, command=command)


def train_here(run: Run) -> int:
    """Work on a run in this process, without pauses."""
    return work(run.path, study)


def lasting(run: Run) -> dict[str, Any]:
    """What must be the same in two runs of one content: all but times, memory and where it was computed."""
    run = Run.open(run.path)
    kept = lambda record: {key: value for key, value in record.items() if not key.endswith(verify.PASSING)}  # noqa: E731
    return {
        "status": run.status,
        "metrics": kept(run.metrics),
        "records": [kept(record) for record in run.records()],
        "weights": {name: value.tobytes() for name, value in run.weights().items()},
        "heads": {step: run.head_arrays(step)["qk"].tobytes() for step in run.head_steps()},
        "curves": run.curves(),
    }


def taken(run: Run) -> Lease:
    """The lease of a run in this process; it does not beat before it is entered."""
    return Lease.take(run.path / "lease")


def at_step(step: int, action: Callable[[], object]) -> Measure:
    """A measure that does something else at a step."""

    def take() -> Measurements:
        action()
        return Measurements()

    return Measure(due=lambda now: now == step, take=take)


def owner(run: Run) -> int | None:
    """The process that owns a run folder."""
    holder = last_holder(run.path / "lease")
    return holder.pid if holder and not holder.released else None


def given_up(run: Run) -> None:
    """Let somebody give up on the owner of a run, as after a minute of watching it in vain."""
    sight = lease.seen(run.path / "lease")
    assert sight is not None
    assert lease.give_up(run.path / "lease", sight)


def take_over(run: Run) -> None:
    """Let another process give up on the owner of a run, and finish it."""
    given_up(run)
    subprocess.run([*WORKER, str(run.path)], check=True)


def lives(process: psutil.Process) -> bool:
    """Whether a process has not ended; nobody may have asked yet how it did."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_until(happened: Callable[[], object], timeout_s: float = 120.0) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def main() -> int:
    """A worker on quadratics; the options of the real one are taken and ignored, except for the parent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--trainer")
    parser.add_argument("--together")
    asked, _ = parser.parse_known_args()
    step_s = float(os.environ.get("QUADRATIC_STEP_S", "0"))
    headway.store.lease._BEAT_S = 0.1
    headway.execute.work.CHECKPOINT_EVERY_S = float(os.environ.get("QUADRATIC_CHECKPOINT_S", "60"))

    def opened(spec: RunSpec, stored: Mapping[str, Any]) -> Study:
        if "QUADRATIC_ERROR" in os.environ:
            raise RuntimeError(os.environ["QUADRATIC_ERROR"])
        return study(spec, stored, step_s=step_s)

    return work(asked.run_dir, opened, parent=asked.parent)


if __name__ == "__main__":
    sys.exit(main())

"""Train: how fast a run would train on this machine, from a short trial."""

import time

from headway.declare.run import RegressionRun
from headway.train.regression import open_study


def trial_steps_per_s(run: RegressionRun, seconds: float = 0.3) -> float:
    """Optimizer steps per second of a trial of about `seconds`, eager where torch trains; nothing is kept."""
    trainer = open_study(run, compile=False).trainer
    # The first step also pays for what is set up once.
    trainer.advance(1)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        portion = max(1, steps)
        trainer.advance(portion)
        steps += portion
    return steps / (time.perf_counter() - began)

"""A task that Headway does not have, added by its slices and an entry in the table: from a document to a report.

Run as a script by `test_laboratories`, in a process of its own, whose tables then have one more kind.
"""

import sys
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import create_model

from headway.base import rng
from headway.config.kinds import run_kinds
from headway.config.lm.run import TASKS, TokensRun
from headway.config.lm.task import TokensTask
from headway.data.batch import MASKED, Batch, Examples


class EchoTask(TokensTask):
    """Say the token before."""

    primary: ClassVar[str] = "eval_loss_nats"
    examples: ClassVar[str] = "__main__.EchoExamples"
    judge: ClassVar[str] = "headway.train.lm.evaluate.Judge"
    baselines: ClassVar[str] = "__main__.baselines"
    vocab_size: ClassVar[int] = 8

    kind: Literal["echo"]
    n_ctx: int


TASKS["echo"], run_kinds()["echo"] = EchoTask, create_model("TokensRun", __base__=TokensRun, task=(EchoTask, ...))


class EchoExamples(Examples):
    """Random tokens; nothing is asked at the first of them."""

    def __init__(self, task):
        self.task = task

    vocab_size = EchoTask.vocab_size
    digest = "echo"

    def training_batch(self, seed, step, batch_size):
        return self._drawn(rng.generator(seed, "echo", step), batch_size)

    def evaluation_batches(self, sequences, batch_size):
        for step in range(-(-(sequences or 16) // batch_size)):
            yield self._drawn(rng.generator(0, "echo evaluation", step), batch_size)

    def _drawn(self, generator, batch_size):
        inputs = generator.integers(self.vocab_size, size=(batch_size, self.task.n_ctx))
        targets = np.roll(inputs, 1, axis=1)
        targets[:, 0] = MASKED
        return Batch(inputs=inputs, targets=targets)

    def steps_per_epoch(self, batch_size):
        return float("inf")

    def targets_per_step(self, batch_size):
        return batch_size * (self.task.n_ctx - 1)


def baselines(runs):
    return {"guess": {"loss_nats": float(np.log(runs[0].spec.task.vocab_size))}}


DOCUMENT = {
    "name": "echo",
    "task": {"kind": "echo", "n_ctx": 12},
    "model": {"family": "gpt-neo", "d_model": 16, "n_layers": 1},
    "training": {"optimizer": "adamw", "learning_rate": 0.03, "batch_size": 32, "steps": 150},
    "evaluation": {"every": 50, "sequences_during": 32, "sequences": 64},
    "samples": None,
    "logging": {"every": 50},
    "arms": {"no-head": {"model": {"n_heads": 0}}, "h1": {"model": {"n_heads": 1}}},
    "baseline": "no-head",
    "seeds": 1,
}


def main(directory):
    from headway import api
    from headway.config.load import resolve
    from headway.execute.work import work
    from headway.store.environment import slots
    from headway.train.loop import training_part_of

    store, runs = api.prepare(resolve(DOCUMENT), directory, slots("cpu", workers=1, runs=1))
    for run in runs:
        study = partial(training_part_of(run.spec).open_study, compile=False, device="cpu")
        assert work(run.path, lambda spec, stored, study=study: study(spec)) == 0
    api.finish(store)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Train: how fast a run would train on this machine, from a short trial."""

import time

from headway import streams
from headway.declare.run import RegressionRun, RunSpec, TextRun


def trial_steps_per_s(run: RunSpec, seconds: float = 0.3) -> float:
    """Optimizer steps per second of a trial of about `seconds`, eager where torch trains; nothing is kept.

    A language model is tried on random tokens, since its corpus may not be here yet, and on as many sequences at once
    as the time allows: the time of a step grows with them.
    """
    if isinstance(run, TextRun):
        return _text_steps_per_s(run, seconds)
    from headway.train.regression import open_study

    assert isinstance(run, RegressionRun)
    trainer = open_study(run, compile=False).trainer
    # The first step also pays for what is set up once.
    trainer.advance(1)
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        portion = max(1, steps)
        trainer.advance(portion)
        steps += portion
    return steps / (time.perf_counter() - began)


def _text_steps_per_s(run: TextRun, seconds: float) -> float:
    from headway.data.text import Batch
    from headway.model.transformer import Transformer
    from headway.model.weights import initial_weights
    from headway.train.text import TextLoss, text_trainer

    vocab_size, n_ctx = run.task.vocab_size, run.task.n_ctx
    module = Transformer(run.model, vocab_size, initial_weights(run.model, vocab_size, run.seed))
    loss = TextLoss(run, module, compile=False)
    tokens = streams.generator(0, "trial").integers(vocab_size, size=(2, loss.part_size, n_ctx))
    at_once = 1
    trainer = text_trainer(
        loss,
        steps=1_000_000,
        parts=lambda _step: loss.split(Batch(inputs=tokens[0, :at_once], targets=tokens[1, :at_once])),
    )

    def step_s() -> float:
        began = time.perf_counter()
        trainer.advance(1)
        return time.perf_counter() - began

    step_s()  # pays for what is set up once
    took = step_s()
    while at_once < loss.part_size and 2 * took < seconds:
        at_once = min(2 * at_once, loss.part_size)
        took = step_s()
    times = [took]
    while sum(times) < seconds:
        times.append(step_s())
    return at_once / run.training.batch_size / (sum(times) / len(times))

"""Train: how fast a transformer would train on this machine, from a short trial."""

import time
from collections.abc import Callable, Sequence

import torch

from headway import streams
from headway.data.tokens.examples import Batch, open_examples
from headway.declare.tokens.run import TokensRun
from headway.model.transformer import Transformer
from headway.model.weights import initial_weights
from headway.train.tokens.loss import TokensLoss
from headway.train.tokens.study import tokens_trainer
from headway.train.tokens.together import ensemble_of

_STEPS = 1_000_000
"""More than any trial takes."""


def trial_steps_per_s(run: TokensRun, seconds: float) -> float:
    """Optimizer steps per second of about so many seconds, eager.

    Examples that are drawn are the task's own; of a corpus, which may not be here yet, they are random tokens.
    """
    vocab_size = run.task.vocab_size
    module = Transformer(run.model, vocab_size, initial_weights(run.model, vocab_size, run.seed))
    loss = TokensLoss(run, module, compile=False)
    batch = _batch(run, loss.part_size)
    # As many sequences at once are tried as the time allows: the time of a step grows with them.
    at_once = 1
    trainer = tokens_trainer(loss, steps=_STEPS, parts=lambda _step: loss.split(batch.rows(slice(at_once))))
    _timed(trainer.advance)  # pays for what is set up once
    took = _timed(trainer.advance)
    while at_once < loss.part_size and 2 * took < seconds:
        at_once = min(2 * at_once, loss.part_size)
        took = _timed(trainer.advance)
    return at_once / run.training.batch_size / _mean_s(trainer.advance, seconds, took)


def trial_together_per_s(runs: Sequence[TokensRun], seconds: float) -> float:
    """Optimizer steps per second of all of some runs of one shape, on examples that are drawn, as one program."""
    ensemble, _ = ensemble_of(runs, open_examples(runs[0].task), _STEPS, torch.device("cpu"))
    _timed(ensemble.advance)
    return len(runs) / _mean_s(ensemble.advance, seconds, _timed(ensemble.advance))


def _batch(run: TokensRun, size: int) -> Batch:
    if not run.corpora:
        return open_examples(run.task).training_batch(0, 0, size)
    tokens = streams.generator(0, "trial").integers(run.task.vocab_size, size=(2, size, run.task.n_ctx))
    return Batch(inputs=tokens[0], targets=tokens[1])


def _mean_s(advance: Callable[[int], object], seconds: float, first: float) -> float:
    """Of a step, whose first took so long."""
    times = [first]
    while sum(times) < seconds:
        times.append(_timed(advance))
    return sum(times) / len(times)


def _timed(advance: Callable[[int], object]) -> float:
    began = time.perf_counter()
    advance(1)
    return time.perf_counter() - began

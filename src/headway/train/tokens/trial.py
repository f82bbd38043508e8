"""Train: how fast a transformer would train on this machine, from a short trial."""

import time

from headway import streams
from headway.data.tokens.examples import Batch
from headway.declare.tokens.run import TokensRun
from headway.model.transformer import Transformer
from headway.model.weights import initial_weights
from headway.train.tokens.loss import TokensLoss
from headway.train.tokens.study import tokens_trainer


def trial_steps_per_s(run: TokensRun, seconds: float) -> float:
    """Optimizer steps per second of about so many seconds, eager, on random tokens: the corpus may not be here yet.

    As many sequences at once are tried as the time allows: the time of a step grows with them.
    """
    vocab_size, n_ctx = run.task.vocab_size, run.task.n_ctx
    module = Transformer(run.model, vocab_size, initial_weights(run.model, vocab_size, run.seed))
    loss = TokensLoss(run, module, compile=False)
    tokens = streams.generator(0, "trial").integers(vocab_size, size=(2, loss.part_size, n_ctx))
    at_once = 1
    trainer = tokens_trainer(
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

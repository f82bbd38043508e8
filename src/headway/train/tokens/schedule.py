"""Train: how long a transformer is trained, and how its step size changes.

A step size is a share of the highest one, so every optimizer of a run follows the same course, and a restored run
needs nothing but its step.
"""

import math

from headway.data.tokens.examples import Examples
from headway.declare.tokens.run import TokensRun
from headway.declare.tokens.training import TokensTraining


def rate_share(training: TokensTraining, step: int, steps: int) -> float:
    """The step size of a step (the first is 1) over the highest one.

    It rises by equal parts, so that the last step of the warm-up has all of it, and the step after that too; from
    there it falls, so that it would be 0 one step after the last: no step is wasted.

    Paper: with no warm-up and linear decay, that of the head-progression study (transformers' linear schedule).

    Examples:
        >>> from headway.declare.tokens.training import TokensAdamW
        >>> training = TokensAdamW(optimizer="adamw", steps=6, batch_size=1, learning_rate=1.0, warmup_steps=2)
        >>> [rate_share(training, step, 6) for step in range(1, 7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step <= training.warmup_steps:
        return step / training.warmup_steps
    done = (step - 1 - training.warmup_steps) / (steps - training.warmup_steps)
    if training.decay == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1 - done if training.decay == "linear" else 1.0


def steps_of(run: TokensRun, examples: Examples) -> int:
    """Optimizer steps, with the data at hand; a last step that an epoch does not fill is left out."""
    per_epoch = examples.steps_per_epoch(run.training.batch_size)
    if run.training.epochs is not None:
        return max(1, int(run.training.epochs * per_epoch))
    assert run.declared_steps is not None
    return run.declared_steps

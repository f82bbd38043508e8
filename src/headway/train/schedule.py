"""Train: how long a language model is trained, and how its step size changes: pure functions of the declaration.

A step size is a share of the highest one, so every optimizer of a run follows the same course, and a restored run
needs nothing but its step.
"""

import math

from headway.declare.text import TextTask
from headway.declare.training import TextTraining


def rate_share(training: TextTraining, step: int, steps: int) -> float:
    """The step size of a step (the first is 1) over the highest one.

    It rises by equal parts, so that the last step of the warm-up has all of it, and the step after that too; from
    there it falls, so that it would be 0 one step after the last: no step is wasted.

    Paper: with no warm-up and linear decay, that of the head-progression study (transformers' linear schedule).

    Examples:
        >>> from headway.declare.training import TextAdamW
        >>> training = TextAdamW(optimizer="adamw", steps=6, batch_size=1, learning_rate=1.0, warmup_steps=2)
        >>> [rate_share(training, step, 6) for step in range(1, 7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step <= training.warmup_steps:
        return step / training.warmup_steps
    done = (step - 1 - training.warmup_steps) / (steps - training.warmup_steps)
    if training.decay == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1 - done if training.decay == "linear" else 1.0


def declared_steps(task: TextTask, training: TextTraining) -> int | None:
    """Optimizer steps, as far as they can be known without the corpus: None where epochs are given.

    Examples:
        >>> from headway.declare.training import TextAdamW
        >>> task = TextTask(kind="text", corpus="stories", n_ctx=128)
        >>> declared_steps(task, TextAdamW(optimizer="adamw", tokens=2_000_000, batch_size=8, learning_rate=1.0))
        1953
    """
    if training.tokens is not None:
        return max(1, training.tokens // (training.batch_size * task.n_ctx))
    return training.steps


def steps_of(task: TextTask, training: TextTraining, steps_per_epoch: float) -> int:
    """Optimizer steps, with the corpus at hand; a last step that an epoch does not fill is left out."""
    if training.epochs is not None:
        return max(1, int(training.epochs * steps_per_epoch))
    steps = declared_steps(task, training)
    assert steps is not None
    return steps

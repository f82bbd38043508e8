"""Data: rows of bits and a query; asked is whether the number of ones is odd."""

import numpy as np

from headway.data.tokens.known import KnownExamples, asked_last
from headway.declare.tokens.parity import ParityTask

QUERY = 2


def open_examples(task: ParityTask) -> KnownExamples:
    """Every row of bits, once.

    Examples:
        >>> batch = open_examples(ParityTask(kind="parity", n_bits=2)).training_batch(seed=0, step=0, batch_size=4)
        >>> batch.inputs.tolist(), batch.targets[:, -1].tolist()
        ([[0, 0, 2], [1, 0, 2], [0, 1, 2], [1, 1, 2]], [0, 1, 1, 0])
    """
    bits = np.arange(task.n_inputs, dtype=np.int64)[:, None] >> np.arange(task.n_bits) & 1
    inputs = np.concatenate((bits, np.full((task.n_inputs, 1), QUERY)), axis=1)
    return KnownExamples(task, every=asked_last(inputs, bits.sum(1) % 2))

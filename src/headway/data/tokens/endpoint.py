"""Data: edges, a selector and a query; asked is the end that the selector names."""

import numpy as np

from headway.data.tokens.known import KnownExamples, asked_last
from headway.declare.tokens.endpoint import EndpointTask


def open_examples(task: EndpointTask) -> KnownExamples:
    """Every edge with either selector, once.

    Examples:
        >>> task = EndpointTask(kind="endpoint", vertices=2, graph="tournament")
        >>> batch = open_examples(task).training_batch(seed=0, step=0, batch_size=2)
        >>> batch.inputs.tolist(), batch.targets[:, -1].tolist()
        ([[0, 1, 2, 4], [0, 1, 3, 4]], [0, 1])
    """
    edges = np.repeat(np.array(task.pairs, np.int64), 2, axis=0)
    which = np.tile([0, 1], len(task.pairs))
    n = len(edges)
    inputs = np.column_stack((edges, task.vertices + which, np.full(n, task.vertices + 2)))
    return KnownExamples(task, every=asked_last(inputs, edges[np.arange(n), which]))

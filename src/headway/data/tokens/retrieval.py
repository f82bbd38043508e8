"""Data: normal inputs and the sum of their largest projections, asked at the class token."""

import numpy as np

from headway import streams
from headway.data.tokens.examples import Batch
from headway.data.tokens.known import KnownExamples
from headway.declare.tokens.retrieval import RetrievalTask


def directions(task: RetrievalTask) -> np.ndarray:
    """The directions a_i of a task, of length 1; at right angles as long as there is room."""
    drawn = streams.generator(0, "directions", task.d_x, task.targets).standard_normal((task.targets, task.d_x))
    found = drawn.copy()
    for i in range(1, min(task.targets, task.d_x)):
        known = np.linalg.qr(found[:i].T)[0]
        found[i] -= known @ (known.T @ found[i])
    unit: np.ndarray = found / np.linalg.norm(found, axis=1, keepdims=True)
    return unit


def open_examples(task: RetrievalTask) -> KnownExamples:
    """Fresh inputs for every step."""
    a = directions(task)

    def draw(random: np.random.Generator, n: int) -> Batch:
        inputs = random.standard_normal((n, task.length, task.d_x), np.float32)
        targets = np.full((n, task.n_ctx, 1), np.nan, np.float32)
        targets[:, -1, 0] = (inputs @ a.T.astype(np.float32)).max(1).sum(1)
        return Batch(inputs=inputs, targets=targets)

    return KnownExamples(task, draw=draw)

"""Data: letters, and what followed the latest earlier occurrence of each."""

import numpy as np

from headway.data.tokens.examples import MASKED, Batch
from headway.data.tokens.hops import hop, letters_without_repeats
from headway.data.tokens.known import KnownExamples
from headway.declare.tokens.induction import InductionTask


def open_examples(task: InductionTask) -> KnownExamples:
    """Fresh letters for every step; nothing is asked where a letter stands for the first time."""

    def draw(random: np.random.Generator, n: int) -> Batch:
        sequences = letters_without_repeats(random, n, task.length, task.letters)
        at = hop(sequences)
        answers = np.take_along_axis(sequences, at.clip(0), axis=1)
        return Batch(inputs=sequences, targets=np.where(at < 0, MASKED, answers))

    return KnownExamples(task, draw=draw)

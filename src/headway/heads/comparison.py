"""Heads: what is measured of a model's heads beside the same of untrained heads on the same stream.

What reads one batch gives its trace, and the traces of heads that are drawn anew. Each draw is measured as the model
is, on the same rows, so that an untrained model is one more draw.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.declare.head_metrics import HEAD_METRICS, REPEATED
from headway.heads.circuits import CIRCUITS, circuit_scores
from headway.heads.examination import Repetition
from headway.heads.scores import HeadScores
from headway.heads.stream import HeadStream
from headway.heads.stream_null import StreamNull, stream_null
from headway.heads.subject import subject
from headway.model.redraw import Redrawable, redrawn
from headway.model.transformer import Transformer

PAIRS = 128
"""Pairs of heads are compared in attentions of at most so many heads: every draw has all of them."""
_FORMULAS = {"query_cka": "uncentred", "query_cka_centred": "centred"}
_ROWS = 1024
"""Rows of the stream from which the formulas are taken."""


def examine_beside_untrained(
    text: Iterable[Redrawable],
    *,
    read: Callable[[Int[Tensor, "batch pos"]], Redrawable],
    repetition: Repetition | None,
    weights: Transformer | None,
    draws: int,
) -> dict[str, HeadScores]:
    """Every metric of every head of a model, as `examination.examine`, with draws of untrained heads.

    Args:
        text: a text that was read, batch by batch.
        read: what reads repeated tokens.
        repetition: those; None: nothing of repetition is measured.
        weights: one of Headway's models, for what is read off weights; None: nothing is.
        draws: how many times heads are drawn anew; 0: formulas alone say what untrained heads show.

    Raises:
        UserError: as `HeadStream` and `circuit_scores`.
    """
    of_text = _Beside(draws, lambda nulls: HeadStream(nulls=nulls))
    first: Redrawable | None = None
    for reading in text:
        first = first or reading
        of_text.add(reading)
    scores = of_text.scores()
    for metric, which in _FORMULAS.items():
        assert first is not None, "there are no scores of no text"
        formulas = _formulas(first, scores[metric].n_rows)
        found = {name: np.array(getattr(formula, which)) for name, formula in formulas.items()}
        scores[metric] = replace(scores[metric], formula=found)
    if repetition is not None:
        repeated = _Beside(draws, lambda nulls: HeadStream(REPEATED, repeats=True, nulls=nulls))
        for batch in repetition.batches:
            repeated.add(read(batch.tokens), batch.periods, batch.begins)
        scores |= repeated.scores()
    if weights is not None:
        scores |= _of_weights(weights, draws)
    return {metric: scores[metric] for metric in HEAD_METRICS if metric in scores}


class _Beside:
    """Metrics of the model's heads, and of every draw."""

    def __init__(self, draws: int, stream: Callable[[bool], HeadStream]) -> None:
        self._own = stream(True)
        self._drawn = [stream(False) for _ in range(draws)]

    def add(self, reading: Redrawable, periods: Tensor | None = None, begins: Tensor | None = None) -> None:
        self._own.add(reading.trace, periods, begins)
        for draw, stream in enumerate(self._drawn):
            stream.add(reading.redraw(draw), periods, begins)

    def scores(self) -> dict[str, HeadScores]:
        return _with_draws(self._own.scores(), [stream.scores() for stream in self._drawn])


def _of_weights(model: Transformer, draws: int) -> dict[str, HeadScores]:
    drawn = []
    for draw in range(draws):
        with redrawn(model, draw):
            drawn.append(circuit_scores(model, CIRCUITS))
    return _with_draws(circuit_scores(model, CIRCUITS), drawn)


def _with_draws(own: dict[str, HeadScores], drawn: Sequence[dict[str, HeadScores]]) -> dict[str, HeadScores]:
    """Scores with the same of draws, where all of these have a value."""
    found = {}
    for metric, score in own.items():
        there = [scores[metric] for scores in drawn if metric in scores]
        found[metric] = score
        if len(there) == len(drawn) and drawn:
            stacks = {
                name: np.stack([np.asarray(other.values[name], np.float32) for other in there])
                for name, value in score.values.items()
                if value.ndim < 2 or len(value) <= PAIRS
            }
            found[metric] = replace(score, draws=stacks)
    return found


def _formulas(reading: Redrawable, n_rows: int) -> dict[str, StreamNull]:
    """By attention, from the rows of one batch; none of queries that are no linear map of the stream."""
    found = {}
    for attention, x, turn in zip(reading.trace.attentions, reading.inputs, reading.turns, strict=True):
        if turn is not None:
            counted = subject(attention).counted
            few = max(1, _ROWS // x.shape[1])
            found[attention.name] = stream_null(torch.as_tensor(x)[:few].float(), counted[:few], turn, n_rows)
    return found

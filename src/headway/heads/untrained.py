"""Metrics of a model's heads next to those of untrained heads on the same stream.

A function that reads a batch gives its trace, and the traces of re-initialised heads. Each draw is measured as the
model is, on the same rows, so that an untrained model is one more draw.

On a long text Headway's metrics are measured at some queries of the drawn heads. A metric of the user's own is measured
at all queries: it may take entry (i, i) of a pattern for the weight of token i on itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway.base import rng
from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.heads.attention import mask_attention
from headway.heads.circuits import circuit_scores, embedding_of_read_out, ranks_of_trace, readable
from headway.heads.measure import HeadStream, Repeated
from headway.heads.scores import Scores
from headway.models.redraw import Redrawable, redrawn
from headway.models.trace import SomeQueries, Trace
from headway.models.transformer import Transformer

PAIRS = 128
"""The most heads of an attention whose pairs are compared: every draw has all pairs."""
_ROWS_OF_DRAWS, _ROWS_PER_WIDTH = 512, 16
"""The least number of positions at which drawn heads are measured, and the number for each dimension of a head."""


def examine_beside_untrained(
    text: Iterable[Redrawable],
    *,
    read: Callable[[Int[Tensor, "batch pos"]], Redrawable],
    repetition: Sequence[Repeated] | None,
    weights: Transformer | None,
    draws: int,
    n_rows: int | None = None,
) -> Scores:
    """Return every metric of every head of a model, as `measure.examine` does, with draws of untrained heads.

    Args:
        text: a text that was read, batch by batch.
        read: the function that reads repeated tokens.
        repetition: the repeated tokens; None: metrics of repetition are left out.
        weights: the model for metrics of weights, one of Headway's; None: these metrics are left out.
        draws: the number of re-initialisations of the heads.
        n_rows: the positions of the text in all; re-initialised heads are then measured at some of them
            (`rows_of_draws`). None: they are measured at all positions.

    Raises:
        UserError: if `HeadStream` or `circuit_scores` would raise it.
    """
    whole = [name for name, metric in HEAD_METRICS.items() if metric.family == "own"]
    of_text = _Beside(draws, lambda own: HeadStream(nulls=own, intervals=own), n_rows)
    of_plugins = _Beside(draws if whole else 0, lambda own: HeadStream(whole, nulls=own, intervals=own))
    first: Redrawable | None = None
    for reading in text:
        first = first or reading
        of_text.add(reading)
        of_plugins.add(reading)
    scores = of_text.scores() | of_plugins.scores()
    assert first is not None, "there are no scores of no text"
    if repetition is not None:
        repeated = _Beside(draws, lambda own: HeadStream(REPEATED, repeats=True, nulls=own, intervals=own))
        for batch in repetition:
            repeated.add(read(batch.tokens), batch.periods, batch.begins)
        scores |= repeated.scores()
    scores |= ranks_of_trace(first.trace) if weights is None else _of_weights(weights, draws)
    return {metric: scores[metric] for metric in HEAD_METRICS if metric in scores}


class _Beside:
    """The metrics of the model's heads, and of every draw."""

    def __init__(self, draws: int, stream: Callable[[bool], HeadStream], n_rows: int | None = None) -> None:
        self._own = stream(True)
        self._drawn = [stream(False) for _ in range(draws)]
        self._n_rows, self._batches = n_rows, 0

    def add(self, reading: Redrawable, periods: Tensor | None = None, begins: Tensor | None = None) -> None:
        self._own.add(reading.trace, periods, begins)
        if not self._drawn:
            return
        chosen = self._chosen(reading.trace, periods, begins)
        attentions = reading.trace.attentions
        counted = {} if chosen is None else {at.name: mask_attention(at).keys_counted for at in attentions}
        for draw, stream in enumerate(self._drawn):
            some = None if chosen is None else _some(reading.trace, counted, chosen, draw + self._batches)
            stream.add(replace(reading.redraw(draw, some), tokens=reading.trace.tokens), periods, begins)
        self._batches += 1

    def _chosen(
        self, trace: Trace, periods: Tensor | None, begins: Tensor | None
    ) -> "Callable[[int, int], np.ndarray] | None":
        """Return the queries of drawn heads, by their number and turn; None: all."""
        if periods is not None and begins is not None:
            # No metric uses queries before the repetition begins.
            first = int((periods + begins).min())
            return lambda n_queries, _turn: np.arange(min(first, n_queries - 1), n_queries)
        if self._n_rows is None:
            return None
        every = self._n_rows // rows_of_draws(self._n_rows, max(each.q.shape[3] for each in trace.attentions))
        return partial(_one_of, every) if every > 1 else None

    def scores(self) -> Scores:
        return _with_draws(self._own.scores(), [stream.scores() for stream in self._drawn])


def rows_of_draws(n_rows: int, d_head: int) -> int:
    """Return at how many positions of a text re-initialised heads are measured.

    Untrained heads differ from head to head and draw to draw far more than between positions, as long as positions are
    many beside the width of a head.
    """
    return min(n_rows, max(_ROWS_OF_DRAWS, _ROWS_PER_WIDTH * d_head))


def _one_of(every: int, n_queries: int, turn: int) -> np.ndarray:
    """Return one query of every few; each text, batch and draw takes other ones, so that all have a turn.

    The first queries see few keys and are like no others. That some draws have more of them adds to the spread of the
    draws, and not to their mean. Different texts take different ones, lest pairs of equal positions count more.
    """
    starts = np.arange(0, n_queries, every)
    first = rng.generator(0, "queries of redrawn heads", n_queries, every).integers(every, size=len(starts))
    return np.minimum(starts + (first + turn) % every, n_queries - 1)


def _some(
    trace: Trace, counted: Mapping[str, Tensor], chosen: Callable[[int, int], np.ndarray], turn: int
) -> dict[str, SomeQueries]:
    """Return some queries of each attention; attentions with one number of queries have the same."""
    shapes = {attention.name: (len(attention.q), attention.q.shape[2]) for attention in trace.attentions}
    of_shape = {
        (batch, n): torch.from_numpy(np.stack([chosen(n, turn + text // 2) for text in range(batch)]))
        for batch, n in set(shapes.values())
    }
    return {
        name: SomeQueries(places=of_shape[shape].to(counted[name].device), of=shape[1], keys_counted=counted[name])
        for name, shape in shapes.items()
    }


def _of_weights(model: Transformer, draws: int) -> Scores:
    metrics, drawn = readable(model), []
    # Heads that are drawn anew read and write the same stream.
    through = embedding_of_read_out(model) if "copying_score" in metrics else None
    for draw in range(draws):
        with redrawn(model, draw):
            drawn.append(circuit_scores(model, metrics, through))
    return _with_draws(circuit_scores(model, metrics, through), drawn)


def _with_draws(own: Scores, drawn: Sequence[Scores]) -> Scores:
    """Return scores together with the values of draws, where every draw has one."""
    scores_of_all = {}
    for metric, score in own.items():
        scores_of_all[metric] = score
        if drawn and all(metric in scores for scores in drawn):
            stacks = {
                name: np.stack([np.asarray(scores[metric].values[name], np.float32) for scores in drawn])
                for name, value in score.values.items()
                if value.ndim < 2 or len(value) <= PAIRS
            }
            scores_of_all[metric] = replace(score, draws=stacks)
    return scores_of_all

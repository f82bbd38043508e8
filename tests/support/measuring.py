"""Metrics of heads over traces that are there already."""

import torch

from headway.heads.measure import HeadStream
from headway.models.trace import Trace


def measure(traces, metrics=None, *, period=None):
    """Return the metrics of every head, over one trace or several together, of texts or of repeated tokens."""
    stream = HeadStream(metrics, repeats=period is not None)
    for trace in [traces] if isinstance(traces, Trace) else traces:
        stream.add(trace, *(() if period is None else repetition(trace, period)))
    return stream.scores()


def repetition(trace, period):
    """Return the period and the first repeated position of each text of a trace."""
    batch = len(trace.attentions[0].q)
    return torch.full((batch,), period), torch.zeros(batch, dtype=torch.long)

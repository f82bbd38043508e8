"""Finished: an x-ray of a text that is too short for one: what few tokens can say of heads, and a note."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from headway.declare.head_metrics import HEAD_METRICS, REPEATED
from headway.finished.measurable import evaluating
from headway.finished.opened import Opened
from headway.finished.text_loss import LossSoFar
from headway.finished.to_read import ToRead, described
from headway.heads.model_on_text import AttentionHeads
from headway.heads.xray import XRay

if TYPE_CHECKING:
    from headway.model.trace import Trace

_OF_FEW = ("patterns", "circuits")
"""Families of metrics that are measured on a text that is too short for the others."""


def is_too_few(opened: Opened, read: ToRead) -> bool:
    """Whether heads cannot be held against untrained ones on so few positions."""
    return read.size <= 2 * _widest(_attentions(opened, read.tokens))


def of_few(opened: Opened, read: ToRead) -> XRay:
    """Patterns and circuits; of examples of a task their loss, too."""
    import torch

    from headway.heads.circuits import readable
    from headway.heads.examination import examine

    of_weights = () if opened.ours is None else readable(opened.ours)
    metrics = [
        name
        for name, declared in HEAD_METRICS.items()
        if declared.family in _OF_FEW and name not in REPEATED and (declared.family != "circuits" or name in of_weights)
    ]
    loss = LossSoFar(opened=opened)

    def traces() -> "Iterator[Trace]":
        reading = opened.reading(read.tokens)
        if read.targets is not None:
            loss.add(reading, opened.on_device(read.tokens), read.targets_on(opened, 0, len(read.tokens)))
        yield reading.trace

    with torch.inference_mode(), evaluating(opened.module):
        scores = examine(traces(), metrics, trace=opened.traced, repetition=None, weights=opened.ours)
    attentions, n = _attentions(opened, read.tokens), read.size
    begun = "the text gives" if read.targets is None else f"{read.text} are"
    note = (
        f"{begun} {n:,} tokens: too few to hold these heads against untrained ones, or to say which are "
        f"alike; more than {2 * _widest(attentions):,} are needed"
    )
    notes = (note, *([loss.why] if loss.why else []))
    return XRay(**read.facts_of(opened), attentions=attentions, scores=scores, loss_nats=loss.mean, notes=notes)


def _attentions(opened: Opened, tokens: np.ndarray) -> tuple[AttentionHeads, ...]:
    import torch

    with torch.inference_mode(), evaluating(opened.module):
        return tuple(map(described, opened.trace(tokens[:1]).attentions))


def _widest(attentions: tuple[AttentionHeads, ...]) -> int:
    return max(attention.d_head for attention in attentions)

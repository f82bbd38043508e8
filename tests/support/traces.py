"""A small transformer of ragged heads, its trace, and laws that every metric of heads keeps."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from headway.config.head_metrics import HeadMetric
from headway.config.lm.model import Gpt2, TransformerModel
from headway.heads.scores import HeadScores
from headway.models.trace import AttentionTrace, Trace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from support.measuring import measure

MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2", windows=(None, 5), init_std=0.5)
VOCAB = 11
_ROUNDING = 1e-5


def small_model(model: TransformerModel = MODEL) -> Transformer:
    """A small model of ragged heads."""
    return Transformer(model, VOCAB, initial_weights(model, VOCAB, seed=0))


def traced() -> Trace:
    """Return a trace of the small model on random tokens."""
    tokens = torch.randint(0, VOCAB, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return replace(small_model().trace(tokens), tokens=tokens)


def out_of_range(declared: HeadMetric, scores: HeadScores) -> Iterator[str]:
    """Yield a sentence if values or null are not numbers, or lie outside the unit's range."""
    low, high = declared.limits
    for what, numbers in (("its values", scores.values), ("its null", scores.null)):
        for value in numbers.values():
            if not np.isfinite(value).all():
                yield f"{what} are not finite; see that nothing is divided by 0"
                return
            if value.min() < low - _ROUNDING or value.max() > high + _ROUNDING:
                yield (
                    f"{what} reach from {value.min():.3g} to {value.max():.3g}, and its unit says {declared.unit}; put "
                    "one of them right"
                )
                return


def of_other_order(name: str, trace: Trace) -> Iterator[str]:
    """Heads in another order have their scores in that order."""
    other = replace(trace, attentions=tuple(map(_reversed, trace.attentions)))
    plain, turned = (measure(each, [name])[name].values for each in (trace, other))
    for at, value in plain.items():
        expected = value[::-1, ::-1] if value.ndim == 2 else value[::-1] if value.ndim == 1 else value
        if not np.allclose(turned[at], expected, rtol=1e-4, atol=1e-6):
            yield "heads in another order did not have their scores in that order; treat all heads alike"
            return


def _reversed(attention: AttentionTrace) -> AttentionTrace:
    kv = len(attention.k[0]) - 1
    flipped = {key: getattr(attention, key).flip(1) for key in ("q", "k", "v", "z")}
    return replace(
        attention, **flipped, W_O=attention.W_O.flip(0), kv_of=tuple(kv - each for each in reversed(attention.kv_of))
    )

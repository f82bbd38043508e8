"""Check: metrics of heads and regularisers of one's own, tried on a small transformer of ragged heads."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headway.check.tried import Broken, tried
from headway.declare.head_metrics import HEAD_METRICS, HeadMetric
from headway.declare.tokens.transformer import Gpt2, TransformerModel
from headway.heads.scores import HeadScores
from headway.heads.stream import measure
from headway.heads.subject import Subject, subject
from headway.model.trace import AttentionTrace, Trace
from headway.model.transformer import Transformer
from headway.model.weights import initial_weights

MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2", windows=(None, 5), init_std=0.5)
VOCAB = 11
_RANGES = {"0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0), "fraction": (0.0, 1.0)}
_ROUNDING = 1e-5


def small_model(model: TransformerModel = MODEL) -> Transformer:
    """A small model of ragged heads."""
    return Transformer(model, VOCAB, initial_weights(model, VOCAB, seed=0))


def traced() -> Trace:
    """What its heads do with some tokens."""
    tokens = torch.randint(0, VOCAB, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return small_model().trace(tokens)


def head_metric(name: str, function: Callable[[Subject], Tensor]) -> Iterator[str]:
    """What laws a metric of heads breaks."""
    declared, trace = HEAD_METRICS[name], traced()
    try:
        for attention in trace.attentions:
            _check_shape(declared, attention, function)
        scores = tried(
            lambda: measure(trace, [name])[name],
            "measuring it",
            lambda one, other: all(np.array_equal(one.values[at], other.values[at]) for at in one.values),
        )
    except Broken as error:
        yield str(error)
        return
    yield from out_of_range(declared, scores)
    yield from of_other_order(name, trace)


def out_of_range(declared: HeadMetric, scores: HeadScores) -> Iterator[str]:
    """Whether values or null are no numbers, or none that the unit has."""
    low, high = _RANGES.get(declared.unit, (-np.inf, np.inf))
    for what, found in (("its values", scores.values), ("its null", scores.null)):
        for value in found.values():
            if not np.isfinite(value).all():
                yield f"{what} are not finite; see that nothing is divided by 0"
                return
            if value.min() < low - _ROUNDING or value.max() > high + _ROUNDING:
                yield (
                    f"{what} reach from {value.min():.3g} to {value.max():.3g}, and its unit says {declared.unit}; put "
                    "one of them right"
                )
                return


def _check_shape(declared: HeadMetric, attention: AttentionTrace, function: Callable[[Subject], Tensor]) -> None:
    n = attention.q.shape[1]
    value = tried(lambda: function(subject(attention)), "measuring an attention", _equal)
    wanted = {"head": (n,), "pair": (n, n), "layer": ()}[declared.of]
    if not isinstance(value, Tensor) or tuple(value.shape) != wanted:
        given = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise Broken(f"of {n} heads it gave {given}, and a metric of={declared.of!r} gives a tensor of shape {wanted}")
    if not value.isfinite().all():
        raise Broken("its values are not finite; see that nothing is divided by 0")


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


def regularizer(function: Callable[[Subject], Tensor]) -> Iterator[str]:
    """What laws a term of the loss breaks."""
    first = traced().attentions[0]
    try:
        value = tried(lambda: function(subject(first)), "measuring an attention", _equal)
    except Broken as error:
        yield str(error)
        return
    if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        yield f"of an attention it gave {given}; give one number, such as a mean, as a tensor"
        return
    if not value.isfinite():
        yield "it is not finite; see that nothing is divided by 0"
        return
    names = ("q", "k", "v", "z", "W_O")
    leaves = {key: getattr(first, key).clone().requires_grad_() for key in names}
    found = function(subject(replace(first, **leaves)))
    if not found.requires_grad:
        yield (
            "no gradient comes back from it to queries, keys, values or contexts, so that it would change nothing; use "
            "torch operations alone, without detach, item or no_grad"
        )
        return
    gradients = torch.autograd.grad(found, list(leaves.values()), allow_unused=True)
    if not all(gradient.isfinite().all() for gradient in gradients if gradient is not None):
        yield "its gradient is not finite; see that no root or norm of 0 is taken"


def _equal(one: Tensor, other: Tensor) -> bool:
    return bool(torch.equal(torch.as_tensor(one), torch.as_tensor(other)))

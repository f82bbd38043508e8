"""Heads: what must hold on the model at hand before any number about its heads' effects is given.

The errors that are made in the field are of one kind: a mask that is on another tensor than the contexts that enter the
output projection, or that is read and ignored. Each leaves one of these checks failing.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway import streams
from headway.errors import UserError
from headway.heads.causes.losses import check_text
from headway.heads.causes.pruning import pruned
from headway.heads.causes.substitutes import heads_of, layers_with_heads, substitutes
from headway.heads.causes.without import Removal, losses_without, reference_losses_without
from headway.model.intervenable import Intervenable, logits_of
from headway.model.transformer import Transformer

TOLERANCE = 1e-5
"""Of the largest logit, or written entry, for single precision; what is compared differs in the order of sums alone."""


def check_interventions(model: Intervenable, tokens: Int[Tensor, "batch pos"], tolerance: float = TOLERANCE) -> None:
    """Nothing, when gates and edits do to the model what they are said to do.

    * gates of 1 change no bit;
    * the contributions of a layer's heads, and its bias, are what its attention writes;
    * gates of 0 on a layer whose heads write something change the logits;
    * a head masked is the same head physically removed: one of each layer, and a random half of all;
    * the fast way to lose a head has the loss of the obvious one, in each layer.

    Args:
        model: the model.
        tokens: a text of two tokens or more; a short one will do.
        tolerance: of what is compared, as a share of the largest.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    if tokens.shape[1] < 2 or not heads_of(model):
        raise UserError(
            f"a text of {tokens.shape[1]} tokens was given for a check of {len(heads_of(model))} heads; give two "
            "tokens or more, and a model with heads"
        )
    check_text(model, tokens[:, :-1], tokens[:, 1:])
    with torch.no_grad():
        for check in (_gates_of_one, _contributions, _gates_of_zero, _masked_is_pruned, _fast_is_slow):
            check(model, tokens, tolerance)


def _gates_of_one(model: Intervenable, tokens: Tensor, _: float) -> None:
    plain, gated = logits_of(model, tokens), logits_of(model, tokens, _ones(model))
    if not bool(plain.isfinite().all()):
        _fail("the logits are finite", "some are NaN or infinite")
    if not torch.equal(plain, gated):
        _fail("gates of 1 change no bit", f"logits change by up to {_most(plain - gated):.2g}")


def _contributions(model: Intervenable, tokens: Tensor, tolerance: float) -> None:
    for layer, of_heads, written in _outputs(model, tokens):
        compare(
            f"in layer {layer} the heads' contributions and the bias add up to what the attention writes",
            of_heads,
            written,
            tolerance,
        )


def _gates_of_zero(model: Intervenable, tokens: Tensor, _: float) -> None:
    plain = logits_of(model, tokens)
    for layer, of_heads, _written in _outputs(model, tokens):
        gates = _ones(model)
        gates[layer] = torch.zeros_like(gates[layer])
        writes = _most(of_heads)
        if writes > 0 and torch.equal(plain, logits_of(model, tokens, gates)):
            _fail(
                "gates of 0 change the logits",
                f"they do not in layer {layer}, whose heads write entries up to {writes:.2g}",
            )


def _masked_is_pruned(model: Intervenable, tokens: Tensor, tolerance: float) -> None:
    keeps: dict[str, list[np.ndarray]] = {}
    for layer in layers_with_heads(model):
        head = model.n_heads[layer] // 2
        keeps[f"L{layer}H{head} masked is L{layer}H{head} removed"] = _all_but(model, layer, head)
    draw = streams.generator(0, "heads of the check")
    keeps["a random half of the heads masked is these heads removed"] = [draw.random(n) < 0.5 for n in model.n_heads]
    for check, keep in keeps.items():
        some = next(model.parameters())
        gates = [torch.tensor(mask, dtype=some.dtype, device=some.device) for mask in keep]
        compare(check, logits_of(model, tokens, gates), _removed(model, tokens, keep), tolerance)


def _fast_is_slow(model: Intervenable, tokens: Tensor, tolerance: float) -> None:
    inputs = tokens[:, :-1]
    targets = tokens[:, 1:].clamp(max=logits_of(model, inputs[:1]).shape[2] - 1)  # a read-out may be narrow
    # Another text for what stands in: the same tokens, backwards.
    stand_ins = substitutes(model, inputs, tokens.flip(1)[:, :-1])
    heads = [(layer, model.n_heads[layer] // 2) for layer in layers_with_heads(model)]
    removals = [Removal((head,), stand_in) for head in heads for stand_in in stand_ins.of.values()]
    fast, slow = (f(model, inputs, targets, removals) for f in (losses_without, reference_losses_without))
    compare("the losses without a head are those of a whole pass", fast.without, slow.without, tolerance)


def _outputs(model: Intervenable, tokens: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Of each layer what its heads write, summed, and what its attention writes; the bias is in neither."""
    if not isinstance(model, Transformer):
        yield from model.outputs(tokens)
        return
    trace = model(tokens, record=True)[1]
    for attention in trace.attentions:
        written = model.written(trace.streams[attention.layer], attention.layer)
        assert written is not None
        yield (
            attention.layer,
            attention.contributions().sum(1),
            written if attention.b_O is None else written - attention.b_O,
        )


def _removed(model: Intervenable, tokens: Tensor, keep: list[np.ndarray]) -> Tensor:
    """The logits of a model without some heads: one that does not have them, or where their rows of W_O are zero."""
    if isinstance(model, Transformer):
        return pruned(model, [mask.tolist() for mask in keep])(tokens)[0]
    return model.without(tokens, [torch.from_numpy(mask) for mask in keep])


def _all_but(model: Intervenable, layer: int, head: int) -> list[np.ndarray]:
    return [np.arange(n) != head if i == layer else np.ones(n, bool) for i, n in enumerate(model.n_heads)]


def _ones(model: Intervenable) -> list[Tensor]:
    some = next(model.parameters())
    return [torch.ones(n, dtype=some.dtype, device=some.device) for n in model.n_heads]


def compare(check: str, one: Tensor, other: Tensor, tolerance: float) -> None:
    """Nothing, when two are the same, to a tolerance as a share of the largest.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    difference, scale = _most(one - other), max(1.0, _most(other))
    if not difference <= tolerance * scale:
        _fail(check, f"they differ by up to {difference:.2g}, of values up to {scale:.2g} (tolerance {tolerance:g})")


def _most(x: Tensor) -> float:
    return float(x.abs().max())


def _fail(check: str, found: str) -> None:
    raise UserError(
        f"this model cannot be intervened on; the check that failed: {check}; {found}. Nothing that would be said of "
        "its heads' effects could be trusted; take another checkpoint, or mend the model"
    )

"""Checks on the model at hand, made before Headway reports any effect of its heads or any patching result.

The usual mistakes are of one kind: a mask that acts on another tensor than the contexts that enter the output
projection, or that is read and ignored. Each mistake makes one of these checks fail.

A patch of queries, keys, values or a pattern is a context that Headway computes, put in where contexts enter the output
projection. That is right only if the model itself computes the same. So each is compared with a whole pass in which the
model's own attention is given other queries, keys or values.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor

from headway.base import rng
from headway.causal.effects import Head
from headway.causal.patch_result import PATCH_SITES, PatchSite
from headway.causal.patching import TwoRuns, patched_context, why_no_paths
from headway.causal.pruning import pruned
from headway.causal.removal import Removal, losses_without, reference_losses_without
from headway.causal.substitutes import Intervenable, OtherText, Tokens, heads_of, layers_with_heads, logits_of
from headway.errors import UserError
from headway.models.trace import READ, AttentionTrace, Edits
from headway.models.transformer import Transformer

TOLERANCE = 1e-5
"""The tolerance as a share of the largest logit or written entry, for sums in another order in float32."""
_CHECKED = 32
"""Tokens of a text that are enough to show whether a mask is on the right tensor."""


def check_sound(
    model: Intervenable,
    tokens: Tokens,
    sites: tuple[PatchSite, ...] = (),
    *,
    paths: bool = False,
) -> None:
    """Raise UserError if gates, or patches of some sites, act on a model otherwise than they should.

    Args:
        model: the model.
        tokens: the text, of which the beginning is read.
        sites: the parts of heads that will be patched, if any.
        paths: True if paths between heads will be measured, too.

    Raises:
        UserError: naming the check that failed.
    """
    some = tokens[:1, :_CHECKED]
    check_interventions(model, some)
    if sites:
        check_patching(model, some, sites, paths=paths)


def check_interventions(model: Intervenable, tokens: Tokens) -> None:
    """Raise UserError if gates and edits do not act on the model as they should.

    * gates of 1 change nothing;
    * the contributions of a layer's heads, and its bias, are what its attention writes;
    * gates of 0 on a layer whose heads write something change the logits;
    * a head masked is the same head physically removed: one of each layer, and a random half of all;
    * the fast way to lose a head has the loss of the obvious one, in each layer.

    Args:
        model: the model.
        tokens: a text of two tokens or more; a short one will do.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    if tokens.shape[1] < 2 or not heads_of(model):
        raise UserError(
            f"a text of {tokens.shape[1]} tokens was given for a check of {len(heads_of(model))} heads; give two "
            "tokens or more, and a model with heads"
        )
    with torch.no_grad():
        for check in (_gates_of_one, _contributions, _gates_of_zero, _masked_is_pruned, _fast_is_slow):
            check(model, tokens)


def _gates_of_one(model: Intervenable, tokens: Tensor) -> None:
    plain, gated = logits_of(model, tokens), logits_of(model, tokens, _ones(model))
    if not bool(plain.isfinite().all()):
        _fail("the logits are finite", "some are NaN or infinite")
    # On a processor they change no bit; a GPU may choose another kernel for tensors that lie otherwise in memory.
    compare("gates of 1 change nothing", gated, plain)


def _contributions(model: Intervenable, tokens: Tensor) -> None:
    for layer, of_heads, written in _outputs(model, tokens):
        check = f"in layer {layer} the heads' contributions and the bias add up to what the attention writes"
        compare(check, of_heads, written)


def _gates_of_zero(model: Intervenable, tokens: Tensor) -> None:
    plain = logits_of(model, tokens)
    for layer, of_heads, _written in _outputs(model, tokens):
        gates = _ones(model)
        gates[layer] = torch.zeros_like(gates[layer])
        writes = _most(of_heads)
        if writes > 0 and torch.equal(plain, logits_of(model, tokens, gates)):
            told = f"they do not in layer {layer}, whose heads write entries up to {writes:.2g}"
            _fail("gates of 0 change the logits", told)


def _masked_is_pruned(model: Intervenable, tokens: Tensor) -> None:
    keeps: dict[str, list[np.ndarray]] = {}
    for layer, one in _middle_heads(model):
        keep = [np.ones(n, bool) for n in model.n_heads]
        keep[layer][one] = False
        keeps[f"L{layer}H{one} masked is L{layer}H{one} removed"] = keep
    draw = rng.generator(0, "heads of the check")
    keeps["a random half of the heads masked is these heads removed"] = [draw.random(n) < 0.5 for n in model.n_heads]
    for check, keep in keeps.items():
        gates = [torch.from_numpy(mask).to(next(model.parameters())) for mask in keep]
        compare(check, logits_of(model, tokens, gates), _removed(model, tokens, keep))


def _fast_is_slow(model: Intervenable, tokens: Tensor) -> None:
    inputs = tokens[:, :-1]
    targets = tokens[:, 1:].clamp(max=logits_of(model, inputs[:1]).shape[2] - 1)  # a read-out may be narrow
    # Each token's neighbour in the vocabulary serves as the other text, which so differs from every text.
    other = OtherText.read(model, inputs, torch.where(inputs > 0, inputs - 1, inputs + 1))
    stand_ins = other.stand_ins(model, slice(None))
    removals = [Removal((head,), stand_in) for head in _middle_heads(model) for stand_in in stand_ins.values()]
    fast, slow = (f(model, inputs, targets, removals) for f in (losses_without, reference_losses_without))
    compare("the fast losses without a head equal those of a whole forward pass", fast.without, slow.without)


def _middle_heads(model: Intervenable) -> list[Head]:
    """Return one head of each layer."""
    return [(layer, model.n_heads[layer] // 2) for layer in layers_with_heads(model)]


def _outputs(model: Intervenable, tokens: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield each layer's sum of its heads' outputs and its attention's output, both without the bias."""
    if not isinstance(model, Transformer):
        yield from model.outputs(tokens)
        return
    trace = model.trace(tokens)
    for attention in trace.attentions:
        written = model.written(trace.streams[attention.layer], attention.layer)
        assert written is not None
        plain = written if attention.b_O is None else written - attention.b_O
        yield attention.layer, attention.contributions().sum(1), plain


def _removed(model: Intervenable, tokens: Tensor, keep: list[np.ndarray]) -> Tensor:
    """Return the logits of a model without some heads: removed, or with rows of zeros in W_O."""
    if isinstance(model, Transformer):
        return pruned(model, [mask.tolist() for mask in keep])(tokens)[0]
    return model.without(tokens, [torch.from_numpy(mask) for mask in keep])


def _ones(model: Intervenable) -> list[Tensor]:
    some = next(model.parameters())
    return [some.new_ones(n) for n in model.n_heads]


def compare(check: str, one: Tensor, other: Tensor) -> None:
    """Raise an error if two tensors differ by more than the tolerance, as a share of the largest value.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    difference, scale = _most(one - other), max(1.0, _most(other))
    if not difference <= TOLERANCE * scale:
        _fail(check, f"they differ by up to {difference:.2g}, of values up to {scale:.2g} (tolerance {TOLERANCE:g})")


def _most(x: Tensor) -> float:
    return float(x.abs().max())


def _fail(check: str, found: str) -> None:
    raise UserError(
        f"Headway cannot intervene on this model; the check that failed: {check}; {found}. Effects of heads would be "
        "wrong; use another checkpoint, or repair the model"
    )


def check_patching(
    model: Intervenable,
    tokens: Tokens,
    sites: tuple[PatchSite, ...],
    *,
    paths: bool = False,
) -> None:
    """Raise UserError if patches do not act on the model as they should.

    In each layer that has heads:

    * every head's own context, and what is computed anew of its own parts, put in changes nothing;
    * the queries, keys or values of another text, given to the model's own attention for one head (for keys and values
      for all that read them), do what the contexts do that are computed of them;
    * contexts of the other text do what they do in a whole pass, and what its queries, keys and values do together.

    And where paths between heads can be measured, a stream to which nothing is added gives the queries, keys, values
    and logits that were there.

    Contexts are linear in values, so that patterns are right where values of another text are.

    Args:
        model: the model.
        tokens: a text; a short one will do.
        sites: the sites that will be patched; other sites are not checked.
        paths: True if paths will be measured, which are patches of queries, keys and values.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    # The tokens backwards serve as the other text.
    runs = TwoRuns(model, tokens.flip(1), tokens, lambda logits: logits[:, -1, 0].float())
    with torch.no_grad():
        plain = logits_of(model, tokens)
        if paths and why_no_paths(runs) is None:
            sites = tuple(site for site in PATCH_SITES if site in {*sites, *READ})
            _nothing_added_changes_nothing(runs, plain)
        for other, attention in runs.pairs():
            _own_parts_change_nothing(runs, attention, sites, plain)
            _parts_are_what_the_model_computes(runs, other, attention, sites)


def _own_parts_change_nothing(
    runs: TwoRuns, attention: AttentionTrace, sites: tuple[PatchSite, ...], plain: Tensor
) -> None:
    heads = range(attention.z.shape[1])
    patches = [{head: patched_context(attention, attention, head, site) for head in heads} for site in sites]
    for site, logits in zip(sites, runs.run.logits_with(attention.layer, patches), strict=True):
        compare(f"in layer {attention.layer} patching every head with its own {site} changes nothing", logits, plain)


def _nothing_added_changes_nothing(runs: TwoRuns, plain: Tensor) -> None:
    added = "nothing added to the stream"
    for attention in runs.corrupted.attentions:
        nothing = torch.zeros_like(attention.contributions()[:, 0])
        (read,) = runs.run.reads(attention.layer, [nothing])
        for site in READ:
            was = getattr(attention, site)
            check = f"{added} before layer {attention.layer} leaves its {site} unchanged"
            compare(check, read[site][:, :, : was.shape[2]], was)
        if attention is runs.corrupted.attentions[-1]:
            (logits,) = runs.run.ends([nothing])
            compare(f"{added} at its end leaves the logits unchanged", logits, plain)


def _parts_are_what_the_model_computes(
    runs: TwoRuns, other: AttentionTrace, attention: AttentionTrace, sites: tuple[PatchSite, ...]
) -> None:
    cases = list(_cases(other, attention, sites))
    found = runs.run.logits_with(attention.layer, [contexts for _, contexts, _ in cases])
    for (check, _, edits), logits in zip(cases, found, strict=True):
        compare(f"in layer {attention.layer} {check}", logits, logits_of(runs.model, runs.tokens, edits=edits))


def _cases(
    other: AttentionTrace, attention: AttentionTrace, sites: tuple[PatchSite, ...]
) -> Iterator[tuple[str, Mapping[int, Tensor], Edits]]:
    """Yield the cases to check by name: contexts put in, and the equal change of the model's own attention."""
    layer, one = attention.layer, attention.z.shape[1] // 2
    for site in READ:
        if site in sites or (site == "v" and "pattern" in sites):
            kv = attention.kv_of[one]
            readers = [one] if site == "q" else [head for head, its in enumerate(attention.kv_of) if its == kv]
            edit = partial(_exchanged, getattr(other, site), one if site == "q" else kv)
            yield (
                f"{site} of another text in the model's own attention has the same effect as patching the context "
                "computed from it",
                {head: patched_context(other, attention, head, site) for head in readers},
                {(layer, site): edit},
            )
    whole = dict(enumerate(other.z.unbind(1)))
    if "z" in sites:
        yield (
            "patching every head's context from another text has the same effect as in a whole forward pass",
            whole,
            {(layer, "z"): partial(_exchanged, other.z, slice(None))},
        )
    if set(sites) & set(READ):
        yield (
            "queries, keys and values of another text have the same effect as its contexts, since nothing else decides "
            "the attention weights (the sites z and pattern without paths do not need this check)",
            whole,
            {(layer, site): partial(_exchanged, getattr(other, site), slice(None)) for site in READ},
        )


def _exchanged(value: Tensor, heads: int | slice, x: Tensor) -> Tensor:
    x = x.clone()
    # Keys that no query sees have no place in a trace.
    x[:, heads, : value.shape[2]] = value[:, heads]
    return x

"""Laws of transformers with ragged heads, over a grid of models that differ in every declared choice."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from support.drawn_transformers import (
    GPT2,
    LENGTH,
    MODELS,
    VOCAB,
    built,
    every_model,
    logits_of,
    ones,
    text,
    weights_of,
)
from support.slow_attention import reference_attention
from support.tolerance import assert_same

from headway.config.lm.budget import parameters_by_part, parameters_of
from headway.config.lm.layout import HeadLayout
from headway.config.lm.model import Gpt2, Ranks
from headway.errors import UserError
from headway.models.attention import KVCache, of_queries
from headway.models.generate import generate
from headway.models.transformer import Transformer


@every_model
def test_recording_changes_no_bit(model):
    module, tokens = built(model), text()
    recorded, trace = module(tokens, record=True)
    assert torch.equal(recorded, module(tokens)[0])
    assert [a.layer for a in trace.attentions] == [i for i, n in enumerate(model.layout.n_heads) if n]
    assert len(trace.streams) == model.n_layers + 1


@every_model
def test_gates_of_one_change_no_bit(model):
    module, tokens = built(model), text()
    assert torch.equal(logits_of(module, tokens, gates=ones(model)), logits_of(module, tokens))


@pytest.mark.slow
@every_model
def test_a_gate_of_zero_is_the_model_without_that_head(model):
    tokens = text()
    module = built(model)
    for layer, heads in enumerate(model.layout.layers):
        if not heads.n_heads:
            continue
        head = heads.n_heads - 1
        gates = ones(model)
        gates[layer][head] = 0
        # The columns of W_O that read the head: in a product, those of its first factor.
        name = f"layers.{layer}.attention.o" + (".weight" if model.rank("o", layer) is None else ".first.weight")
        W_O = weights_of(model)[name]
        W_O[:, head * heads.d_head : (head + 1) * heads.d_head] = 0
        without = logits_of(built(model, **{name: W_O}), tokens)
        assert_same(logits_of(module, tokens, gates=gates), without)
        assert not torch.allclose(without, logits_of(module, tokens), atol=1e-4)


@every_model
def test_gates_of_an_example_concern_that_example(model):
    module, tokens = built(model), text()
    first_only = [torch.stack((torch.zeros(h.n_heads), torch.ones(h.n_heads))) for h in model.layout.layers]
    gated, plain = logits_of(module, tokens, gates=first_only), logits_of(module, tokens)
    none = logits_of(module, tokens, gates=[torch.tensor(0.0)] * model.n_layers)
    assert_same(gated, torch.stack((none[0], plain[1])))


@every_model
@pytest.mark.parametrize("site", ["q", "k", "v", "z"])
def test_edits_that_change_nothing_change_no_bit(model, site):
    """And they are given what a recorded pass calls by that name."""
    module, tokens, given = built(model), text(), {}
    edits = {(i, site): lambda x, i=i: given.setdefault(i, x) for i, n in enumerate(model.layout.n_heads) if n}
    logits, trace = module(tokens, record=True)
    assert torch.equal(logits_of(module, tokens, edits=edits), logits)
    assert [a.layer for a in trace.attentions] == list(given)
    assert all(torch.equal(given[a.layer], getattr(a, site)) for a in trace.attentions)


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("site", ["q", "k", "v", "z"])
def test_an_edit_stands_in(model, site):
    module, tokens = built(model), text()
    for layer, n_heads in enumerate(model.layout.n_heads):
        if n_heads:
            logits, trace = module(tokens, record=True, edits={(layer, site): lambda x: x.flip(2)})
            edited = next(a for a in trace.attentions if a.layer == layer)
            if model.window(layer) != 1 or site not in "qk":  # one key leaves a softmax no choice
                assert not torch.allclose(logits, logits_of(module, tokens), atol=1e-3)
            plain = next(a for a in module.trace(tokens).attentions if a.layer == layer)
            assert_same(getattr(edited, site), getattr(plain, site).flip(2))


@pytest.mark.parametrize("layer", [0, 3, -1])
def test_an_edit_of_a_layer_without_heads_is_refused(layer):
    said = rf"edit of z in layer {layer}: this layer has no heads \(layout 0-6-0\)"
    with pytest.raises(UserError, match=said):
        built(MODELS["layers without heads"])(text(), edits={(layer, "z"): lambda z: z})


@every_model
def test_a_pass_layer_by_layer_is_the_pass(model):
    module, tokens = built(model), text()
    with torch.no_grad():
        stream = module.entered(tokens)
        for layer in range(model.n_layers):
            stream = module.rest(stream, module.written(stream, layer), layer)
        assert torch.equal(stream, module.hidden(tokens)[0])


def test_a_layer_that_lost_its_heads_adds_its_bias():
    """Which a layer that was declared without heads has not."""
    model = MODELS["emptied layers"]
    module, tokens = built(model), text()
    stream = module.entered(tokens)
    for layer in model.emptied:
        bias = torch.tensor(weights_of(model)[f"layers.{layer}.emptied.bias"])
        assert torch.equal(module.written(stream, layer), bias.expand_as(stream))
    assert built(MODELS["layers without heads"]).written(stream, 0) is None


@every_model
@pytest.mark.parametrize("gated", [False, True])
def test_contributions_sum_to_the_output_minus_its_bias(model, gated):
    module, outputs = built(model), []
    for layer in module.layers:
        if layer.attention is not None:
            layer.attention.register_forward_hook(lambda *call: outputs.append(call[2][0]))
    gates = [torch.linspace(0, 2, heads.n_heads) for heads in model.layout.layers] if gated else None
    _, trace = module(text(), gates=gates, record=True)
    for attention, output in zip(trace.attentions, outputs, strict=True):
        total = attention.contributions().sum(1) + (0 if attention.b_O is None else attention.b_O)
        assert_same(total, output)


@every_model
def test_a_later_token_changes_no_earlier_logit(model):
    """Of a model that attends to the future an earlier one no later logit."""
    module, tokens = built(model), text()
    changed = tokens.clone()
    changed[:, 40] = (changed[:, 40] + 1) % VOCAB
    before, after = logits_of(module, tokens), logits_of(module, changed)
    same, other = (slice(0, 40), slice(40, None)) if model.mask == "past" else (slice(41, None), slice(0, 41))
    assert torch.equal(before[:, same], after[:, same])
    assert not torch.equal(before[:, other], after[:, other])


@pytest.mark.parametrize("length", [1, 2, LENGTH])
def test_what_attends_to_the_future_sees_strictly_later_keys_and_nothing_at_the_end(length):
    module = built(MODELS["attends to the future"])
    _, trace = module(text(length), record=True)
    for attention in trace.attentions:
        ago = torch.arange(length)[:, None] - torch.arange(length)
        assert torch.equal(attention.mask, ago < 0)
        assert torch.equal(attention.z[:, :, -1], torch.zeros_like(attention.z[:, :, -1]))
        seen = attention.patterns().sum(3)
        assert_same(seen, torch.ones_like(seen) * (torch.arange(length) < length - 1))
    module.loss(text(length), text(length)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters() if parameter.grad is not None)


def test_what_attends_to_the_future_cannot_write():
    model = MODELS["attends to the future"]
    said = r"this model attends to the future \(model.mask\), so it cannot generate text; use a model"
    with pytest.raises(UserError, match=said):
        generate(built(model), [1, 2], n_tokens=3)
    with pytest.raises(UserError, match=said):
        built(model)(text(), cache=KVCache(model, 100, batch=2))


def test_a_scaled_embedding_is_that_of_larger_weights():
    model = MODELS["scaled embedding"]
    untied = {**{name: getattr(model, name) for name in type(model).model_fields}, "tied": False}
    scaled, plain = Gpt2(**untied), Gpt2(**untied | {"embedding_scale": "none"})
    weights = weights_of(scaled)
    larger = weights | {"embedding.weight": weights["embedding.weight"] * np.float32(48**0.5)}
    there = logits_of(Transformer(plain, VOCAB, larger).eval(), text())
    assert_same(logits_of(Transformer(scaled, VOCAB, weights).eval(), text()), there)


@pytest.mark.parametrize("window", [1, 2, 7, 33, 69, 70])
def test_nothing_outside_the_window_is_seen(window):
    """One layer: a query sees the token `window - 1` before it and none before that."""
    module = built(Gpt2(**GPT2 | {"n_layers": 1}, n_heads=4, windows=(window,)))
    tokens = text()
    changed = tokens.clone()
    changed[:, 0] = (changed[:, 0] + 1) % VOCAB
    same = (logits_of(module, tokens) == logits_of(module, changed)).all(2).all(0)
    assert same.tolist() == [False] * window + [True] * (LENGTH - window)


@every_model
def test_the_fast_attention_equals_the_reference_in_value_and_gradient(model):
    module = built(model).double()
    _, trace = module(text(), record=True)
    for attention in trace.attentions:
        queries, window = model.layout.layers[attention.layer].queries, model.window(attention.layer)
        k, v = of_queries(attention.k, queries), of_queries(attention.v, queries)
        slow = reference_attention(attention.q, k, v, scale=attention.scale, window=window, attends=model.mask)
        assert_same(attention.z, slow)
        looks = attention.q, attention.k, attention.v
        fast_gradients = torch.autograd.grad(attention.z.square().sum(), looks, retain_graph=True)
        slow_gradients = torch.autograd.grad(slow.square().sum(), looks, retain_graph=True)
        # Of queries and keys less is left: what a softmax gives back is a difference.
        assert_same(fast_gradients, slow_gradients, scale=max(gradient.abs().max() for gradient in slow_gradients))


@every_model
def test_patterns_and_values_make_the_contexts(model):
    _, trace = built(model)(text(), record=True)
    for attention in trace.attentions:
        patterns = torch.cat([attention.patterns(slice(h, h + 1)) for h in range(attention.q.shape[1])], dim=1)
        assert_same(patterns @ attention.v[:, list(attention.kv_of)], attention.z)


@every_model
def test_permuting_the_heads_changes_nothing(model):
    """KV heads change places together with their query heads."""
    weights = weights_of(model)
    layers = list(model.layout.layers)
    for layer, heads in enumerate(layers):
        kv_order = list(reversed(range(heads.n_kv_heads)))
        starts = np.cumsum((0, *heads.queries))
        order = [h for kv in kv_order for h in reversed(range(starts[kv], starts[kv + 1]))]
        layers[layer] = dataclasses.replace(heads, queries=tuple(heads.queries[kv] for kv in kv_order))
        at = f"layers.{layer}.attention."
        for name in [name for name in weights if name.startswith(at)]:
            if name == f"{at}smear":
                weights[name] = weights[name][kv_order]
                continue
            projection, is_first = name[len(at)], ".first." in name
            places = order if projection in "qo" else kv_order
            entries = np.concatenate([np.arange(h * heads.d_head, (h + 1) * heads.d_head) for h in places])
            if projection != "o" and not is_first:
                weights[name] = weights[name][entries]
            elif name.endswith((".o.weight", ".o.first.weight")):
                weights[name] = weights[name][:, entries]
    other = HeadLayout(d_model=model.d_model, layers=tuple(layers))
    declared = {name: getattr(model, name) for name in type(model).model_fields} | {
        "n_heads": str(other),
        "n_kv_heads": None,
        "d_head": None,
    }
    permuted = type(model)(**declared)
    assert permuted.layout == other
    there = logits_of(Transformer(permuted, VOCAB, weights).eval(), text())
    assert_same(there, logits_of(built(model), text()))


@every_model
def test_counted_parameters_are_the_built_models(model):
    shapes = {name: tuple(parameter.shape) for name, parameter in built(model).named_parameters()}
    assert shapes == {parameter.name: parameter.shape for parameter in parameters_of(model, VOCAB)}
    assert built(model).state_dict().keys() == shapes.keys()
    parts = parameters_by_part(model, VOCAB)
    assert all(parts.values())
    assert sum(parts.values()) == sum(math.prod(shape) for shape in shapes.values())


@every_model
def test_weights_come_back_as_they_were_put(model):
    weights = weights_of(model)
    back = Transformer(model, VOCAB, weights).weights()
    assert list(back) == [parameter.name for parameter in parameters_of(model, VOCAB)]
    assert all(np.array_equal(back[name], weights[name]) for name in weights)


@every_model
def test_every_parameter_is_trained(model):
    module = built(model)
    module.loss(text(), text().roll(-1, 1)).backward()
    idle = [name for name, parameter in module.named_parameters() if not parameter.grad.abs().any()]
    # A softmax does not see what is added to all its logits, and one key leaves it no choice.
    no_choice = [f"layers.{i}.attention.{x}." for i in range(model.n_layers) if model.window(i) == 1 for x in "qk"]
    assert [
        n for n in idle if not n.endswith((".k.bias", ".k.second.bias")) and not n.startswith(tuple(no_choice))
    ] == []


def test_a_map_of_full_rank_can_be_any_map():
    model = Gpt2(**GPT2, n_heads=4, biases=("output",))
    full = Gpt2(**GPT2, n_heads=4, biases=("output",), ranks=Ranks(q=48, o=48))
    weights = weights_of(model)
    factors = dict(weights)
    for layer in range(3):
        for name in "qo":
            at = f"layers.{layer}.attention.{name}"
            factors[f"{at}.first.weight"] = np.eye(48, dtype=np.float32)
            factors[f"{at}.second.weight"] = factors.pop(f"{at}.weight")
        factors[f"layers.{layer}.attention.o.second.bias"] = factors.pop(f"layers.{layer}.attention.o.bias")
    there = logits_of(Transformer(full, VOCAB, factors).eval(), text())
    assert_same(there, logits_of(Transformer(model, VOCAB, weights).eval(), text()))


# Where tokens attend to later ones, queries and keys are in step.
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.mask != "future"])
@pytest.mark.parametrize("last", [1, 3])
def test_the_last_positions_alone_are_those_of_all(name, last):
    model = MODELS[name]
    module, tokens = built(model), text()
    with torch.no_grad():
        found = module.hidden(tokens, last=last)[0]
        assert_same(found, module.hidden(tokens)[0][:, -last:])

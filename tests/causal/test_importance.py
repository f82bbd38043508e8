"""In which order heads go, by each method, against its definition; and down to so many heads."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, built, logits_of
from support.planted import planted, texts
from support.tolerance import assert_same

from headway.causal.importance import METHODS, PruningText
from headway.causal.pruning import prune_to_number
from headway.config.lm.head_units import LAST_STAYS, least_to_keep, units_of
from headway.errors import UserError
from headway.models.transformer import mean_nll

TOKENS = torch.randint(0, VOCAB, (5, LENGTH + 1), generator=torch.Generator().manual_seed(9))
TEXT = PruningText(inputs=TOKENS[:, :-1], targets=TOKENS[:, 1:], at_once=2)
NAMES = ["GQA", "unequal KV groups", "rotary", "low rank"]
every = pytest.mark.parametrize("name", NAMES)


def closed(module, unit):
    gates = [torch.ones(n) for n in module.model.layout.n_heads]
    for layer, head in unit:
        gates[layer][head] = 0
    return gates


@every
def test_ablation_is_by_the_loss_without_each_unit(name):
    module = built(MODELS[name])
    units = units_of(module.model.layout)
    whole = mean_nll(logits_of(module, TEXT.inputs), TEXT.targets)
    changes = [
        float(mean_nll(logits_of(module, TEXT.inputs, gates=closed(module, unit)), TEXT.targets) - whole)
        for unit in units
    ]
    order = METHODS["ablation"](module, units, TEXT)
    assert sorted(order) == list(range(len(units)))
    assert np.all(np.diff(np.array(changes)[order]) > -1e-5)


@every
def test_taylor_is_michels_of_a_gate_on_the_whole_unit(name):
    module = built(MODELS[name])
    units = units_of(module.model.layout)
    sizes = np.zeros(len(units))
    for i in range(len(TOKENS)):
        xi = torch.ones(len(units), requires_grad=True)
        gates = [torch.ones(n) for n in module.model.layout.n_heads]
        for at, unit in enumerate(units):
            for layer, head in unit:
                gates[layer] = torch.where(torch.arange(len(gates[layer])) == head, xi[at], gates[layer])
        loss = mean_nll(module(TEXT.inputs[i : i + 1], gates=gates)[0], TEXT.targets[i : i + 1])
        sizes += torch.autograd.grad(loss, xi)[0].abs().numpy()
    order = METHODS["taylor"](module, units, TEXT)
    assert np.all(np.diff(sizes[order]) > -1e-4)


@every
def test_magnitude_is_the_norm_of_what_heads_can_write(name):
    module = built(MODELS[name])
    units = units_of(module.model.layout)
    norms = []
    for unit in units:
        attention = module.layers[unit[0][0]].attention
        kv_of = [kv for kv, count in enumerate(attention.queries) for _ in range(count)]
        V, W_O = attention.v.weight.unflatten(0, (-1, attention.d_head)), attention.o.weight.T
        W_O = W_O.unflatten(0, (-1, attention.d_head))
        norms.append(sum(float((V[kv_of[h]].T @ W_O[h]).detach().norm() ** 2) for _, h in unit))
    order = METHODS["magnitude"](module, units, TEXT)
    assert np.all(np.diff(np.array(norms)[order]) > -1e-4)


def test_of_two_heads_that_do_the_same_the_one_that_adds_less_goes_first():
    module = built(MODELS["ragged"])  # 3-12-48 heads
    attention = module.layers[1].attention
    with torch.no_grad():
        for name in "qkv":
            weight = getattr(attention, name).weight
            weight[8:12] = weight[20:24]
        attention.o.weight[:, 8:12] = 0.5 * attention.o.weight[:, 20:24]
    units = units_of(module.model.layout)
    order = METHODS["alike"](module, units, TEXT)
    assert units[order[0]] == ((1, 2),)  # half of what L1H5 adds
    left = {unit[0][0] for at, unit in enumerate(units) if at not in order}
    assert left == {0, 1, 2}
    assert len(order) == len(units) - 3


def test_what_adds_least_goes_first_and_of_two_alike_heads_either():
    """Sizes and likeness are told apart: a small head that is like no other is the first by its size alone."""
    module = built(MODELS["ragged"])
    attention = module.layers[1].attention
    with torch.no_grad():
        for name in "qkv":
            weight = getattr(attention, name).weight
            weight[8:12] = weight[20:24]
        attention.o.weight[:, 8:12] = attention.o.weight[:, 20:24]
        attention.o.weight[:, 16:20] *= 1e-3
    units = units_of(module.model.layout)
    assert units[METHODS["output"](module, units, TEXT)[0]] == ((1, 4),)
    first = {
        units[METHODS["alike-either"](module, units, PruningText(**{**vars(TEXT), "seed": seed}))[0]]
        for seed in range(12)
    }
    assert first == {((1, 2),), ((1, 5),)}
    order = METHODS["alike-either"](module, units, TEXT)
    assert len(order) == len(set(order)) == len(units) - 3


def test_random_is_drawn_by_the_seed():
    module = built(MODELS["ragged"])
    units = units_of(module.model.layout)
    drawn = [METHODS["random"](module, units, PruningText(**{**vars(TEXT), "seed": seed})) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[2]) == list(range(len(units)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method)
        for name in NAMES
        for method in sorted(METHODS.keys() - {"gates", "budget"})
        # Of 4+3-2-1 heads none but the two groups of one layer are a pair.
        if not (method.startswith("alike") and name == "unequal KV groups")
    ],
)
def test_so_many_heads_are_left_and_they_are_the_masked_model(method, name):
    module = built(MODELS[name])
    units = units_of(module.model.layout)
    keep = sum(len(unit) for unit in units[: len(units) // 2])
    small, kept = prune_to_number(module, keep, METHODS[method], TEXT, steps=1 + len(method) % 3)
    assert small.model.layout.total == len(kept) == keep
    alive = {unit for unit in units if set(unit) & set(kept)}
    assert {head for unit in alive for head in unit} == set(kept), "KV groups stay whole"
    gates = [
        torch.tensor([float((layer, head) in kept) for head in range(n)])
        for layer, n in enumerate(module.model.layout.n_heads)
    ]
    masked = logits_of(module, TEXT.inputs, gates=gates)
    assert_same(logits_of(small, TEXT.inputs), masked)


def test_the_planted_heads_are_the_last_to_go():
    for seed in range(4):
        model, heads = planted(seed)
        inputs, targets, _ = texts(seed)
        text = PruningText(inputs=inputs, targets=targets, at_once=8)
        _, kept = prune_to_number(model, 2, METHODS["ablation"], text, steps=3)
        assert set(kept) == set(heads)


def test_too_few_heads_for_alike_and_no_steps():
    module = built(MODELS["rotary"])
    with pytest.raises(UserError, match=r"can prune only \d+: heads that share keys and values are pruned together"):
        prune_to_number(module, 2, METHODS["alike"], TEXT)
    with pytest.raises(UserError, match="0 steps were asked for; give 1 or more"):
        prune_to_number(module, 4, METHODS["random"], TEXT, steps=0)


@pytest.mark.parametrize("by", sorted(METHODS.keys() - {"gates", "budget"}))  # which learn, of any unit
@every
def test_as_few_heads_are_left_as_is_declared(name, by):
    """Methods by which the last unit of a layer stays, and they alone, end before all others have gone."""
    module = built(MODELS[name])
    units = units_of(module.model.layout)
    order = METHODS[by](module, units, TEXT)
    left = sorted(set(range(len(units))) - set(order))
    layers = {unit[0][0] for unit in units}
    assert [units[at][0][0] for at in left] == (sorted(layers) if by in LAST_STAYS else [])
    assert sum(len(units[at]) for at in left) >= least_to_keep(by, units) * (by in LAST_STAYS)

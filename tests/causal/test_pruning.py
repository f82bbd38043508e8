"""A pruned model is the masked one, of an ordinary layout."""

import random

import pytest
import torch
from support.drawn_transformers import MODELS, VOCAB, built, every_model, logits_of, text
from support.tolerance import assert_same

from headway.causal.pruning import pruned
from headway.config.lm.budget import parameters_of
from headway.config.lm.layout import HeadLayout
from headway.config.lm.model import TransformerModel


def masks(model, seed):
    """Of every layer some heads; of one in four none; of one in four all."""
    draw = random.Random(seed)
    return [
        [draw.random() < share for _ in range(n)]
        for n, share in zip(model.layout.n_heads, draw.choices((0, 0.5, 0.5, 1), k=model.n_layers), strict=True)
    ]


def gates(keep):
    return [torch.tensor([float(stays) for stays in mask]) for mask in keep]


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("seed", range(2))
def test_masked_is_pruned(model, seed):
    module, tokens, keep = built(model), text(), masks(model, seed)
    small = pruned(module, keep)
    there, masked = logits_of(small, tokens), logits_of(module, tokens, gates=gates(keep))
    assert_same(there, masked)
    assert small.model.layout.n_heads == tuple(sum(mask) for mask in keep)


@every_model
def test_a_layer_may_lose_all_heads_and_so_may_all_layers(model):
    module, tokens = built(model), text()
    for layers in ({1}, {0, 1, 2}):
        keep = [[i not in layers] * n for i, n in enumerate(model.layout.n_heads)]
        small = pruned(module, keep)
        masked = logits_of(module, tokens, gates=gates(keep))
        assert_same(logits_of(small, tokens), masked)
        lost = {i for i in layers if model.layout.n_heads[i]}
        assert set(small.model.emptied) == {*model.emptied, *lost}


@every_model
def test_a_pruned_model_is_an_ordinary_one(model):
    """Its declaration says all of it: it can be written down, read back and pruned again."""
    module, tokens, keep = built(model), text(), masks(model, 1)
    small = pruned(module, keep)
    assert HeadLayout.parse(str(small.model.layout), model.d_model) == small.model.layout
    assert type(model).model_validate_json(small.model.model_dump_json()) == small.model
    shapes = {name: tuple(parameter.shape) for name, parameter in small.named_parameters()}
    assert shapes == {parameter.name: parameter.shape for parameter in parameters_of(small.model, VOCAB)}
    assert logits_of(type(small)(small.model, VOCAB, small.weights()).eval(), tokens).equal(logits_of(small, tokens))
    first = [[head > 0 for head in range(n)] for n in small.model.layout.n_heads]
    masked = logits_of(small, tokens, gates=gates(first))
    assert_same(logits_of(pruned(small, first), tokens), masked)


@every_model
def test_keeping_all_heads_changes_no_bit_and_the_model_stays_as_it_was(model):
    module, tokens = built(model), text()
    before = {name: array.copy() for name, array in module.weights().items()}
    same = pruned(module, [[True] * n for n in model.layout.n_heads])
    assert same.model.layout == model.layout
    assert torch.equal(logits_of(same, tokens), logits_of(module, tokens))
    pruned(module, masks(model, 2))
    assert all((module.weights()[name] == array).all() for name, array in before.items())


def test_a_KV_head_goes_with_its_last_query_head():
    module = built(MODELS["GQA"])  # 8:2-4:1-6:6
    keep = [[True, False, False, True, *[False] * 4], [False, True, True, True], [False, *[True] * 5]]
    small = pruned(module, keep)
    assert str(small.model.layout) == "2:1x6-3:1x12-5x8"
    assert small.layers[0].attention.k.weight.shape == (6, 48)
    one_of_each = [[head in (0, 4, 5, 6) for head in range(8)], *keep[1:]]
    assert str(pruned(module, one_of_each).model.layout) == "1+3x6-3:1x12-5x8"


def test_a_rank_above_the_new_width_becomes_a_whole_matrix():
    module = built(MODELS["low rank"])  # 2-4-8 heads of 24, 12 and 6; o of rank 7, k of ranks 1, 2, 48
    keep = [[True, False], [True] * 4, [True, *[False] * 7]]
    small = pruned(module, keep)
    assert small.model.ranks.o == (7, 7, None)
    assert small.model.ranks.k == (1, 2, None)
    assert small.model.ranks.up == module.model.ranks.up
    assert small.layers[2].attention.o.weight.shape == (48, 6)


def test_precision_and_mode_stay():
    module = built(MODELS["published"]).double().train()
    small = pruned(module, masks(module.model, 0))
    assert small.training
    assert {parameter.dtype for parameter in small.parameters()} == {torch.float64}
    assert isinstance(small.model, TransformerModel)

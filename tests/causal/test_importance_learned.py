"""Gates that are learned: their distribution, a hard number of heads, and the heads that they leave."""

import math

import numpy as np
import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, built
from support.planted import planted, texts
from support.tolerance import nearly

from headway.causal import importance
from headway.causal.importance import PruningText, budget, gates, hard_concrete, open_chance, top_k
from headway.config.lm.head_units import units_of

TOKENS = torch.randint(0, VOCAB, (6, LENGTH + 1), generator=torch.Generator().manual_seed(9))


def test_gates_are_hard_concrete():
    odds, uniform = torch.tensor([0.7, -1.2]), torch.rand(200_000, 2, generator=torch.Generator().manual_seed(0))
    drawn = hard_concrete(odds, uniform)
    assert ((drawn >= 0) & (drawn <= 1)).all()
    torch.testing.assert_close((drawn > 0).float().mean(0), open_chance(odds), atol=5e-3, rtol=0)
    assert float(open_chance(odds)[0]) == nearly(
        1 / (1 + math.exp(-(0.7 - 0.33 * math.log(0.1 / 1.1)))), dtype=np.float32
    )
    s = 1 / (1 + math.exp(-(math.log(0.3) - math.log(0.7) + 0.7) / 0.33))
    assert float(hard_concrete(odds, torch.tensor([0.3, 0.3]))[0]) == nearly(1.2 * s - 0.1, dtype=np.float32)


def test_as_many_are_open_as_are_to_stay_and_all_have_gradients():
    scores = torch.randn(9, generator=torch.Generator().manual_seed(1), requires_grad=True)
    for k in (1, 4, 8):
        warm, cold = top_k(scores, k, 0.5), top_k(scores, k, 0.003)
        assert float(warm.detach().sum()) == pytest.approx(k, abs=0.05)
        assert set((cold > 0.5).nonzero()[:, 0].tolist()) == set(scores.topk(k).indices.tolist())
        assert float(torch.minimum(cold, 1 - cold).detach().max()) < 0.01
        (gradient,) = torch.autograd.grad((warm * torch.arange(9.0)).sum(), scores)
        assert gradient.abs().min() > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", [gates, budget])
@pytest.mark.parametrize("seed", range(2))
def test_planted_heads_are_the_last_to_go(method, seed):
    """Which gradients at open gates do not see: the attention of one of them is sharp."""
    model, heads = planted(seed)
    inputs, targets, _ = texts(seed)
    units = units_of(model.model.layout)
    order = method(model, units, PruningText(inputs=inputs, targets=targets, at_once=24, keep=2))
    assert sorted(order) == list(range(len(units)))
    assert {units[at][0] for at in order[-2:]} == set(heads)


def test_what_is_drawn_is_drawn_by_the_seed(monkeypatch):
    monkeypatch.setattr(importance, "STEPS", 3)
    module = built(MODELS["GQA"])
    units = units_of(module.model.layout)
    for method in (gates, budget):
        texts_of = [
            PruningText(inputs=TOKENS[:, :-1], targets=TOKENS[:, 1:], at_once=3, keep=4, seed=seed)
            for seed in (0, 0, 1, 2)
        ]
        orders = [method(module, units, text) for text in texts_of]
        assert orders[0] == orders[1]
        assert any(order != orders[0] for order in orders[2:])


def test_the_model_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(importance, "STEPS", 3)
    module = built(MODELS["GQA"])
    before = {name: array.copy() for name, array in module.weights().items()}
    text = PruningText(inputs=TOKENS[:, :-1], targets=TOKENS[:, 1:], at_once=3, keep=4)
    for method in (gates, budget):
        method(module, units_of(module.model.layout), text)
    assert all((module.weights()[name] == array).all() for name, array in before.items())
    assert all(parameter.grad is None for parameter in module.parameters())

"""Estimates of heads' effects from gradients, against their definitions."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, built, every_model, text
from support.substitutes import substitutes
from support.tolerance import assert_same, nearly

from headway.causal.ablation import ablate
from headway.causal.attribution import attribute, integrated
from headway.causal.effects import KINDS, rank_correlation
from headway.models.transformer import mean_nll

OTHER = torch.randint(0, VOCAB, (3, LENGTH + 5), generator=torch.Generator().manual_seed(7))
TOKENS = text(LENGTH + 1)
INPUTS, TARGETS = TOKENS[:, :-1], TOKENS[:, 1:]


@every_model
def test_michels_importance_is_its_definition(model):
    """The mean over examples of the absolute gradient of each one's loss by a gate, an example at a time."""
    module = built(model)
    found = attribute(module, INPUTS, TARGETS, substitutes(module, INPUTS, OTHER)).michel
    sizes = []
    for i in range(2):
        gates = [torch.ones(n, requires_grad=True) for n in model.layout.n_heads]
        loss = mean_nll(module(INPUTS[i : i + 1], gates=gates)[0], TARGETS[i : i + 1])
        gradients = torch.autograd.grad(loss, gates, allow_unused=True)
        sizes.append([np.zeros(0) if g is None else g.abs().numpy() for g in gradients])
    for layer, importance in enumerate(found):
        assert_same(importance, (sizes[0][layer] + sizes[1][layer]) / 2)
    assert all(parameter.grad is None for parameter in module.parameters())


@every_model
def test_first_order_is_the_slope_of_the_exact_effect(model):
    """In float64, the way to what stands in shortened: there is nothing but the first order left."""
    module = built(model).double()
    stand_ins = substitutes(module, INPUTS, OTHER)
    estimates = attribute(module, INPUTS, TARGETS, stand_ins).first_order
    layer = next(i for i, n in enumerate(model.layout.n_heads) if n)
    step = 1e-4
    for kind in KINDS:

        def towards(z, kind=kind):
            moved = z.clone()
            moved[:, 0] += step * (stand_ins[kind][layer].expand_as(z)[:, 0] - z[:, 0])
            return moved

        with torch.no_grad():
            plain, nearer = module(INPUTS)[0], module(INPUTS, edits={(layer, "z"): towards})[0]
        for i in range(2):
            losses = [torch.nn.functional.cross_entropy(logits[i], TARGETS[i]) for logits in (nearer, plain)]
            slope = float(losses[0] - losses[1]) / step
            assert estimates[kind].per_sequence[layer][0, i] == pytest.approx(slope, rel=2e-2, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unequal KV groups", "rotary", "layers without heads"])
def test_integrated_gradients_sum_to_the_joint_effect(name):
    module = built(MODELS[name]).double()
    stand_ins = substitutes(module, INPUTS, OTHER)
    joint = ablate(module, INPUTS, TARGETS, stand_ins).joint
    few, many = (integrated(module, INPUTS, TARGETS, stand_ins, steps=steps) for steps in (4, 32))
    for kind in KINDS:
        sums = [np.concatenate(found[kind].per_sequence).sum(0) for found in (few, many)]
        errors = [np.abs(s - joint[kind]).max() for s in sums]
        assert errors[1] < 0.01 * max(1, np.abs(joint[kind]).max())
        assert errors[1] <= errors[0] + 1e-9


def test_rank_correlation_is_spearmans():
    from scipy.stats import spearmanr

    random = np.random.default_rng(0)
    for _ in range(5):
        a, b = random.integers(0, 6, 20).astype(float), random.normal(size=20)
        assert rank_correlation(a, b) == nearly(spearmanr(a, b).statistic)
    assert np.isnan(rank_correlation(np.zeros(3), np.arange(3.0)))

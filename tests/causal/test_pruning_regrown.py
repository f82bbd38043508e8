"""Heads that are added back: without them it is the pruned model, and what was kept is where it was."""

import pytest
import torch
from support.tolerance import assert_same

from headway.causal.pruning import pruned, regrown
from headway.config.lm.model import Gpt2, GptNeo
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

MODELS = {
    "plain": GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads=4, n_positions=16, init_std=0.3),
    "grouped": Gpt2(family="gpt-2", d_model=16, n_layers=2, n_heads="4:2-2", n_positions=16, init_std=0.3),
    "norm after": Gpt2(
        family="gpt-2", d_model=16, n_layers=2, n_heads=4, n_positions=16, norm_place="after", init_std=0.3
    ),
}
KEEP = {
    "plain": [[True, False, True, False], [False] * 4],
    "grouped": [[False, False, True, True], [True, False]],
    "norm after": [[False] * 4, [True, True, False, True]],
}


@pytest.mark.parametrize("name", MODELS)
def test_with_gates_of_0_on_what_is_back_it_is_the_pruned_model(name):
    model, keep = MODELS[name], KEEP[name]
    weights = initial_weights(model, 11, seed=0)
    for key in weights:  # biases too
        if key.endswith("bias"):
            weights[key] = weights[key] + torch.linspace(-1, 1, weights[key].size).numpy()
    small = pruned(Transformer(model, 11, weights).eval(), keep)
    heads = [(layer, head) for layer, mask in enumerate(keep) for head, stays in enumerate(mask) if stays]
    again = regrown(model, initial_weights(model, 11, seed=1), small.weights(), heads)
    whole, tokens = Transformer(model, 11, again).eval(), torch.arange(10)[None]
    gates = [torch.tensor(mask, dtype=torch.float32) for mask in keep]
    # The norm before heads that all went was lost, and matters only to them.
    assert_same(whole(tokens, gates=gates)[0], small(tokens)[0])
    assert not torch.allclose(whole(tokens)[0], small(tokens)[0], atol=1e-3)

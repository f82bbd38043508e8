"""How weights start, and what is said of those that do not fit."""

import numpy as np
import pytest

from headway.config.lm.model import Gpt2, GptNeo, Llama, Ranks
from headway.errors import UserError
from headway.models.weights import check_weights, initial_weights

WIDE = {"d_model": 96, "n_layers": 2, "n_positions": 64}


def neo(**changed):
    return GptNeo(**{"family": "gpt-neo", **WIDE, "n_heads": 4, **changed})


def test_matrices_are_normal_biases_zero_and_norms_one():
    weights = initial_weights(neo(init_std=0.05), 200, seed=0)
    for name, array in weights.items():
        assert array.dtype == np.float32
        if name.endswith(".bias"):
            assert not array.any()
        elif "norm" in name:
            assert (array == 1).all()
        else:
            assert abs(array.mean()) < 0.003
            assert abs(array.std() / 0.05 - 1) < 0.04


def test_equal_names_and_shapes_start_alike_in_all_layouts():
    one, other = (initial_weights(neo(n_heads=n), 200, seed=3) for n in ("3-24", "96-1"))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    lane = initial_weights(neo(d_embed=32, n_kv_heads=2), 200, seed=3)
    alike = [name for name in one if name in lane and one[name].shape == lane[name].shape]
    assert "layers.0.attention.q.weight" in alike
    assert "embedding.weight" not in alike
    assert all(np.array_equal(one[name], lane[name]) for name in alike)


def test_seeds_and_names_differ():
    one, other = (initial_weights(neo(), 200, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one["embedding.weight"], other["embedding.weight"])
    assert not np.array_equal(one["layers.0.attention.q.weight"], one["layers.1.attention.q.weight"])


@pytest.mark.parametrize(("factor_init", "spread"), [("published", 0.02**2 * 24**0.5), ("matched", 0.02)])
def test_the_product_of_factors_has_the_declared_spread(factor_init, spread):
    weights = initial_weights(neo(ranks=Ranks(q=24), factor_init=factor_init), 200, seed=0)
    at = "layers.0.attention.q"
    first, second = weights[f"{at}.first.weight"], weights[f"{at}.second.weight"]
    assert abs((second @ first).std() / spread - 1) < 0.05
    assert abs(first.std() / second.std() - 1) < 0.05


def test_initial_weights_fit():
    for model in (neo(), Llama(family="llama", **WIDE, n_heads="0-4"), Gpt2(family="gpt-2", **WIDE, n_heads=2)):
        check_weights(initial_weights(model, 50, seed=0), model, 50)


def test_everything_that_does_not_fit_is_named_at_once():
    weights = initial_weights(neo(), 50, seed=0)
    del weights["norm.bias"]
    weights["readout.weight"] = weights["embedding.weight"]
    weights["layers.1.mlp.up.weight"] = weights["layers.1.mlp.up.weight"][:7]
    with pytest.raises(UserError) as raised:
        check_weights(weights, neo(), 50)
    assert str(raised.value) == (
        "3 arrays do not fit the model (2 layers, heads 4-4, vocabulary 50); give the weights of this model, or the "
        "model of these weights:\n"
        "  missing: norm.bias [96]\n"
        "  unexpected: readout.weight [50, 96]\n"
        "  wrong shape: layers.1.mlp.up.weight is [7, 96], the model needs [384, 96]"
    )

"""The first product of an MLP without some heads is what the stream without them gives."""

import pytest
import torch
from support.drawn_transformers import MODELS, built, every_model, text
from support.tolerance import assert_same

from headway.causal.removal import FirstProduct


@every_model
def test_the_stream_after_the_layer_is_that_of_the_obvious_way(model):
    module = built(model).double()
    with torch.no_grad():
        stream = module.entered(text(12))
        for layer, heads in enumerate(model.layout.layers):
            written = module.written(stream, layer)
            first = None if written is None or not heads.n_heads else FirstProduct.of(module, layer, stream, written)
            if first is not None:
                changes = [
                    (chosen, torch.randn(2, 12, len(chosen) * heads.d_head, dtype=torch.float64))
                    for chosen in ([0], list(range(heads.n_heads)))
                ]
                other = [written + by @ first.W_O[chosen].flatten(0, 1) for chosen, by in changes]
                expected = torch.cat([module.rest(stream, each, layer) for each in other])
                assert_same(first.after(changes), expected)
            stream = module.rest(stream, written, layer)


@pytest.mark.parametrize(
    ("name", "shared"),
    [("published", True), ("low rank", True), ("sinusoidal", False), ("attention only", False), ("no residual", False)],
)
def test_it_is_shared_where_the_mlp_reads_the_stream_through_a_norm(name, shared):
    module = built(MODELS[name])
    with torch.no_grad():
        stream = module.entered(text(12))
        assert (FirstProduct.of(module, 0, stream, module.written(stream, 0)) is not None) == shared

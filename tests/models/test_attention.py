"""What attention costs and accepts beyond its laws: memory, precision, blocks, dropout, keys from a cache."""

import pytest
import torch
from support.slow_attention import reference_attention
from support.tolerance import assert_same, nearly
from torch.utils.flop_counter import FlopCounterMode

from headway.config.lm.model import Gpt2
from headway.models.attention import attend, of_queries
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights


def drawn(heads, queries, keys, d_head, dtype=torch.float64):
    random = torch.Generator().manual_seed(0)
    shapes = ((2, heads, queries, d_head), (2, heads, keys, d_head), (2, heads, keys, d_head))
    return [torch.randn(shape, generator=random, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("window", [None, 1, 5, 64, 200])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 90), (3, 90), (33, 33), (97, 97), (130, 131), (129, 200)])
def test_blocks_equal_the_reference(queries, keys, window):
    q, k, v = drawn(3, queries, keys, 5)
    there = reference_attention(q, k, v, scale=0.7, window=window)
    assert_same(attend(q, k, v, scale=0.7, window=window), there)


def test_query_heads_find_their_keys():
    k = torch.arange(3.0)[None, :, None, None].expand(1, 3, 2, 1)
    assert of_queries(k, (1, 1, 1)) is k
    assert of_queries(k, (2, 2, 2))[0, :, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert of_queries(k, (3, 1, 2))[0, :, 0, 0].tolist() == [0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("kv_heads", [None, 2])
def test_no_scores_are_held_for_every_head(window, kv_heads):
    """The largest tensor that the graph keeps is as large with 32 heads as with 2."""

    def largest(n_heads):
        spec = Gpt2(
            family="gpt-2", d_model=64, n_layers=1, n_heads=n_heads, n_kv_heads=kv_heads, windows=(window,), mlp="none"
        )
        module, kept = Transformer(spec, 11, initial_weights(spec, 11, 0)), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
            module.hidden(torch.zeros(2, 256, dtype=torch.long))
        return max(kept)

    assert largest(32) == largest(2)


def test_blocks_leave_out_what_is_not_seen():
    """Of T x T products, causal attention in four blocks computes 5/8, and less with a window."""

    def flops(window):
        q, k, v = drawn(4, 256, 256, 8, torch.float32)
        with (
            FlopCounterMode(display=False) as counter,
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        ):
            attend(q, k, v, scale=1.0, window=window)
        return counter.get_total_flops() / (2 * 4 * 2 * 2 * 256 * 256 * 8)

    assert flops(None) == nearly(5 / 8)
    assert flops(64) < 0.46


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_stays_near_float32(autocast):
    spec = Gpt2(family="gpt-2", d_model=64, n_layers=2, n_heads="8:4-16", windows=(None, 20), n_positions=128)
    module = Transformer(spec, 101, initial_weights(spec, 101, 0))
    tokens = torch.randint(0, 101, (2, 100), generator=torch.Generator().manual_seed(0))
    exact = module.loss(tokens, tokens.roll(-1, 1))
    if not autocast:
        module = module.bfloat16()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits, _ = module(tokens)
        loss = module.loss(tokens, tokens.roll(-1, 1))
    assert (logits.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    assert abs(loss - exact) < 0.01
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_dropout_is_there_in_training_only_and_follows_torchs_generator():
    spec = Gpt2(family="gpt-2", d_model=32, n_layers=2, n_heads=4, dropout=0.3, n_positions=64)
    module = Transformer(spec, 11, initial_weights(spec, 11, 0))
    tokens = torch.zeros(2, 50, dtype=torch.long)

    def loss(seed):
        torch.manual_seed(seed)
        return module.loss(tokens, tokens).item()

    assert loss(0) == loss(0) != loss(1)
    module.eval()
    assert loss(0) == loss(1)


def test_attention_weights_are_dropped_in_training():
    """Values of 1 average to 1 unless some of the weights are gone."""
    q, k, v = drawn(2, 80, 80, 4)
    assert_same(attend(q, k, torch.ones_like(v), scale=1.0), torch.ones_like(q))
    dropped = attend(q, k, torch.ones_like(v), scale=1.0, dropout=0.5)
    assert not dropped.allclose(torch.ones_like(q))
    assert abs(dropped.mean() - 1) < 0.1

"""The residual stream: where tokens and positions enter, what is read, how much of it is the lane's."""

import math

import jaxtyping
import numpy as np
import pytest
import torch
from support.tolerance import assert_same, nearly

from headway.config.lm.model import Gpt2, GptNeo
from headway.errors import UserError
from headway.models.attention import rotary_table, rotate, sinusoids
from headway.models.layers import enter, lane_share
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

TOKENS = torch.randint(0, 11, (3, 20), generator=torch.Generator().manual_seed(0))


def module_of(**changed):
    model = GptNeo(**{"family": "gpt-neo", "d_model": 24, "n_layers": 2, "n_heads": 4, "n_positions": 32, **changed})
    return Transformer(model, 11, initial_weights(model, 11, seed=0)).eval()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("Once upon", "str"),
        ([[1, 2]], "list"),
        (np.array([[1, 2]]), "ndarray"),
        (torch.tensor([1, 2]), r"a tensor of shape \(2,\)"),
        (torch.ones(1, 2), r"a tensor of shape \(1, 2\)"),
    ],
)
def test_what_are_no_tokens_is_answered_with_what_takes_them(given, named, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as it is outside of tests
    said = rf"^tokens: {named} was given, but a model reads a tensor of whole numbers .* headway\.open_model\(PATH\)"
    model = module_of()
    for read in (model.trace, model):
        with pytest.raises(UserError, match=said):
            read(given)


def test_tokens_enter_the_first_entries_and_positions_all_or_those():
    embedded, wide, narrow = torch.ones(1, 2, 3), torch.full((2, 5), 0.5), torch.full((2, 3), 0.5)
    assert enter(embedded, None, 5)[0, 0].tolist() == [1, 1, 1, 0, 0]
    assert enter(embedded, wide, 5)[0, 1].tolist() == [1.5, 1.5, 1.5, 0.5, 0.5]
    assert enter(embedded, narrow, 5)[0, 1].tolist() == [1.5, 1.5, 1.5, 0, 0]


@pytest.mark.parametrize(("lane", "read"), [("same", slice(0, 8)), ("switched", slice(16, 24))])
def test_the_tied_read_out_takes_its_side(lane, read):
    module = module_of(d_embed=8, lane=lane)
    stream = torch.randn(1, 4, 24, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = module.norm(stream)[..., read] @ module.embedding.weight.T
        assert_same(module.read_out(stream), expected)


def test_the_share_of_the_lane():
    stream = torch.tensor([[3.0, 0.0, 4.0], [1.0, 0.0, 0.0]])
    assert_same(lane_share(stream, 2), torch.tensor([16 / 25, 0.0]))


@pytest.mark.parametrize("in_lane", [True, False])
def test_the_lane_is_empty_at_first_unless_positions_are_in_it(in_lane):
    module = module_of(d_embed=8, positions_in_lane=in_lane)
    with torch.no_grad():
        shares = module.lane_shares(TOKENS)
        _, trace = module.hidden(TOKENS, record=True)
    assert shares.shape == (3, 3, 20)  # before each of two layers, and before the final norm
    assert_same(shares[2], trace.streams[2][..., 8:].square().sum(2) / trace.streams[2].square().sum(2))
    assert (shares[0] > 0).all() == in_lane
    assert (shares[1:] > 0).all()


def test_sinusoids_are_vaswanis():
    table = sinusoids(50, 7)
    for pos, entry in ((0, 0), (3, 4), (49, 5), (10, 6)):
        angle = pos / 10_000 ** ((entry - entry % 2) / 8)
        assert table[pos, entry] == nearly(math.cos(angle) if entry % 2 else math.sin(angle))


def test_turned_queries_and_keys_know_only_their_distance():
    x = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0))
    table = rotary_table(64, 8, 10_000.0)
    q, k = (rotate(one.expand(1, 1, 64, 8), table)[0, 0] for one in x)
    products = q @ k.T
    assert_same(products[10, 3], products[60, 53])
    assert not products[10, 3].allclose(products[10, 4])


def test_without_positions_the_order_of_earlier_tokens_changes_nothing_in_one_layer():
    model = Gpt2(family="gpt-2", d_model=24, n_layers=1, n_heads=4, positions="none")
    module = Transformer(model, 11, initial_weights(model, 11, 0)).eval()
    with torch.no_grad():
        one, other = module(TOKENS)[0], module(torch.cat((TOKENS[:, :-1].flip(1), TOKENS[:, -1:]), dim=1))[0]
    assert_same(one[:, -1], other[:, -1])


def test_a_text_longer_than_the_positions_is_refused():
    with pytest.raises(UserError) as raised:
        module_of()(torch.zeros(1, 33, dtype=torch.long))
    assert str(raised.value) == (
        "a text of 33 tokens was given, but the model's longest is 32 (n_positions); give a shorter one, or a model "
        "with more positions"
    )


def test_gates_for_other_layers_are_refused():
    with pytest.raises(UserError) as raised:
        module_of()(TOKENS, gates=[torch.ones(4)])
    assert str(raised.value) == (
        "gates for 1 layers were given, but the model has 2; give one tensor for each, of any size for a layer without "
        "heads"
    )


def test_building_draws_nothing_and_leaves_no_weight_unset_in_silence():
    state = torch.get_rng_state()
    model = GptNeo(family="gpt-neo", d_model=24, n_layers=2, n_heads=4)
    module = Transformer(model, 11)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.isnan().all() for parameter in module.parameters())


def test_targets_of_minus_one_do_not_count():
    module = module_of()
    targets = TOKENS.roll(-1, 1)
    cut = targets.clone()
    cut[:, 5:] = -1
    with torch.no_grad():
        assert_same(module.loss(TOKENS, cut), module.loss(TOKENS[:, :5], targets[:, :5]))

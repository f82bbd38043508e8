"""Random tokens, repeated: all after one period, or each text after its own, so that no fixed distance pays."""

import numpy as np
import pytest
import torch

from headway.config.lm.model import Gpt2
from headway.errors import UserError
from headway.heads.measure import HeadStream, drawn_repeats, repeated_tokens
from headway.models.trace import AttentionTrace, Trace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights


def test_each_text_is_its_first_half_twice():
    tokens = repeated_tokens(100, 7, 5, seed=3)
    assert (tokens.shape, tokens.dtype) == ((5, 14), np.int64)
    assert (tokens[:, :7] == tokens[:, 7:]).all()
    assert all(len(set(text[:7])) == 7 for text in tokens)
    assert len({tuple(text) for text in tokens}) == 5
    assert tokens.min() >= 0
    assert tokens.max() < 100


def test_a_seed_gives_the_same_tokens_and_another_others():
    assert np.array_equal(repeated_tokens(100, 7, 5, 3), repeated_tokens(100, 7, 5, 3))
    assert not np.array_equal(repeated_tokens(100, 7, 5, 3), repeated_tokens(100, 7, 5, 4))


def test_a_small_vocabulary_repeats_within_a_period():
    assert set(repeated_tokens(3, 50, 1, 0)[0]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("given", "words"), [((0, 4, 1), "vocab_size 0"), ((9, 1, 1), "period 1"), ((9, 4, 0), "batch 0")]
)
def test_what_cannot_be_drawn(given, words):
    with pytest.raises(UserError, match=f"repeated tokens with {words} were asked for; .* must be at least"):
        repeated_tokens(*given, seed=0)


def test_each_text_has_a_period_of_its_own_and_ends_with_what_is_repeated():
    found = drawn_repeats(200, 64, 8, seed=0)
    assert found.tokens.shape == (8, 128)
    assert sorted(found.periods) == sorted(set(found.periods))
    assert (found.periods.min(), found.periods.max()) == (16, 64)
    for tokens, period, begins in zip(found.tokens, found.periods, found.begins, strict=True):
        assert begins + 2 * period == 128
        assert (tokens[begins : begins + period] == tokens[begins + period :]).all()
        assert len(set(tokens[begins:])) == period
        assert not set(tokens[:begins]) & set(tokens[begins:])
    assert np.array_equal(found.tokens, drawn_repeats(200, 64, 8, seed=0).tokens)
    assert not np.array_equal(found.tokens, drawn_repeats(200, 64, 8, seed=1).tokens)


def test_short_periods_and_few_tokens_are_repeated_too():
    assert set(drawn_repeats(9, 2, 3, 0).periods) == {2}
    assert set(drawn_repeats(9, 4, 8, 0).periods) == {2, 3, 4}
    assert set(drawn_repeats(2, 8, 3, 0).tokens.flatten()) == {0, 1}
    with pytest.raises(UserError, match="repeated tokens with longest 1 were asked for"):
        drawn_repeats(9, 1, 3, 0)


def test_a_head_that_looks_a_fixed_distance_back_is_no_induction_head():
    """With one period it has the whole score; with eight, an eighth or so of what an induction head has."""
    n, longest, distance = 8, 32, 20
    found = drawn_repeats(100, longest, n, seed=0)
    places = torch.arange(2 * longest)
    sees = (places[:, None] >= places).expand(n, -1, -1)
    fixed = (places[:, None] - places == distance).float().expand(n, -1, -1)
    ago = torch.from_numpy(found.periods)[:, None, None] - 1
    inducts = ((places[:, None] - places)[None] == ago).float()
    logits = 30 * torch.stack((fixed, inducts), dim=1)
    zeros = torch.zeros(n, 2, 2 * longest, 1)
    attention = AttentionTrace(
        name="a", layer=0, kind="self", q=zeros, k=zeros, v=zeros, z=zeros, kv_of=(0, 1), W_O=torch.ones(2, 1, 2),
        b_O=None, scale=1.0, mask=sees, bias=logits,
    )  # fmt: skip
    stream = HeadStream(["induction_score"], repeats=True)
    stream.add(Trace(attentions=(attention,)), torch.from_numpy(found.periods), torch.from_numpy(found.begins))
    by_distance, by_token = stream.scores()["induction_score"].values["a"]
    assert by_distance < 0.25
    assert by_token > 0.99


def test_what_a_window_hides_has_no_score():
    found = drawn_repeats(100, 32, 8, seed=0)
    model = Gpt2(family="gpt-2", d_model=16, n_layers=2, n_heads=2, n_positions=64, windows=(None, 4))
    module = Transformer(model, 100, initial_weights(model, 100, 0)).eval()
    stream = HeadStream(["induction_score"], repeats=True)
    with torch.no_grad():
        trace = module.trace(torch.from_numpy(found.tokens))
    stream.add(trace, torch.from_numpy(found.periods), torch.from_numpy(found.begins))
    seen, hidden = stream.scores()["induction_score"].values.values()
    assert np.isfinite(seen).all()
    assert np.isnan(hidden).all()

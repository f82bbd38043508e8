"""Random tokens, repeated: all after one period, or each text after its own, so that no fixed distance pays."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.tolerance import nearly

from headway.config.lm.model import Gpt2
from headway.data.synthetic import letters_without_repeats
from headway.errors import UserError
from headway.heads.measure import HeadStream, drawn_repeats, repeated_tokens, repeats_of_text
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


@pytest.mark.parametrize(
    ("given", "words"), [((0, 4, 1), "vocab_size 0"), ((9, 1, 1), "period 1"), ((9, 4, 0), "batch 0")]
)
def test_what_cannot_be_drawn(given, words):
    with pytest.raises(UserError, match=f"repeated tokens with {words} were asked for; .* must be at least"):
        repeated_tokens(*given, seed=0)


def test_each_text_has_a_period_of_its_own_and_ends_with_what_is_repeated():
    found = drawn_repeats(200, 64, 8, seed=0)
    assert found.tokens.shape == (8, 128)
    assert len(set(found.periods.tolist())) == 8
    assert (found.periods.min(), found.periods.max()) == (16, 64)
    for tokens, period, begins in zip(found.tokens, found.periods, found.begins, strict=True):
        assert begins + 2 * period == 128
        assert (tokens[begins : begins + period] == tokens[begins + period :]).all()
        assert len(set(tokens[begins:].tolist())) == period
        assert not set(tokens[:begins].tolist()) & set(tokens[begins:].tolist())
    assert np.array_equal(found.tokens, drawn_repeats(200, 64, 8, seed=0).tokens)
    assert not np.array_equal(found.tokens, drawn_repeats(200, 64, 8, seed=1).tokens)


def test_short_periods_and_few_tokens_are_repeated_too():
    assert set(drawn_repeats(9, 2, 3, 0).periods.tolist()) == {2}
    assert set(drawn_repeats(9, 4, 8, 0).periods.tolist()) == {2, 3, 4}
    assert set(drawn_repeats(2, 8, 3, 0).tokens.flatten().tolist()) == {0, 1}
    with pytest.raises(UserError, match="repeated tokens with longest 1 were asked for"):
        drawn_repeats(9, 1, 3, 0)


def test_a_head_that_looks_a_fixed_distance_back_is_no_induction_head():
    """With one period it has the whole score; with eight, an eighth or so of what an induction head has."""
    n, longest, distance = 8, 32, 20
    found = drawn_repeats(100, longest, n, seed=0)
    places = torch.arange(2 * longest)
    sees = (places[:, None] >= places).expand(n, -1, -1)
    fixed = (places[:, None] - places == distance).float().expand(n, -1, -1)
    ago = found.periods[:, None, None] - 1
    inducts = ((places[:, None] - places)[None] == ago).float()
    logits = 30 * torch.stack((fixed, inducts), dim=1)
    zeros = torch.zeros(n, 2, 2 * longest, 1)
    attention = AttentionTrace(
        name="a", layer=0, kind="self", q=zeros, k=zeros, v=zeros, z=zeros, kv_of=(0, 1), W_O=torch.ones(2, 1, 2),
        b_O=None, scale=1.0, mask=sees, bias=logits,
    )  # fmt: skip
    stream = HeadStream(["induction_score"], repeats=True)
    stream.add(Trace(attentions=(attention,)), found.periods, found.begins)
    by_distance, by_token = stream.scores()["induction_score"].values["a"]
    assert by_distance < 0.25
    assert by_token > 0.99


def test_what_a_window_hides_has_no_score():
    found = drawn_repeats(100, 32, 8, seed=0)
    model = Gpt2(family="gpt-2", d_model=16, n_layers=2, n_heads=2, n_positions=64, windows=(None, 4))
    module = Transformer(model, 100, initial_weights(model, 100, 0)).eval()
    stream = HeadStream(["induction_score"], repeats=True)
    with torch.no_grad():
        trace = module.trace(found.tokens)
    stream.add(trace, found.periods, found.begins)
    seen, hidden = stream.scores()["induction_score"].values.values()
    assert np.isfinite(seen).all()
    assert np.isnan(hidden).all()


def test_repeats_of_a_text_have_its_tokens_alone_and_keep_its_first_ones():
    text = np.random.default_rng(0).choice([11, 12, 40, 41, 42, 90], (3, 30))
    text[:, 0] = 5, 6, 7
    found = repeats_of_text(text, 4, 6, seed=0)
    assert found.tokens[:, 0].tolist() == [5, 6, 7, 5, 6, 7]
    assert set(found.tokens[:, 1:].flatten().tolist()) <= {11, 12, 40, 41, 42, 90}
    assert found.begins.min() == 1
    for tokens, period, begins in zip(found.tokens, found.periods, found.begins, strict=True):
        assert (tokens[begins:-period] == tokens[begins + period :]).all()


def follows(model_tokens, text):
    """A model of one layer whose first head attends to a token by which it is, and whose second is an even one."""
    n = len(model_tokens)
    weights = {name: np.zeros_like(x) for name, x in initial_weights(GRAMMAR, n, 0).items()}
    weights["embedding.weight"][:, :n] = np.eye(n)
    weights["layers.0.attention.q.weight"][:8] = np.eye(8)[model_tokens] * 8
    weights["layers.0.attention.k.weight"][:8] = np.eye(8)
    module = Transformer(GRAMMAR, n, weights).eval()
    stream = HeadStream(["text_induction_score", "text_duplicate_score"], intervals=True)
    with torch.no_grad():
        for part in torch.from_numpy(text).split(4):
            stream.add(replace(module.trace(part), tokens=part))
    return stream.scores()


GRAMMAR = Gpt2(
    family="gpt-2", d_model=8, n_layers=1, n_heads="2x8", n_positions=64, norm="none", mlp="none", tied=False,
    biases=(), attention_scale="none", positions="none",
)  # fmt: skip


def test_on_its_text_a_head_that_knows_the_grammar_attends_to_what_came_next():
    """A token is followed by another one by a rule, nine times of ten."""
    rule, random = np.array([3, 5, 0, 6, 1, 7, 2, 4]), np.random.default_rng(0)
    text = np.empty((8, 64), np.int64)
    text[:, 0] = random.integers(8, size=8)
    for at in range(1, 64):
        text[:, at] = np.where(random.random(8) < 0.9, rule[text[:, at - 1]], random.integers(8, size=8))
    found = follows(np.argsort(rule), text)
    score = found["text_induction_score"]
    ((by_rule, even),), ((low, _), (high, _)) = score.values.values(), *score.interval.values()
    assert by_rule > 0.8
    assert 0 < high - low < 0.2
    (placed,), (null,) = score.by_place.values(), score.null.values()
    assert by_rule - placed[0] > 0.5
    assert even == nearly(null[0])
    assert found["text_duplicate_score"].values[next(iter(score.values))][0] < 0.2


def test_a_head_of_the_token_before_has_on_any_text_what_its_positions_give():
    """Of three letters of which none follows itself, every second one was followed by the one before."""
    text = torch.from_numpy(letters_without_repeats(np.random.default_rng(0), 32, 60, 3))
    places = torch.arange(60)
    sees = places[:, None] >= places
    logits = 30.0 * (places[:, None] - places == 1).float()
    zeros = torch.zeros(32, 1, 60, 1)
    attention = AttentionTrace(
        name="a", layer=0, kind="self", q=zeros, k=zeros, v=zeros, z=zeros, kv_of=(0,), W_O=torch.ones(1, 1, 2),
        b_O=None, scale=1.0, mask=sees, bias=logits,
    )  # fmt: skip
    stream = HeadStream(["text_induction_score"])
    stream.add(Trace(attentions=(attention,), tokens=text))
    score = stream.scores()["text_induction_score"]
    assert score.values["a"][0] > 0.45
    assert abs(score.by_place["a"][0] - score.values["a"][0]) < 0.05


def test_metrics_of_a_text_need_its_tokens():
    stream = HeadStream(["text_induction_score"])
    module = Transformer(GRAMMAR, 8, initial_weights(GRAMMAR, 8, 0)).eval()
    with torch.no_grad(), pytest.raises(UserError, match="the trace holds no tokens"):
        stream.add(module.trace(torch.zeros(1, 4, dtype=torch.int64)))

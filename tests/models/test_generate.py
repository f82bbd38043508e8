"""Text from a model: what is drawn, when it stops, and that the cache changes nothing."""

import pytest
import torch
from support.tolerance import assert_same

from headway.config.lm.model import Gpt2, GptNeo, Llama
from headway.errors import UserError
from headway.models.attention import KVCache
from headway.models.generate import choose, generate
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

SMALL = {"d_model": 32, "n_layers": 3, "n_positions": 60, "init_std": 0.3}
MODELS = {
    "published": GptNeo(family="gpt-neo", **SMALL, n_heads="4-8-2", windows=(None, 5)),
    "rotary": Llama(family="llama", **SMALL, n_heads="8:2-0-4+1x4", windows=(None, None, 9)),
    "sinusoidal": Gpt2(family="gpt-2", **SMALL, n_heads=2, positions="sinusoidal", dropout=0.4),
}
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def module_of(name):
    return Transformer(MODELS[name], 23, initial_weights(MODELS[name], 23, seed=0))


def drawn(logits, n=2000, **how):
    random = torch.Generator().manual_seed(0)
    how = {"temperature": 1.0, "top_k": None, "top_p": None} | how
    return [choose(logits, **how, random=random) for _ in range(n)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [[1] * 60, [8, 1, 1, 40, 10], [60]], ids=str)
def test_logits_with_a_cache_equal_those_without(name, steps):
    module = module_of(name).eval()
    tokens = torch.randint(0, 23, (2, 60), generator=torch.Generator().manual_seed(0))
    cache, cached = KVCache(MODELS[name], 60, batch=2), []
    with torch.no_grad():
        for piece in tokens.split(steps, dim=1):
            cached.append(module(piece, cache=cache)[0])
        assert_same(torch.cat(cached, dim=1), module(tokens)[0])
    assert cache.length == 60


@pytest.mark.parametrize("name", MODELS)
def test_greedy_text_is_the_likeliest_token_each_time(name):
    module = module_of(name)
    text = list(PROMPT)
    with torch.no_grad():
        for _ in range(30):
            text.append(int(module.eval()(torch.tensor([text]))[0][0, -1].argmax()))
    assert generate(module.train(), PROMPT, n_tokens=30, temperature=0.0) == text[len(PROMPT) :]


def test_a_seed_gives_its_text_and_leaves_torchs_generator_alone():
    module = module_of("published")
    before = torch.get_rng_state()
    texts = [generate(module, PROMPT, n_tokens=40, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_the_model_keeps_its_mode():
    module = module_of("sinusoidal").train()
    first = generate(module, PROMPT, n_tokens=20)
    assert module.training
    assert first == generate(module.eval(), PROMPT, n_tokens=20)
    assert not module.training


def test_the_text_ends_before_the_stop_token():
    module = module_of("published")
    whole = generate(module, PROMPT, n_tokens=40)
    stop = whole[10]
    assert generate(module, PROMPT, n_tokens=40, stop=stop) == whole[: whole.index(stop)]


def test_the_longest_context_can_be_filled():
    assert len(generate(module_of("published"), PROMPT, n_tokens=60 - len(PROMPT))) == 60 - len(PROMPT)


def test_draws_follow_the_temperature():
    logits = torch.tensor([0.0, 1.0, 2.0])
    for temperature in (0.5, 1.0, 3.0):
        counts = torch.bincount(torch.tensor(drawn(logits, temperature=temperature)), minlength=3) / 2000
        torch.testing.assert_close(counts, (logits / temperature).softmax(0), atol=0.03, rtol=0)
    assert set(drawn(logits, temperature=0.0, n=50)) == {2}


def test_top_k_and_top_p_leave_the_likeliest():
    logits = torch.tensor([0.4, 0.1, 0.3, 0.2]).log()
    for how, left in (
        ({"top_k": 2}, {0, 2}),
        ({"top_k": 9}, {0, 1, 2, 3}),
        ({"top_p": 0.39}, {0}),
        ({"top_p": 0.41}, {0, 2}),
        ({"top_p": 0.75}, {0, 2, 3}),
        ({"top_k": 2, "top_p": 0.5}, {0}),  # of the two likeliest, .4 is 57 %
    ):
        assert set(drawn(logits, n=200, **how)) == left, how
    counts = torch.bincount(torch.tensor(drawn(logits, top_k=2)), minlength=4) / 2000
    torch.testing.assert_close(counts, torch.tensor([4 / 7, 0, 3 / 7, 0]), atol=0.03, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"prompt_tokens": []}, "an empty prompt was given; give at least one token, such as the end-of-text token"),
        (
            {"prompt_tokens": [1, 23]},
            "the prompt has token 23, but the vocabulary ends at 22; use the tokenizer that the model was trained with",
        ),
        ({"n_tokens": 0}, "n_tokens 0 was given; give 1 or more"),
        (
            {"n_tokens": 53},
            "8 tokens of the prompt and 53 more are 61, but the model takes 60 (n_positions); ask for 52 "
            "tokens or fewer",
        ),
        (
            {"prompt_tokens": [1] * 70},
            "the prompt has 70 tokens, but the model's longest text is 60 (n_positions); give a prompt of 59 or fewer",
        ),
        ({"temperature": -1.0}, "temperature -1.0 was given; give 0 (always the likeliest token) or more"),
        ({"temperature": float("nan")}, "temperature nan was given; give 0 (always the likeliest token) or more"),
        ({"top_k": 0}, "top_k 0 was given; give 1 or more, or None for all tokens"),
        (
            {"top_p": 1.5},
            "top_p 1.5 was given; give a probability above 0 and up to 1, or None for all tokens",
        ),
    ],
)
def test_what_cannot_be_written_is_said(wrong, message):
    with pytest.raises(UserError) as raised:
        generate(module_of("published"), **{"prompt_tokens": PROMPT, "n_tokens": 5} | wrong)
    assert str(raised.value) == message

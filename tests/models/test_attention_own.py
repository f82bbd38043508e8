"""Attention by a function of one's own: the usual one where the function changes nothing, and one trace of it."""

import pytest
import torch
from support.drawn_transformers import GPT2, LLAMA, MODELS, VOCAB, built
from support.measuring import measure
from support.tolerance import assert_same

from headway.config.lm.model import OWN_ATTENTIONS, Gpt2, Llama
from headway.models.attention import Attention, of_queries
from headway.models.trace import SomeQueries


@pytest.fixture(autouse=True)
def own(monkeypatch):
    monkeypatch.setitem(OWN_ATTENTIONS, "unchanged", lambda scores: scores)
    monkeypatch.setitem(OWN_ATTENTIONS, "top_two", top_two)


def top_two(scores):
    least = scores.topk(min(2, scores.shape[-1]), dim=-1).values[..., -1:]
    return torch.where(scores >= least, scores, -torch.inf)


def tokens(length=12):
    return torch.randint(0, VOCAB, (3, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["GQA", "unequal KV groups", "smeared rotary keys", "ragged"])
def test_scores_that_are_not_changed_give_the_usual_attention(name):
    usual = built(MODELS[name])
    own = built(MODELS[name].model_copy(update={"attention": "unchanged"}))
    assert_same(own(tokens())[0], usual(tokens())[0])


MODELS_OF_OWN = {
    "windows": lambda: Gpt2(**GPT2, n_heads="4:2-6-1", windows=(None, 5), attention="top_two"),
    "rotary": lambda: Llama(**LLAMA, n_heads="4-2-3", attention="top_two"),
}


@pytest.mark.parametrize("model", MODELS_OF_OWN.values(), ids=MODELS_OF_OWN)
def test_the_weights_of_a_trace_make_the_contexts(model):
    module = built(model())
    with torch.no_grad():
        for attention in module.trace(tokens()).attentions:
            weights = attention.patterns()
            assert ((weights > 0).sum(3) <= 2).all()
            assert_same(weights.sum(3), torch.ones(weights.shape[:3]))
            assert_same(weights @ attention.v[:, list(attention.kv_of)], attention.z)


@pytest.mark.parametrize("model", MODELS_OF_OWN.values(), ids=MODELS_OF_OWN)
def test_some_queries_do_what_they_do_among_all(model):
    module = built(model())
    module = module.double()
    places = torch.tensor([[1, 4, 11], [0, 2, 7], [3, 5, 6]])
    some = SomeQueries(places=places, of=12, keys_counted=torch.ones(3, 12, dtype=torch.bool))
    given = {}
    for part in (part for part in module.modules() if isinstance(part, Attention)):
        part.register_forward_pre_hook(lambda part, args: given.update({part: args[:2]}))
    with torch.no_grad():
        module(tokens())
        for part, (x, rotary) in given.items():
            whole, _ = part(x, rotary)
            written, trace = part.at(x, rotary, some)
            assert_same(written, whole[torch.arange(3)[:, None], places])
            v = of_queries(trace.v, part.queries)
            assert_same(trace.patterns() @ v, trace.z)


def test_what_is_known_of_the_usual_attention_is_no_null_of_another():
    module = built(MODELS_OF_OWN["windows"]())
    with torch.no_grad():
        scores = measure(module.trace(tokens()), ["attention_diversity", "attention_entropy_nats"])
    assert scores["attention_diversity"].null == {}
    assert set(scores["attention_entropy_nats"].null) == set(scores["attention_entropy_nats"].values)


def test_an_attention_that_is_not_known_is_told():
    with pytest.raises(ValueError, match="'top_tow' is not known; did you mean top_two"):
        Gpt2(**GPT2, n_heads=2, attention="top_tow")
    with pytest.raises(ValueError, match="attention top_two needs a key for each query, and with mask"):
        Gpt2(**GPT2, n_heads=2, attention="top_two", mask="future")

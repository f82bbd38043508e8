"""`headway look` of models in memory: Headway's own, those of transformers, and what somebody brings."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import headway
from headway.config.lm.model import GptNeo
from headway.errors import UserError
from headway.heads.results import STEPS
from headway.report.models.look import look_page

OWN = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="2-1", n_positions=32)


class Sees(nn.Module):
    """One layer that sees everything, or the past alone, of sequences of one length."""

    def __init__(self, causal):
        super().__init__()
        self.embedding, self.causal = nn.Embedding(11, 16), causal
        self.positions = nn.Parameter(torch.randn(12, 16))
        self.W = nn.Parameter(torch.randn(4, 2, 16, 8))

    def trace(self, tokens):
        W_Q, W_K, W_V, W_O = self.W
        x = self.embedding(tokens) + (self.positions[: tokens.shape[1]] if self.causal else self.positions)
        found = headway.plain_attention(x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O.mT, causal=self.causal)
        return headway.Trace(attentions=(found,))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("A heron stood in the reeds and waited for a fish that never came. " * 20)
    return path


@pytest.fixture
def tokens():
    return torch.randint(11, (40, 12), generator=torch.Generator().manual_seed(0))


def test_a_model_of_ours_reads_a_text_or_tokens_and_stays_as_it_is(text):
    model = headway.hf.load(_exported(text.parent / "own")).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seen = headway.look(model, text=text, tokenizer="bytes", length=16, sequences=1, draws=0)
    assert seen.name == "Transformer"
    assert len(seen.circuits.of) == 3
    assert seen.words[104] == "h"
    given = headway.look(model, tokens=np.arange(60).reshape(3, 20), sequences=2, draws=0)
    assert given.found.text == "the given tokens"
    assert [sequence.tokens[:2] for sequence in given.sequences if sequence.kind == "text"] == [(0, 1), (20, 21)]
    assert given.words[12] == " 12"
    assert given.run is None
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def _exported(path):
    from headway.data.tokenizer import bytes_tokenizer
    from headway.hf.write import export
    from headway.models.weights import initial_weights

    export(OWN, 257, initial_weights(OWN, 257, seed=0), path, bytes_tokenizer())
    return path


def test_a_module_that_sees_everything_is_looked_at_and_not_called_masked(tokens):
    torch.manual_seed(0)
    model = Sees(causal=False)
    seen = headway.look(model, tokens=tokens, sequences=2, draws=2)
    assert seen.found.model["kind"] == "bidirectional"
    assert [sequence.kind for sequence in seen.sequences] == ["text", "text"]
    with torch.inference_mode():
        (attention,) = model.trace(tokens[1:2]).attentions
    packed = seen.patterns["layers.0.attention", 1]
    assert not packed.lower
    assert np.abs(packed.steps() / STEPS - attention.patterns()[0].numpy()).max() < 0.51 / STEPS
    html = look_page([seen], "headway look").html
    assert "kind" in html
    data = json.loads(html.partition('id="look-data">')[2].partition("</script>")[0])
    assert "masked" not in str(data["models"])


def test_a_causal_module_is_also_given_repeated_tokens(tokens):
    torch.manual_seed(0)
    seen = headway.look(Sees(causal=True), tokens=tokens.tolist(), sequences=1, draws=0)
    assert seen.found.model["kind"] == "causal"
    assert [sequence.kind for sequence in seen.sequences] == ["text", "repeated"]
    assert seen.circuits is None


def test_what_cannot_be_looked_at_is_said(text, tokens):
    for given, said in (
        ({"text": text, "tokens": tokens}, "a look needs either a text or tokens to read"),
        ({"text": text}, "Sees reads only tokens, but a text was given: give tokens="),
        ({"tokens": tokens + 99}, "token 99 was given, but the model Sees has tokens 0 to 10"),
    ):
        with pytest.raises(UserError, match=said):
            headway.look(Sees(causal=True), **given)
    with pytest.raises(UserError, match="a model was expected, or the path of one, but a int was given"):
        headway.look(3, tokens=tokens)
    with pytest.raises(UserError, match="Linear returns no record of its heads"):
        headway.look(nn.Linear(2, 2), tokens=tokens)

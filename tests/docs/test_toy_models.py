"""The page on bringing a toy model in: its example runs, and its x-ray says what it promises."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import headway
from headway.errors import UserError
from headway.models.trace import Trace

PAGE = Path(__file__).parents[2] / "docs/toy-models.md"


@pytest.fixture(scope="module")
def example():
    torch.manual_seed(0)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    return names


def test_the_example_gives_an_x_ray_of_a_bidirectional_model(example):
    found = example["found"]
    (attention,) = found.attentions
    assert (attention.kind, attention.n_heads, attention.d_head) == ("encoder", 2, 16)
    assert found.model["kind"] == "bidirectional"
    assert found.scores["query_cka"].draws["layers.0.attention"].shape == (16, 2, 2)
    assert np.isfinite(found.scores["ov_effective_rank"].values["layers.0.attention"]).all()
    assert "induction_score" not in found.scores
    assert any("induction and duplicate-token scores are not measured, since" in note for note in found.notes)
    assert found.loss_nats is None
    assert any("every position sees all others, including the token to predict" in note for note in found.notes)
    assert any("Copying scores and composition also need the layers' norms" in note for note in found.notes)


def test_the_model_stays_as_it_is(example):
    model = example["model"]
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    headway.xray(model, tokens=example["tokens"][:20], draws=4)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Causal(nn.Module):
    """One head, causal, of hand-written traces that do not say their matrices where that is asked."""

    def __init__(self, plain=True):
        super().__init__()
        self.embedding, self.plain = nn.Embedding(30, 8), plain
        self.W = nn.Parameter(torch.randn(4, 2, 8, 4))

    def trace(self, tokens):
        W_Q, W_K, W_V, W_O = self.W
        found = headway.plain_attention(self.embedding(tokens), W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O.mT)
        from dataclasses import replace

        return Trace(attentions=(found if self.plain else replace(found, plain=None),))


def test_a_causal_one_has_an_induction_score_and_without_matrices_no_draws():
    tokens = torch.randint(30, (6, 24))
    whole = headway.xray(Causal(), tokens=tokens)
    assert whole.scores["induction_score"].draws["layers.0.attention"].shape == (16, 2)
    assert "its loss on the text is not known: it gives no logits of the next token" in whole.notes
    bare = headway.xray(Causal(plain=False), tokens=tokens.tolist())
    assert not bare.scores["sink_score"].draws
    assert any("the given attentions have no matrices" in note for note in bare.notes)
    assert any("circuits are not measured" in note for note in bare.notes)


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (nn.Linear(2, 2), {"tokens": [[1, 2]]}, "Linear returns no record of its heads: your own module needs"),
        (Causal(), {"text": "README.md"}, "Causal reads only tokens, but a text was given: give tokens="),
        (Causal(), {}, "reads either a text or tokens: give either text= or tokens="),
        (Causal(), {"tokens": [[1, 2]], "text": "README.md"}, "give either text= or tokens="),
        (Causal(), {"tokens": [[1], [2]]}, "sequences of 1 token have no metric"),
        (Causal(), {"tokens": [[1, 31]]}, "token 31 was given, but the model Causal has tokens 0 to 29"),
        (Causal(), {"tokens": [[0.5, 1.0]]}, "as whole numbers of shape"),
        (7, {"tokens": [[1, 2]]}, "a model was expected, or the path of one, but a int was given"),
    ],
)
def test_what_cannot_be_measured(model, given, said):
    with pytest.raises((UserError, IndexError), match=said.replace("(", r"\(")) as raised:
        headway.xray(model, **given)
    assert isinstance(raised.value, UserError)


def test_matrices_that_do_not_fit_are_named():
    x, W = torch.zeros(1, 3, 8), torch.zeros(2, 8, 4)
    with pytest.raises(UserError, match=r"W_O \[2, 8, 4\].*many columns, and W_V as many columns as W_O has rows"):
        headway.plain_attention(x, W_Q=W, W_K=W, W_V=W, W_O=W)
    with pytest.raises(UserError, match="a matrix per head, W_K and W_V the same or a divisor"):
        headway.plain_attention(x, W_Q=W, W_K=torch.zeros(3, 8, 4), W_V=W, W_O=W.mT)
    with pytest.raises(UserError, match="need 8 rows each"):
        headway.plain_attention(x, W_Q=torch.zeros(2, 7, 4), W_K=W, W_V=W, W_O=W.mT)
    with pytest.raises(UserError, match="x is"):
        headway.plain_attention(x[0], W_Q=W, W_K=W, W_V=W, W_O=W.mT)

"""The declared transformer: families, parameters by hand, and errors that teach."""

import pytest

from headway.config.lm.budget import parameters_of
from headway.config.lm.model import Gpt2, GptNeo, Llama
from headway.config.spec import parse
from headway.errors import DeclarationError

NEO = {"family": "gpt-neo", "d_model": 48, "n_layers": 4, "n_heads": "8-4-2-1"}


def neo(**changes):
    return parse(GptNeo, {**NEO, **changes})


def test_gpt_neo_is_the_published_model():
    model = neo()
    assert [model.window(layer) for layer in range(4)] == [None, 256, None, 256]
    assert [model.logit_scale(layer) for layer in range(4)] == [1.0] * 4
    assert (model.n_positions, model.tied, model.mlp, model.biases) == (2048, True, "gelu_new", ("output", "mlp"))
    assert (model.norm, model.norm_place, model.norm_eps, model.dropout, model.init_std) == (
        "layer", "before", 1e-5, 0.0, 0.02,
    )  # fmt: skip


def test_families_are_sets_of_defaults():
    gpt2 = Gpt2(family="gpt-2", d_model=48, n_layers=1, n_heads=4)
    assert (gpt2.windows, gpt2.n_positions, gpt2.logit_scale(0)) == ((None,), 1024, 12**-0.5)
    llama = Llama(family="llama", d_model=48, n_layers=1, n_heads=4)
    assert (llama.positions, llama.norm, llama.mlp, llama.tied, llama.biases) == ("rotary", "rms", "swiglu", False, ())


def test_logit_scales():
    assert [neo(attention_scale="d_head").logit_scale(layer) for layer in (0, 3)] == [6**-0.5, 48**-0.5]
    assert neo(attention_scale="d_model").logit_scale(0) == 48**-0.5
    assert neo(attention_scale=0.25).logit_scale(0) == 0.25
    assert neo(attention_scale=1).logit_scale(0) == 1.0
    assert neo(n_heads="0-4-2-1", attention_scale="d_head").logit_scale(0) == 1.0


def test_ranks_may_differ_by_layer_and_skip_layers_without_attention():
    model = neo(n_heads="0-4-2-1", ranks={"q": 5, "up": "1-2-3-4"})
    assert [model.rank("q", layer) for layer in range(4)] == [5] * 4
    assert [model.rank("up", layer) for layer in range(4)] == [1, 2, 3, 4]
    assert model.rank("v", 0) is None
    names = [parameter.name for parameter in parameters_of(model, 10)]
    assert not any(name.startswith("layers.0.attention") for name in names)
    assert "layers.1.attention.q.first.weight" in names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_heads": None}, "n_heads: null was given; give a whole number, such as 8"),
        ({"n_heads": True}, "n_heads: true was given"),
        ({"windows": []}, r"windows: an empty list was given; give \[null\] for all keys"),
        ({"attention_scale": "dhead"}, "attention_scale: .*d_head"),
        ({"attention_scale": 0}, "attention_scale: 0 was given"),
        ({"biases": ["mlp", "mlp"]}, r"biases \['mlp', 'mlp'\]: it names one of them twice; keep one"),
        ({"d_embed": 49}, "d_embed 49 is above d_model 48; an embedding is at most as wide as the stream"),
        ({"lane": "switched"}, "lane switched needs a lane; give a d_embed below d_model"),
        (
            {"positions": "rotary", "n_heads": "4x3"},
            "rotary positions rotate pairs of entries, but d_head is 3, which is odd; make it even",
        ),
        ({"mlp": "none", "d_mlp": 8}, "d_mlp 8 is the width of an MLP, but mlp is none; leave it out"),
        ({"mlp": "none", "ranks": {"up": 2}}, "ranks.up and ranks.down belong to an MLP, but mlp is none"),
        ({"ranks": {"q": 49}}, "ranks.q: 49 is above the width of layer 0's matrix, 48 x 48; give at most 48, or null"),
        ({"n_heads": "8x2", "ranks": {"o": 17}}, "ranks.o: 17 is above the width of layer 0's matrix, 48 x 16"),
        ({"ranks": {"up": "4-4-4"}}, "ranks.up names 3 layers, but n_layers is 4"),
        ({"emptied": [1]}, r"emptied \[1\] does not fit n_heads 8-4-2-1 at layer 1; list each layer"),
        ({"n_heads": "0-4-0-1", "emptied": [0, 0]}, r"emptied \[0, 0\] does not fit n_heads 0-4-0-1 at layer 0"),
        ({"n_head": 3}, "n_head: there is no such key; did you mean n_heads"),
    ],
)
def test_wrong_models_get_errors_that_teach(changes, message):
    with pytest.raises(DeclarationError, match=message):
        neo(**changes)

"""Whether layers only add to one stream: seen of layers written here, each of which does something else to it."""

from functools import partial

import pytest
import torch
from torch import nn

from headway.hf.stream_sums import StreamSums, stream_sums

WIDTH = 6


class Attention(nn.Module):
    """What enters its projection is all that counts of it."""

    def __init__(self):
        super().__init__()
        self.v, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.o(self.v(x).cumsum(1))


class Layer(nn.Module):
    """Norms before its parts; `adds` is what becomes of stream and what a part wrote."""

    def __init__(self, adds=lambda stream, written: stream + written, after=None, as_tuple=False):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.second, self.mlp = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.adds, self.after, self.as_tuple = adds, after or nn.Identity(), as_tuple

    def forward(self, hidden_states):
        stream = self.adds(hidden_states, self.after(self.attention(self.norm(hidden_states))))
        stream = stream + self.mlp(self.second(stream))
        return (stream, None) if self.as_tuple else stream


def sums(*layers, run=None):
    torch.manual_seed(1)
    x = torch.randn(2, 5, WIDTH)

    def once():
        stream = x
        for layer in layers:
            given = layer(stream) if layer is layers[0] else layer(hidden_states=stream)
            stream = given[0] if isinstance(given, tuple) else given
        return stream

    written, hooks = {}, []
    for number, layer in enumerate(layers):
        projection = layer.attention.o

        def keep(module, args, number=number):
            written[number] = (module, args[0] @ module.weight.T)

        hooks.append(projection.register_forward_pre_hook(keep))
    with torch.no_grad():
        once()
        for hook in hooks:
            hook.remove()
        before = [dict(vars(module)) for layer in layers for module in layer.modules()]
        found = stream_sums(list(layers), once if run is None else partial(run, x), written)
    assert before == [dict(vars(module)) for layer in layers for module in layer.modules()], "nothing is left behind"
    return found


def test_a_sum_is_one_however_it_is_given_on():
    torch.manual_seed(0)
    assert sums(Layer(), Layer(as_tuple=True), Layer(after=nn.Dropout().eval())) == StreamSums(why_not=None, norms={})


def test_a_norm_between_the_heads_and_the_stream_is_found():
    torch.manual_seed(0)
    normed = Layer(after=nn.LayerNorm(WIDTH))
    assert sums(Layer(), normed, Layer()) == StreamSums(why_not=None, norms={1: normed.after})


@pytest.mark.parametrize(
    ("said", "layer"),
    [
        ("layer 1 does not pass its input on unchanged", lambda: Layer(lambda x, y: nn.LayerNorm(WIDTH)(x + y))),
        ("layer 1 does not pass its input on unchanged", lambda: Layer(lambda x, y: 0.9 * x + y)),
        ("layer 1 transforms them", lambda: Layer(lambda x, y: x + 0.5 * y, after=nn.LayerNorm(WIDTH))),
        ("layer 1 transforms them before adding", lambda: Layer(lambda x, y: x + 1.01 * y)),
        ("layer 1 transforms them before adding", lambda: Layer(lambda x, y: x + y.tanh())),
    ],
)
def test_what_else_is_done_to_the_stream_is_said(said, layer):
    torch.manual_seed(0)
    assert sums(Layer(), layer(), Layer()).why_not.startswith(said)


def test_layers_that_are_not_run_one_after_the_other_are_no_sum():
    torch.manual_seed(0)
    one, other = Layer(), Layer()
    for said, run in (
        ("the input of layer 1 is not the output of the layer before it", lambda x: other(one(x) + x)),
        ("layer 0 is run 2 times", lambda x: other(one(one(x)))),
    ):
        assert sums(one, other, run=run).why_not == said
    assert stream_sums((), lambda: None, {}).why_not == "its layers are not in one list"

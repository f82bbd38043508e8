"""Whether layers only add to one stream: seen of layers written here, each of which does something else to it."""

from functools import partial

import pytest
import torch
from torch import nn

from headway.hf.stream_sums import why_no_sum

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


def why(*layers, run=None):
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
        found = why_no_sum(list(layers), once if run is None else partial(run, x), written)
    assert before == [dict(vars(module)) for layer in layers for module in layer.modules()], "nothing is left behind"
    return found


def test_a_sum_is_one_however_it_is_given_on():
    torch.manual_seed(0)
    assert why(Layer(), Layer(as_tuple=True), Layer(after=nn.Dropout().eval())) is None


@pytest.mark.parametrize(
    ("said", "layer"),
    [
        ("layer 1 does not pass on as it is what enters it", lambda: Layer(lambda x, y: nn.LayerNorm(WIDTH)(x + y))),
        ("layer 1 does not pass on as it is what enters it", lambda: Layer(lambda x, y: 0.9 * x + y)),
        ("in layer 1 it goes through a norm, or the like", lambda: Layer(after=nn.LayerNorm(WIDTH))),
        ("in layer 1 it goes through a norm, or the like", lambda: Layer(lambda x, y: x + 1.01 * y)),
        ("in layer 1 it goes through a norm, or the like", lambda: Layer(lambda x, y: x + y.tanh())),
    ],
)
def test_what_else_is_done_to_the_stream_is_said(said, layer):
    torch.manual_seed(0)
    assert why(Layer(), layer(), Layer()).startswith(said)


def test_layers_that_are_not_run_one_after_the_other_are_no_sum():
    torch.manual_seed(0)
    one, other = Layer(), Layer()
    assert (
        why(one, other, run=lambda x: other(one(x) + x)) == "what enters layer 1 is not what the layer before it gave"
    )
    assert why(one, other, run=lambda x: other(one(one(x)))) == "layer 0 is run 2 times"
    assert why_no_sum((), lambda: None, {}) == "its layers are not in one list"

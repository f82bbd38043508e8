"""Heads drawn anew: on the same stream, of the same scale, the same each time, and nothing of the model changed."""

import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, weights_of
from support.tolerance import assert_same

from headway.models.redraw import drawn_weight, read, redrawn
from headway.models.trace import SomeQueries
from headway.models.transformer import Transformer

CHOSEN = ("ragged", "unequal KV groups", "rotary", "low rank", "RMSNorm after", "attends to the future")


def reading(name):
    module = Transformer(MODELS[name], VOCAB, weights_of(MODELS[name])).eval()
    tokens = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return module, tokens, read(module, tokens)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_reading_is_the_trace(name):
    module, tokens, found = reading(name)
    with torch.no_grad():
        for one, other in zip(found.trace.attentions, module.trace(tokens).attentions, strict=True):
            assert torch.equal(one.z, other.z)


@pytest.mark.parametrize("name", CHOSEN)
def test_drawn_heads_are_others_of_the_same_shape(name):
    _, _, found = reading(name)
    with torch.no_grad():
        one, again, other = found.redraw(0), found.redraw(0), found.redraw(1)
    for own, drawn, same, another in zip(
        found.trace.attentions, one.attentions, again.attentions, other.attentions, strict=True
    ):
        assert (drawn.name, drawn.kv_of, drawn.q.shape, drawn.z.shape) == (
            own.name,
            own.kv_of,
            own.q.shape,
            own.z.shape,
        )
        assert torch.equal(drawn.z, same.z)
        assert not torch.allclose(drawn.z, own.z)
        assert not torch.allclose(drawn.z, another.z)
        assert drawn.W_O.square().mean() == pytest.approx(float(own.W_O.square().mean()), rel=0.3)
    assert torch.equal(one.streams[0], found.trace.streams[0])
    assert not torch.allclose(one.streams[-1], found.trace.streams[-1])


def test_within_the_model_has_the_heads_of_the_draw_and_after_it_its_own():
    module, tokens, found = reading("ragged")
    before = {name: parameter.clone() for name, parameter in module.named_parameters()}
    with torch.no_grad():
        drawn = found.redraw(3).attentions[0]
        with redrawn(module, 3):
            assert torch.equal(module.trace(tokens).attentions[0].z, drawn.z)
    assert all(torch.equal(parameter, before[name]) for name, parameter in module.named_parameters())


@pytest.mark.parametrize("rows", [48, 200])
def test_a_drawn_matrix_keeps_mean_spectrum_and_scales_and_a_vector_its_entries(rows):
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(rows, 2, generator=random) @ torch.randn(2, 40, generator=random) + 0.1
    drawn = drawn_weight(weight, 0, "here")
    assert int(torch.linalg.matrix_rank(drawn, rtol=1e-4)) <= 5  # three, and the mean before and after
    uneven = torch.randn(rows, 40, generator=random) * torch.logspace(-1, 1, rows)[:, None]
    sizes = [matrix.square().mean(1).sqrt() for matrix in (uneven, drawn_weight(uneven, 0, "here"))]
    assert float(torch.log(sizes[1] / sizes[0]).abs().max()) < 1
    assert float(drawn_weight(uneven.abs(), 0, "here").mean()) == pytest.approx(float(uneven.abs().mean()), rel=0.2)
    written = drawn_weight(uneven, 0, "here", "writes").norm(dim=1)
    assert_same(written.sort().values, uneven.norm(dim=1).sort().values)
    bias = torch.arange(20.0)
    assert drawn_weight(bias, 0, "here").sort().values.equal(bias)


@pytest.mark.parametrize("role", ["reads", "values", "writes"])
def test_a_sparse_matrix_keeps_its_size_and_unused_columns(role):
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(40, 40, generator=random) * (torch.rand(40, 40, generator=random) < 0.1)
    weight[:, :20], weight[3] = 0, 0
    drawn = drawn_weight(weight, 0, "here", role)
    assert not drawn[:, :20].any()
    assert float(drawn.norm()) == pytest.approx(float(weight.norm()), rel=0.15)


@pytest.mark.parametrize("role", ["reads", "values"])
def test_a_gain_may_stand_in_the_norm_or_in_the_projection(role):
    random = torch.Generator().manual_seed(0)
    weight, gain = torch.randn(24, 40, generator=random), torch.randn(40, generator=random).exp()
    assert_same(drawn_weight(weight * gain, 3, "here", role), drawn_weight(weight, 3, "here", role) * gain)


@pytest.mark.parametrize("name", CHOSEN)
def test_some_queries_of_drawn_heads_are_those_of_all(name):
    _, tokens, found = reading(name)
    last = tokens.shape[1] - 1
    places = torch.tensor([[0, 3, last], [1, 3, last - 1]])
    some = {
        attention.name: SomeQueries(places=places, of=tokens.shape[1], keys_counted=torch.ones_like(tokens).bool())
        for attention in found.trace.attentions
    }
    with torch.no_grad():
        every, few = found.redraw(2), found.redraw(2, some)
    for one, other in zip(every.attentions, few.attentions, strict=True):
        expected = one.at(some[one.name])
        for field in ("q", "k", "v", "z", "W_O", "mask"):
            assert_same(getattr(other, field), getattr(expected, field))
    for one, other in zip(every.streams, few.streams, strict=True):
        assert_same(other, torch.stack([one[0, places[0]], one[1, places[1]]]))

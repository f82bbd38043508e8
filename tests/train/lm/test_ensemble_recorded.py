"""Steps of many models that are recorded once: a replay has the bits of what is recorded, and a list that is tidied."""

import pytest
import torch
from support.slow_attention import reference_attention
from support.tolerance import assert_same
from torch import nn
from torch.func import functional_call, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from headway.models.attention import attend, attend_of_many
from headway.train.lm.ensemble import RecordedStep, tidied

MODELS = 3


class Small(nn.Module):
    """A loss with a norm (a list of operations that give several tensors), constants, and views that do nothing."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 6), nn.LayerNorm(6)

    def forward(self, inputs, targets, last):
        inputs = inputs + torch.arange(4.0) * 2
        x = self.norm(self.first(inputs)).view(-1, 3, 6)[:, -(last or 3) :]
        return ((x.sum(2) - targets[:, -(last or 3) :]) ** 2).mean()


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def leaves_of(module):
    return {name: drawn(MODELS, *p.shape).requires_grad_() for name, p in module.named_parameters()}


def eager(module, leaves, inputs, targets, dim, last):
    def loss(parameters, inputs, targets):
        return functional_call(module, parameters, (inputs, targets, last))

    losses = vmap(loss, in_dims=(0, dim, dim))(leaves, inputs, targets)
    return losses, torch.autograd.grad(losses.sum(), list(leaves.values()))


@pytest.mark.parametrize("last", [None, 1])
@pytest.mark.parametrize("dim", [None, 0])
def test_a_replay_has_the_bits_of_what_is_recorded(dim, last):
    module = Small()
    leaves = leaves_of(module)
    recorded = RecordedStep(module, leaves, last)
    for turn in range(3):
        outer = () if dim is None else (MODELS,)
        inputs, targets = drawn(*outer, 5 + turn % 2, 3, 4), drawn(*outer, 5 + turn % 2, 3)
        losses, grads = recorded.step(inputs, targets, dim)
        expected, of = eager(module, leaves, inputs, targets, dim, last)
        assert torch.equal(losses, expected)
        assert all(torch.equal(a, b) for a, b in zip(grads, of, strict=True))
        assert not losses.requires_grad
        with torch.no_grad():  # parameters change between steps, and what is recorded reads them anew
            for leaf in leaves.values():
                leaf.add_(0.1)


def test_a_list_that_changes_tensors_in_place_is_left_as_it_is():
    def program(x):
        first, second = torch.zeros(3), torch.zeros(3)
        return first.add_(x) + second

    found = make_fx(program)(drawn(3))
    before = found.code
    assert tidied(found).code == before
    assert torch.equal(found(drawn(3)), drawn(3))


@pytest.mark.parametrize(
    ("n_queries", "options"),
    [(1, {}), (1, {"window": 2}), (5, {}), (5, {"window": 2}), (5, {"attends": "future"})],
    ids=str,
)
def test_attention_of_many_models_is_that_of_each(n_queries, options):
    """And its gradient; with keys that all models share, too."""
    q = drawn(MODELS, 2, 3, n_queries, 4).requires_grad_()
    k, v = drawn(MODELS, 2, 3, 5, 4), drawn(2, 3, 5, 4)

    def many(q, k):
        return attend_of_many(q, k, v, scale=0.5, **options)

    found = vmap(many)(q, k)
    each = torch.stack([reference_attention(a, b, v, scale=0.5, **options) for a, b in zip(q, k, strict=True)])
    assert_same(found, each)
    assert_same(torch.autograd.grad(found.square().sum(), q), torch.autograd.grad(each.square().sum(), q))
    alone = attend_of_many(q[0], k[0], v, scale=0.5, **options)
    assert_same(alone, attend(q[0], k[0], v, scale=0.5, **options))

"""A model on another device than the processor, as far as a processor can tell.

Torch's device `meta` computes shapes alone, and refuses tensors of two devices in one operation, as a GPU does. Here it
says that it is CUDA, so the branches for GPUs are taken.
"""

import pytest
import torch
from support.drawn_transformers import MODELS, VOCAB, every_model
from torch import nn

from headway.models import attention
from headway.models.attention import KVCache
from headway.models.redraw import read
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

META = torch.device("meta")


@pytest.fixture(autouse=True)
def _meta_is_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: tensor.device == META))


def placed(declared):
    return Transformer(declared, VOCAB, initial_weights(declared, VOCAB, 0)).to(META)


@every_model
def test_what_a_model_computes_stays_on_its_device(model):
    module, tokens = placed(model), torch.zeros(2, 70, dtype=torch.long, device=META)
    loss = module.loss(tokens, tokens)
    loss.backward()
    assert loss.device == META
    assert all(parameter.grad is None or parameter.grad.device == META for parameter in module.parameters())
    with torch.no_grad():
        reading = read(module, tokens)
        for trace in (reading.trace, reading.redraw(0)):
            assert {getattr(each, name).device for each in trace.attentions for name in "qkvz"} == {META}


@pytest.mark.parametrize("name", ["GQA", "rotary", "smeared keys", "unequal KV groups"])
def test_a_text_is_continued_on_the_device_of_the_model(name):
    module, tokens = placed(MODELS[name]), torch.zeros(2, 6, dtype=torch.long, device=META)
    cache = KVCache(module.model, 6, batch=2, device=META)
    with torch.no_grad():
        for some in (tokens[:, :5], tokens[:, 5:]):
            assert module(some, cache=cache)[0].device == META


@pytest.mark.parametrize(("d_head", "padded"), [(3, True), (8, False), (64, False)])
@pytest.mark.parametrize("window", [None, 20])
def test_heads_are_padded_only_where_a_kernel_needs_it(monkeypatch, d_head, padded, window):
    """Padding by nothing copies."""
    seen = []
    pad = nn.functional.pad
    monkeypatch.setattr(nn.functional, "pad", lambda x, by: seen.append(by) or pad(x, by))
    q, k, v = (torch.empty(2, 3, 70, d_head, device=META) for _ in range(3))
    assert attention.attend(q, k, v, scale=1.0, window=window).shape == q.shape
    assert bool(seen) == padded

"""What circuits say in tokens: planted copying, suppressing and matching heads are read off their weights."""

from itertools import product

import numpy as np
import pytest
import torch
from support.tolerance import assert_same

from headway.config.lm.model import Gpt2, GptNeo, Llama
from headway.heads.circuits import read_out_rows, written_rows
from headway.heads.token_circuits import composed_on_text, compositions, token_circuits
from headway.models.attention import rotate
from headway.models.redraw import read
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

VOCAB = 12


def planted(**changes):
    """Head 0 copies what it looks at, head 1 suppresses it; head 0 matches a token with itself."""
    model = Gpt2(family="gpt-2", d_model=32, n_layers=1, n_heads="2x16", n_positions=8, **changes)
    weights = initial_weights(model, VOCAB, seed=0)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(32, 32)))[0].astype(np.float32)
    weights["embedding.weight"] = basis[:VOCAB]
    if "readout.weight" in weights:
        weights["readout.weight"] = basis[:VOCAB]
    read = np.concatenate((basis[:16], basis[:16]))
    weights["layers.0.attention.v.weight"] = read
    weights["layers.0.attention.o.weight"] = np.concatenate((basis[:16], -basis[:16])).T
    weights["layers.0.attention.q.weight"] = weights["layers.0.attention.k.weight"] = read
    return Transformer(model, VOCAB, weights).eval()


@pytest.mark.parametrize("norm_place", ["before", "after"])
def test_copying_and_suppressing_heads_are_seen(norm_place):
    found = token_circuits(planted(norm_place=norm_place), range(VOCAB))
    copies, suppresses = (found.of["layers.0.attention", head] for head in (0, 1))
    assert found.all
    assert found.n_tokens == VOCAB
    assert len(copies.copies) == len(suppresses.suppresses) == 6
    assert copies.suppresses == suppresses.copies == ()
    assert all(value > found.by_chance * 0.7 for _, value in copies.copies)
    assert all(query == key for query, key, _ in copies.matches)
    assert all(one != other for one, other, _ in suppresses.raises)


def test_only_the_tokens_that_are_asked_for_are_named():
    found = token_circuits(planted(), [1, 4, 7])
    assert not found.all
    named = {token for said in found.of.values() for token, _ in (*said.copies, *said.suppresses)}
    assert named <= {1, 4, 7}


def test_circuits_of_zeros_say_nothing():
    model = planted()
    with torch.no_grad():
        model.get_submodule("layers.0.attention.o").weight.zero_()
    said = token_circuits(model, range(VOCAB)).of["layers.0.attention", 0]
    assert said.copies == said.suppresses == said.raises == ()


@pytest.mark.parametrize(
    "model",
    [
        Gpt2(family="gpt-2", d_model=16, n_layers=1, n_heads="2", n_positions=8),
        Llama(family="llama", d_model=16, n_layers=1, n_heads="2", n_positions=8),
        GptNeo(family="gpt-neo", d_model=16, n_layers=1, n_heads="2", n_positions=8, d_embed=8, lane="switched"),
    ],
    ids=["layer norm", "root mean square, untied", "a lane"],
)
def test_rows_are_what_the_model_reads_and_writes(model):
    drawn = Transformer(model, VOCAB, initial_weights(model, VOCAB, seed=1)).eval()
    tokens = torch.arange(VOCAB)
    stream = torch.randn(1, 3, 16, dtype=torch.float32)
    with torch.inference_mode():
        logits = drawn.read_out(stream)[0].double()
        centred = stream[0].double() - (stream[0].double().mean(1, keepdim=True) if model.norm == "layer" else 0)
        normed = centred / (centred.square().mean(1, keepdim=True) + model.norm_eps).sqrt()
        bias = drawn.read_out(torch.zeros(1, 1, 16))[0].double()
        assert_same(normed @ read_out_rows(drawn, tokens).T + bias, logits, dtype=torch.float32)
        rows = written_rows(drawn, tokens)
    assert_same(rows.square().mean(1), torch.ones(VOCAB, dtype=torch.float64), dtype=torch.float32)


@pytest.mark.parametrize("family", [Gpt2, Llama])
def test_paths_on_a_text_are_scores_of_writes_alone(family):
    """The slow way: what a head wrote, through the norm as it was, the later head's matrices and turn, key by key."""
    declared = family(
        family="gpt-2" if family is Gpt2 else "llama", d_model=16, n_layers=2, n_heads="2-2", init_std=0.3
    )
    model = Transformer(declared, 11, initial_weights(declared, 11, 0)).eval().double()
    with torch.no_grad():
        reading = read(model, torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(0)))
        trace, found = reading.trace, composed_on_text(model, reading, compositions(model))
        (first, last), layer = trace.attentions, model.layers[1]
        stream, c = trace.streams[1], first.contributions()[:, 1]
        if family is Gpt2:
            stream, c = (x - x.mean(2, keepdim=True) for x in (stream, c))
        c = c / (stream.square().mean(2, keepdim=True) + declared.norm_eps).sqrt() * layer.attention_norm.weight
        k = (c @ layer.attention.k.weight.T).unflatten(2, (2, -1)).transpose(1, 2)
        k = k if family is Gpt2 else rotate(k, model.get_buffer("rotary_8")[:, :7])
        path, whole, p = last.q @ k.mT * last.scale, last.logits(), last.patterns()
        part = total = 0
        for text, at in product(range(2), range(1, 7)):
            more = p[text, 0, at, : at + 1] - 1 / (at + 1)
            part += float(more @ path[text, 0, at, : at + 1])
            total += float(more @ whole[text, 0, at, : at + 1])
    assert found.shares["k"][1, 2] == pytest.approx(part / total, rel=1e-5)
    assert found.nats["k"][1, 2] == pytest.approx(part / 12, rel=1e-5)

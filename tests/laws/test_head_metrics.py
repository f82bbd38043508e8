"""Laws of every metric of heads that is measured in a trace: which changes of a model change it, and which do not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.measuring import measure
from support.tolerance import assert_same, nearly

from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.config.lm.model import Gpt2, Llama
from headway.heads.regularizers import TERMS
from headway.models.trace import AttentionTrace, Trace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

VOCAB, PERIOD = 31, 9
SMALL = {"d_model": 24, "n_layers": 3, "n_positions": 32, "init_std": 0.5}
MODELS = {
    "ragged": Gpt2(family="gpt-2", **SMALL, n_heads="4-12-2", windows=(None, 5)),
    "grouped": Gpt2(family="gpt-2", **SMALL, n_heads="3+1x6-4:2-1", windows=(None, 7)),
    "rotary, a layer without heads": Llama(family="llama", **SMALL, n_heads="4:2-0-6"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
OF_TRACES = [name for name, declared in HEAD_METRICS.items() if declared.family not in ("circuits", "sinks")]
OF_A_BASIS = {"query_orthogonality_raw", "context_dissimilarity", "disagreement_subspace", "disagreement_output"}
"""What depends on the arbitrary basis of each head."""


def traced(model, seed=0) -> Trace:
    module = Transformer(model, VOCAB, initial_weights(model, VOCAB, seed)).double()
    tokens = torch.randint(0, VOCAB, (2, 2 * PERIOD), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return replace(module.trace(tokens), tokens=tokens)


def scores(trace):
    return measure(trace, OF_TRACES if trace.streams else None, period=PERIOD)


def agree(found, expected, names=OF_TRACES):
    for name in names:
        assert found[name].values.keys() == expected[name].values.keys()
        for attention, value in expected[name].values.items():
            assert_same(found[name].values[attention], value, what=name)


def changed(trace, change) -> Trace:
    return replace(trace, attentions=tuple(map(change, trace.attentions)))


def rotation(width, random):
    return torch.linalg.qr(torch.randn(width, width, generator=random, dtype=torch.float64))[0]


def turned(attention: AttentionTrace) -> AttentionTrace:
    """Other bases inside the heads: of queries and keys together, and of values and W_O together."""
    random, kv_of = torch.Generator().manual_seed(1), list(attention.kv_of)
    R = torch.stack([rotation(attention.k.shape[3], random) for _ in range(attention.k.shape[1])])
    S = torch.stack([rotation(attention.v.shape[3], random) for _ in range(attention.v.shape[1])])
    return replace(
        attention,
        q=attention.q @ R[kv_of],
        k=attention.k @ R,
        v=attention.v @ S,
        z=attention.z @ S[kv_of],
        W_O=S[kv_of].mT @ attention.W_O,
    )


@every_model
def test_scores_cover_every_head_of_a_ragged_layout(model):
    """What a window hides from a layer has no score there."""
    hides = {layer for layer in range(model.n_layers) if (model.window(layer) or PERIOD + 1) < PERIOD}
    for name, score in scores(traced(model)).items():
        assert list(score.values) == [f"layers.{i}.attention" for i, n in enumerate(model.layout.n_heads) if n], name
        for attention, value in score.values.items():
            n_heads = model.layout.n_heads[int(attention.split(".")[1])]
            shape = {"head": (n_heads,), "pair": (n_heads, n_heads), "layer": ()}[HEAD_METRICS[name].of]
            assert value.shape == shape, name
            hidden = name in REPEATED and int(attention.split(".")[1]) in hides
            assert np.isnan(value).all() if hidden else np.isfinite(value).all(), name
            np.broadcast_to(score.null.get(attention, 0), value.shape)


@every_model
def test_other_bases_inside_the_heads_change_nothing(model):
    """That is: of what is meant to compare heads; four raw ones do depend on them."""
    trace = traced(model)
    there = scores(changed(trace, turned))
    agree(there, scores(trace), [name for name in OF_TRACES if name not in OF_A_BASIS])
    first = trace.attentions[0].name
    for name in OF_A_BASIS:
        assert not np.allclose(there[name].values[first], scores(trace)[name].values[first]), name


@every_model
def test_a_scale_moved_from_queries_to_keys_changes_only_raw_queries(model):
    def moved(attention):
        size = torch.linspace(0.3, 3, attention.k.shape[1], dtype=torch.float64)[:, None, None]
        return replace(attention, q=attention.q * size[list(attention.kv_of)], k=attention.k / size)

    trace = traced(model)
    agree(scores(changed(trace, moved)), scores(trace), [n for n in OF_TRACES if n != "query_orthogonality_raw"])


@every_model
def test_permuting_the_heads_permutes_the_scores(model):
    def order(n_heads):
        return np.random.default_rng(0).permutation(n_heads)

    def permuted(attention):
        new = torch.from_numpy(order(attention.q.shape[1]))
        parts = {"q": attention.q[:, new], "z": attention.z[:, new], "W_O": attention.W_O[new]}
        return replace(attention, **parts, kv_of=tuple(attention.kv_of[head] for head in new))

    trace = traced(model)
    there = scores(changed(trace, permuted))
    for name, score in scores(trace).items():
        if name == "output_dissimilarity_published":
            continue  # slices of the sum of all heads are no heads, and stay where they are
        for attention, value in score.values.items():
            new = order(len(value)) if value.ndim else ()
            expected = value[np.ix_(new, new)] if value.ndim == 2 else value[new] if value.ndim else value
            assert_same(there[name].values[attention], expected, what=name)


@every_model
def test_scores_stay_in_their_units(model):
    for name, score in scores(traced(model)).items():
        metric = HEAD_METRICS[name]
        low, high = (0, np.log(2 * PERIOD)) if metric.unit == "nats" else metric.limits
        for value in [*score.values.values(), *score.null.values()]:
            unseen = np.isnan(value) & (name in REPEATED)  # a window hides it
            assert (unseen | (value >= low - 1e-9)).all(), name
            assert (unseen | (value <= high + 1e-9)).all(), name


@every_model
def test_identical_heads_are_alike(model):
    """CKA 1, dissimilarity -1; and for one number per layer, the least that it can be."""

    def copied(attention):
        n_heads = attention.q.shape[1]
        parts = {name: getattr(attention, name)[:, :1].expand(-1, n_heads, -1, -1) for name in "qz"}
        W_O = attention.W_O[:1].expand(n_heads, -1, -1)
        return replace(attention, **parts, W_O=W_O, kv_of=(0,) * n_heads)

    found = scores(changed(traced(model), copied))
    alike = {name: -1 if name.endswith("dissimilarity") or name.startswith("disagreement") else 1 for name in OF_ALIKE}
    for name, expected in alike.items():
        for value in found[name].values.values():
            assert_same(value, expected, what=name)


OF_ALIKE = (
    *("query_cka", "query_cka_centred", "context_cka", "context_cka_centred"),
    *("context_dissimilarity", "output_dissimilarity", "disagreement_subspace", "disagreement_output"),
)


@every_model
def test_even_attention_scores_its_null(model):
    def even(attention):
        return replace(attention, q=torch.zeros_like(attention.q))

    found = scores(changed(traced(model), even))
    of_even = [name for name in OF_TRACES if HEAD_METRICS[name].null.sentence.startswith("even")]
    for name in set(of_even) - {"positional_score"}:  # of equal weights the first counts as the largest
        for attention, value in found[name].values.items():
            if name in REPEATED and np.isnan(value).all():
                continue  # a window hides it
            expected = np.broadcast_to(found[name].null[attention], value.shape)
            assert_same(value, expected, what=name)
    for name in ("attention_diversity", "attention_excess"):
        for value in found[name].values.values():
            assert_same(value, 0.0, scale=1.0, what=name)


@every_model
@pytest.mark.parametrize("name", TERMS)
def test_a_regularizer_is_the_layers_metric(model, name):
    trace = traced(model)
    for attention in trace.attentions:
        if attention.q.shape[1] > 1 and name in HEAD_METRICS:
            expected = measure(Trace(attentions=(attention,)), [name])[name].per_layer()[attention.name]
            assert float(TERMS[name].measure(attention).detach()) == nearly(expected, scale=1.0)

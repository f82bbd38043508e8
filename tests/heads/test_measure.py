"""Each metric of a trace against its definition in float64, on attentions of every kind, streamed and whole."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.head_definitions import BATCH, DEFINITIONS, LENGTH, Slow, attention, cases, causal, of, parts
from support.measuring import measure, repetition
from support.tolerance import assert_same, nearly
from torch.utils._python_dispatch import TorchDispatchMode

from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.errors import UserError
from headway.heads import patterns
from headway.heads.measure import HeadStream
from headway.models.trace import Trace

CASES = cases()
OF_TRACES = [name for name, declared in HEAD_METRICS.items() if declared.family != "circuits"]
NAME = "layers.0.attention"
PERIOD = 4
every_case = pytest.mark.parametrize("trace", CASES.values(), ids=CASES)


def with_streams(trace, seed=3):
    random = torch.Generator().manual_seed(seed)
    stream = torch.randn(BATCH, trace.q.shape[2], 8, generator=random)
    changed = stream + torch.randn(stream.shape, generator=random)
    tokens = torch.randint(4, (BATCH, trace.k.shape[2]), generator=random)
    return Trace(attentions=(trace,), streams=(stream, changed), tokens=tokens)


def check(found, expected, name):
    """The definition; numbers that cancel to nearly nothing are held against their scale."""
    assert_same(found, expected, what=name, dtype=np.float32)


def test_every_declared_metric_has_a_function_and_a_definition():
    assert all(metric.value is not None for metric in HEAD_METRICS.values())
    assert set(DEFINITIONS) == set(OF_TRACES)


@every_case
def test_metrics_equal_their_definitions(trace):
    whole = with_streams(trace)
    scores = measure(whole, period=PERIOD)
    slow = Slow(trace, whole.streams, PERIOD, whole.tokens)
    for name in OF_TRACES:
        expected = DEFINITIONS[name](slow)
        if name not in scores:
            assert np.isnan(expected).all(), name
            continue
        check(scores[name].values[NAME], expected, name)
    assert all(scores[name].n_rows == len(slow.rows()) for name in scores)


@every_case
def test_streamed_over_batches_equals_the_whole(trace):
    whole = measure(of(trace), period=PERIOD)
    stream = HeadStream(repeats=True)
    for part in parts(trace, 2, 1):  # texts 2i and 2i + 1 are partners
        stream.add(of(part), *repetition(of(part), PERIOD))
    streamed = stream.scores()
    assert streamed.keys() == whole.keys()
    for name, score in whole.items():
        assert streamed[name].n_rows == score.n_rows
        check(streamed[name].values[NAME], score.values[NAME], name)
        assert streamed[name].null.keys() == score.null.keys()
        if name in HEAD_METRICS and NAME in score.null:
            check(streamed[name].null[NAME], score.null[NAME], name)


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("block_bytes", [1, 700])
def test_the_size_of_blocks_changes_nothing(trace, block_bytes, monkeypatch):
    whole = measure(of(trace), period=PERIOD)
    monkeypatch.setattr(patterns, "BLOCK_BYTES", block_bytes)
    for name, score in measure(of(trace), period=PERIOD).items():
        check(score.values[NAME], whole[name].values[NAME], name)


class LargestTensor(TorchDispatchMode):
    """Entries of the largest tensor that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor) and tensor._base is None and tensor.is_contiguous():
                self.entries = max(self.entries, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


def test_no_matrix_of_all_queries_and_keys_is_held_for_all_heads(monkeypatch):
    monkeypatch.setattr(patterns, "BLOCK_BYTES", 2**20)
    trace = attention(heads=16, queries=512, keys=512, batch=2, d_head=4, mask=causal(512, 512))
    with LargestTensor() as largest:
        measure(of(trace))
    assert 0 < largest.entries <= 2 * 512 * 512 < 2 * 16 * 512 * 512 / 8


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_measured_in_float32(dtype):
    trace = attention(mask=causal(), dtype=dtype)
    floats = {name: getattr(trace, name).float() for name in ("q", "k", "v", "z", "W_O", "b_O")}
    there = measure(of(replace(trace, **floats)))
    for name, score in measure(of(trace)).items():
        np.testing.assert_array_equal(score.values[NAME], there[name].values[NAME], err_msg=name)


def test_a_common_mean_costs_centred_metrics_no_digits():
    """The mean is a thousand times the spread."""
    trace = attention(mask=causal(), batch=BATCH)
    far = replace(trace, q=trace.q + 1000)
    found = measure(of(far), ["query_cka_centred", "query_cka"])
    slow = Slow(far)
    for name, score in found.items():
        check(score.values[NAME], DEFINITIONS[name](slow), name)


def test_contexts_that_the_output_almost_ignores_keep_their_cosines():
    """W_O shrinks by 300 what the contexts mostly are."""
    trace = attention(mask=causal(), d_head=6)
    shrink = torch.tensor([1 / 300, *[1.0] * 5])
    trace = replace(trace, W_O=trace.W_O * shrink[:, None], z=trace.z + 30 * (shrink < 1))
    found = measure(of(trace), ["output_dissimilarity"])["output_dissimilarity"].values[NAME]
    assert_same(found, DEFINITIONS["output_dissimilarity"](Slow(trace)), dtype=np.float32)


def test_what_heads_add_is_shared_out_and_a_layer_that_adds_nothing_has_no_shares():
    trace = attention(mask=causal())
    W_O = trace.W_O.clone()
    W_O[1] = 0
    shares = measure(of(replace(trace, W_O=W_O)), ["output_share"])["output_share"]
    assert shares.values[NAME][1] == 0
    assert shares.values[NAME].sum() == nearly(1)
    assert shares.null[NAME] == 0.25
    none = measure(of(replace(trace, W_O=torch.zeros_like(W_O))), ["output_share"])["output_share"]
    assert none.values[NAME].tolist() == [0, 0, 0, 0]


def test_heads_that_write_nothing_are_zero_and_spoil_no_other():
    trace = attention(mask=causal())
    silent, without = trace.z.clone(), [0, 2, 3]
    silent[:, 1] = 0
    scores = measure(of(replace(trace, z=silent)))
    for name in ("context_dissimilarity", "output_dissimilarity", "context_cka", "context_cka_centred"):
        values = scores[name].values[NAME]
        assert np.abs(values[1]).max() == 0
        check(values[np.ix_(without, without)], measure(of(trace))[name].values[NAME][np.ix_(without, without)], name)
    null_space = attention(mask=causal())
    W_O = null_space.W_O.clone()
    W_O[2] = 0
    values = measure(of(replace(null_space, W_O=W_O)), ["output_dissimilarity"])["output_dissimilarity"].values[NAME]
    assert np.abs(values[2]).max() == 0
    assert np.isfinite(values).all()


def test_what_one_of_several_attentions_lacks_is_nan_there():
    long = attention(mask=causal())
    cross = attention(kind="cross", queries=LENGTH, keys=5, name="cross")
    scores = measure(Trace(attentions=(long, cross)))
    assert np.isnan(scores["previous_token_score"].values["cross"]).all()
    assert np.isfinite(scores["previous_token_score"].values[NAME]).all()
    assert "cross" not in scores["previous_token_score"].null


def test_one_head_has_no_other():
    scores = measure(of(attention(heads=1, mask=causal())), ["query_cka", "sink_score"])
    assert scores["query_cka"].values[NAME].shape == (1, 1)
    assert math.isnan(scores["query_cka"].per_layer()[NAME])
    assert np.isnan(scores["query_cka"].per_head()[NAME]).all()
    assert math.isfinite(scores["sink_score"].per_layer()[NAME])


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("query_cak", "'query_cak' is not a metric of heads; did you mean query_cka or"),
        ("copying_score", "it needs the weights; use headway.heads.circuits.circuit_scores"),
        ("induction_score", "it needs random tokens that are repeated"),
    ],
)
def test_metrics_that_cannot_be_had_say_why(metric, words):
    with pytest.raises(UserError, match=words.replace(".", r"\.").replace("?", r"\?")):
        HeadStream([metric])


@pytest.mark.parametrize("metric", ["attention_diversity", "previous_token_score", "query_cka_centred"])
def test_a_text_that_is_too_short_for_a_metric_asked_for(metric):
    one = of(attention(queries=1, keys=1, batch=1, mask=causal(1, 1)))
    assert metric not in measure(one)
    with pytest.raises(UserError, match=f"{metric} was asked for .* give a longer text, or leave it out"):
        measure(one, [metric])


def test_streams_that_are_not_there():
    trace = of(CASES["causal"])
    assert "similarity_to_layer_0" not in measure(trace)
    with pytest.raises(UserError, match="the trace holds no residual stream"):
        measure(trace, ["similarity_to_layer_0"])


def test_nothing_traced():
    with pytest.raises(UserError, match="no attention was traced"):
        measure([])


def test_traces_of_two_models():
    stream = HeadStream(["sink_score"])
    stream.add(of(CASES["causal"]))
    with pytest.raises(UserError, match="measure each model on its own"):
        stream.add(of(replace(CASES["causal"], name="another")))


@pytest.mark.parametrize("broken", ["q", "k", "v", "z", "W_O"])
@pytest.mark.parametrize("metrics", [None, ["sink_score"], ["output_dissimilarity"]])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_numbers_are_named_by_layer(broken, metrics, value):
    good = attention(mask=causal())
    tensor = getattr(good, broken).clone()
    tensor.view(-1)[3] = value
    bad = replace(good, **{broken: tensor}, name="layers.2.attention", layer=2)
    with pytest.raises(UserError, match=r"layers\.2\.attention \(layer 2\).*NaN or infinite"):
        measure(Trace(attentions=(good, bad)), metrics)


def test_repeated_metrics_need_their_period():
    assert not set(REPEATED) & set(measure(of(CASES["causal"])))
    assert set(REPEATED) <= set(measure(of(CASES["causal"]), period=PERIOD))

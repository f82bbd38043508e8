"""Laws of a metric of heads: one entry of one table is enough to stream, probe, keep and draw it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.measuring import measure
from support.tolerance import assert_same
from support.traces import VOCAB, small_model, traced

from headway.config.head_metrics import HEAD_METRICS, HeadMetric, Null, OfSums, PerQuery, every_query
from headway.config.lm.measurement import HeadProbes
from headway.config.metrics import metric_name
from headway.heads.measure import HeadStream, examine
from headway.heads.scores import DECLARED, from_arrays, score_json, to_arrays
from headway.models.trace import Trace
from headway.report.charts.atlas import atlas

OF_SUMS = HeadMetric(
    name="context_length",
    sentence="mean squared length of a head's contexts",
    unit="1",
    of="head",
    family="own",
    high="long contexts",
    null=Null("0", OfSums(lambda rows: 0 * rows, ("rows",))),
    value=OfSums(
        lambda squares, rows: squares / rows, (lambda masked: masked.contexts.double().square().sum((0, 2)), "rows")
    ),
)
PER_QUERY = HeadMetric(
    name="second_moment",
    sentence="mean over queries of the sum of squared weights",
    unit="0 to 1",
    of="head",
    family="own",
    high="attention on few keys",
    null=Null("even attention: the mean of 1/m over queries, where m is the number of visible keys", "even"),
    value=PerQuery(lambda queries: queries.square, over=every_query),
)
MADE_UP = {"a number of sums": OF_SUMS, "a mean over queries": PER_QUERY}


@pytest.fixture(params=MADE_UP.values(), ids=MADE_UP, name="metric")
def registered(request, monkeypatch):
    """The one call that a new metric takes."""
    monkeypatch.setitem(HEAD_METRICS, request.param.name, request.param)
    return request.param


def even(trace: Trace) -> Trace:
    flat = (replace(each, q=torch.zeros_like(each.q), z=torch.zeros_like(each.z)) for each in trace.attentions)
    return replace(trace, attentions=tuple(flat))


def test_it_is_streamed_as_it_is_measured_at_once(metric):
    trace = traced()
    stream = HeadStream([metric.name])
    for text in range(3):
        parts = tuple(
            replace(each, **{name: getattr(each, name)[text : text + 1] for name in "qkvz"})
            for each in trace.attentions
        )
        stream.add(Trace(attentions=parts))
    whole, streamed = measure(trace, [metric.name])[metric.name], stream.scores()[metric.name]
    for attention, value in whole.values.items():
        assert_same(streamed.values[attention], value, what=attention, dtype=np.float32)
    assert metric.name in measure(trace)


def test_it_is_probed_by_its_name(metric):
    probes = HeadProbes(metrics=(metric.name,))
    assert probes.chosen == (metric.name,)
    model = small_model()
    tokens = torch.randint(0, VOCAB, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scores = examine([model.trace(tokens)], probes.chosen, trace=model.trace, repetition=lambda: (), weights=model)
    assert list(scores) == [metric.name]


def test_its_null_is_what_nothing_gives(metric):
    score = measure(even(traced()), [metric.name])[metric.name]
    for attention, value in score.values.items():
        assert_same(
            value, np.broadcast_to(score.null[attention], value.shape), scale=1.0, what=attention, dtype=np.float32
        )


def test_it_is_kept(metric):
    assert DECLARED[metric.name] is metric
    score = measure(traced(), [metric.name])[metric.name]
    kept = from_arrays(to_arrays([score]), score.values)[metric.name]
    assert kept.declared is metric
    assert score_json(kept)["sentence"] == metric.sentence


def test_it_is_drawn(metric):
    spec = atlas(measure(traced(), [metric.name])).spec
    (panel,) = (panel for line in spec["vconcat"] for panel in line["hconcat"])
    assert panel["title"]["text"] == metric_name(metric.name)
    assert metric.high in panel["title"]["subtitle"]

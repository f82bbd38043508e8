"""CKA of many rows, estimated from some of them: exact where all are there, and without bias where few are."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import MODELS, VOCAB, weights_of
from support.tolerance import assert_same

from headway.heads import untrained
from headway.heads.measure import HeadStream
from headway.heads.untrained import examine_beside_untrained, rows_of_draws
from headway.models.redraw import read
from headway.models.trace import SomeQueries
from headway.models.transformer import Transformer

CKA = ("query_cka", "context_cka", "query_cka_centred", "context_cka_centred")
PER_QUERY = ("previous_token_score", "sink_score", "attention_entropy_nats", "disagreement_position", "output_share")


def module_and_tokens(name="ragged", batch=6, length=None):
    model = MODELS[name]
    tokens = torch.randint(VOCAB, (batch, length or model.n_positions), generator=torch.Generator().manual_seed(0))
    return Transformer(model, VOCAB, weights_of(model)).eval(), tokens


def scores(traces, metrics, *, nulls):
    stream = HeadStream(metrics, nulls=nulls)
    for trace in traces:
        stream.add(trace)
    return stream.scores()


def at(trace, places):
    n, batch = trace.attentions[0].q.shape[2], len(trace.attentions[0].q)
    some = SomeQueries(places=places, of=n, keys_counted=torch.ones(batch, n, dtype=torch.bool))
    return trace.__class__(attentions=tuple(attention.at(some) for attention in trace.attentions))


def test_of_all_rows_it_is_cka():
    model, tokens = module_and_tokens()
    with torch.no_grad():
        traces = [model.trace(part) for part in tokens.split(4)]
    own, estimated = (scores(traces, CKA, nulls=nulls) for nulls in (True, False))
    for metric in CKA:
        assert_same(estimated[metric].values, own[metric].values, what=metric, dtype=np.float32)


@pytest.mark.slow
def test_a_mean_over_rows_that_take_turns_is_that_of_all():
    model, tokens = module_and_tokens(batch=24, length=64)
    with torch.no_grad():
        trace = model.trace(tokens)
    n, every = tokens.shape[1], 4
    metrics = [*CKA, *PER_QUERY]
    whole = scores([trace], metrics, nulls=False)
    texts = torch.arange(len(tokens))[:, None]
    turns = [torch.arange(0, n, every) + (turn + texts) % every for turn in range(every)]
    parts = [scores([at(trace, places)], metrics, nulls=False) for places in turns]
    for metric, score in whole.items():
        for name, value in score.values.items():
            others = ~np.eye(len(value), dtype=bool) if value.ndim == 2 else np.ones(value.shape, bool)
            mean = np.mean([part[metric].values[name] for part in parts], 0)
            assert np.abs(mean - value)[others].mean() < 0.02 * max(1, np.abs(value).max()), (metric, name)


@pytest.mark.slow
def test_draws_at_some_positions_have_the_null_of_all(monkeypatch):
    """And cost a fraction: as many rows as are asked for, whoever asks."""
    model, tokens = module_and_tokens("rotary", batch=16, length=64)
    monkeypatch.setattr(untrained, "_ROWS_OF_DRAWS", tokens.numel() // 4)
    monkeypatch.setattr(untrained, "_ROWS_PER_WIDTH", 1)
    found = {}
    with torch.no_grad():
        for n_rows in (None, tokens.numel()):
            found[n_rows] = examine_beside_untrained(
                [read(model, tokens)],
                read=lambda given: read(model, given),
                repetition=None,
                weights=None,
                draws=12,
                n_rows=n_rows,
            )
    every, some = found.values()
    for metric in (*CKA, "previous_token_score", "output_dissimilarity", "attention_diversity"):
        for name, drawn in every[metric].draws.items():
            spread = drawn.std(0, ddof=1) + 0.02
            shift = np.abs(some[metric].draws[name].mean(0) - drawn.mean(0)) / spread
            assert shift.mean() < 0.5, (metric, name, shift.mean())
    assert every["query_cka"].values.keys() == some["query_cka"].values.keys()


def test_how_many_positions():
    assert rows_of_draws(300, 8) == 300
    assert rows_of_draws(4096, 8) == 512
    assert rows_of_draws(4096, 128) == 2048
    assert rows_of_draws(4096, 512) == 4096

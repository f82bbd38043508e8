"""All that is measured of a model's heads, each on what it needs, is what each way of measuring says by itself."""

import numpy as np
import pytest
import torch
from support.measuring import measure
from support.tolerance import assert_same

from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.config.lm.model import Gpt2
from headway.errors import UserError
from headway.heads.circuits import circuit_scores
from headway.heads.measure import HeadStream, drawn_repeats, examine, in_batches
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_heads="4-2", n_positions=32, init_std=0.5)
VOCAB, PERIOD = 31, 6
METRICS = [name for name, metric in HEAD_METRICS.items() if metric.family not in ("text", "sinks")]


@pytest.fixture(scope="module")
def module():
    return Transformer(MODEL, VOCAB, initial_weights(MODEL, VOCAB, 0)).eval()


@pytest.fixture(scope="module")
def texts():
    return torch.randint(0, VOCAB, (6, 20), generator=torch.Generator().manual_seed(0)).split(4)


def repetition():
    return in_batches(drawn_repeats(VOCAB, PERIOD, 5, seed=3), 2, torch.device("cpu"))


def agree(found, expected):
    for name, score in expected.items():
        assert found[name].n_rows == score.n_rows
        for at, value in score.values.items():
            assert_same(found[name].values[at], value, what=name, dtype=np.float32)


def test_each_metric_is_measured_where_it_shows(module, texts):
    with torch.no_grad():
        found = examine(map(module.trace, texts), METRICS, trace=module.trace, repetition=repetition, weights=module)
        agree(found, measure(map(module.trace, texts)))
        drawn, stream = drawn_repeats(VOCAB, PERIOD, 5, 3), HeadStream(REPEATED, repeats=True)
        stream.add(module.trace(drawn.tokens), drawn.periods, drawn.begins)
        agree(found, stream.scores())
    agree(found, circuit_scores(module))
    assert list(found) == METRICS


def test_only_what_is_asked_for_is_measured_and_every_text_is_taken(module, texts):
    taken = []

    def traces():
        for text in texts:
            taken.append(len(text))
            yield module.trace(text)

    def never():
        raise AssertionError("no metric of repetition was asked for")

    with torch.no_grad():
        found = examine(traces(), ["copying_score"], trace=module.trace, repetition=never, weights=module)
        assert list(found) == ["copying_score"]
        assert taken == [4, 2]
        both = ["sink_score", "induction_score"]
        found = examine(traces(), both, trace=module.trace, repetition=repetition, weights=module)
        assert sorted(found) == sorted(both)


def test_metrics_of_weights_need_the_weights(module, texts):
    with torch.no_grad(), pytest.raises(UserError, match="it needs the weights"):
        examine(map(module.trace, texts), ["copying_score"], trace=module.trace, repetition=lambda: (), weights=None)

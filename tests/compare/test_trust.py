"""Verdicts that are worth nothing are said to be: training that is not over, and rates that matter more than arms."""

import pytest
from test_results import DOCUMENT, FakeStore, calls  # noqa: F401 - a fixture

from headway.compare import results
from headway.compare.tokens.untrained import untrained
from headway.declare.experiment import resolve


def falling(by, steps=100):
    """A course that ends at 1 and falls by a share in the last tenth."""
    return [{"step": s, "eval_mse": 1 + by * (steps - s) / (0.1 * steps)} for s in range(0, steps + 1, 5)]


@pytest.fixture
def store(tmp_path, calls):  # noqa: F811
    return FakeStore(tmp_path, resolve(DOCUMENT))


@pytest.mark.parametrize(("by", "warned"), [(0.20, True), (0.05, False), (0.0, False)])
def test_a_loss_that_still_falls_by_more_than_the_arms_differ_is_told(store, by, warned):
    store.add("h1", [1.1, 1.1], recorded=falling(by)).add("h2", [1.0, 1.0], recorded=falling(0.0))
    said = [one for one in results.build(store).warnings if "not trained enough" in one]
    assert bool(said) == warned
    if warned:
        assert said == [
            "not trained enough to say: over the last tenth of training the evaluation MSE of 1 head still falls by "
            "more than the arms differ (1 head: by 20.0 %; the arms are 10.0 % apart); train longer, or let the "
            "learning rate decay"
        ]


def test_a_tiny_fall_and_a_course_without_records_are_no_news(store):
    store.add("h1", [1.0, 1.0], recorded=falling(0.004)).add("h2", [1.0, 1.0], recorded=falling(0.004))
    store.add("h4", [1.0, 1.0], recorded=[{"step": 100, "eval_mse": 1.0}])
    assert results.build(store).warnings == ()


@pytest.mark.parametrize(("double", "warned"), [(0.8, True), (0.97, False), (1.2, False)])
def test_a_learning_rate_that_moves_an_arm_by_more_than_the_arms_differ_is_told(tmp_path, calls, double, warned):  # noqa: F811
    controls = {"rates-double": {"training": {"learning_rate": 2e-3}}}
    store = FakeStore(tmp_path, resolve({**DOCUMENT, "controls": controls}))
    store.add("h1", [1.1, 1.1]).add("h2", [1.0, 1.0]).add("h1+rates-double", [1.1, 1.1])
    store.add("h2+rates-double", [double, double])
    said = [one for one in results.build(store).warnings if "learning rate" in one]
    assert bool(said) == warned
    if warned:
        assert said == [
            "the learning rate moves 2 heads by more than the arms differ (2 heads: by 25.0 % at x2; the arms are "
            "10.0 % apart); believe the verdicts at the best rates, not these"
        ]


class Told:
    """A finished run of a text, as far as it is asked."""

    status = "done"

    def __init__(self, name, loss, bigram=3.4):
        self.name, self.metrics = name, {"eval_loss_nats": loss, "bigram_loss_nats": bigram}


def text():
    return resolve(
        {
            "name": "text",
            "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
            "model": {"family": "gpt-2", "d_model": 32, "n_layers": 2, "n_heads": 4},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 10},
            "arms": {"a": {}, "b": {"model": {"n_heads": 2}}},
            "baseline": "a",
        }
    )


def test_arms_that_are_no_better_than_the_bigram_model_are_named():
    assert list(untrained(text(), [Told("a", 3.0), Told("b", 3.3)])) == []
    assert list(untrained(text(), [Told("a", 3.0), Told("b", 3.5), Told("b", 3.4)])) == [
        "not trained enough to say: b is no better than the bigram model (3.40 nats per token); train longer"
    ]
    assert list(untrained(text(), [Told("a", 3.4), Told("b", 3.5)])) == [
        "not trained enough to say: a and b are no better than the bigram model (3.40 nats per token); train longer"
    ]
    assert list(untrained(text(), [Told("a", None), Told("b", 3.5, None)])) == []

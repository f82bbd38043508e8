"""Verdicts that are worth nothing are said to be: training that is not over, and rates that matter more than arms."""

import numpy as np
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


def test_runs_that_diverged_are_a_share_and_no_mean_without_them(store):
    store.add("h1", [1.0, 1.1, 1.05]).add("h2", [1.0, 1.2, 1.1])
    store.content[2].status = "failed"
    store.content[2].message = "the loss of step 7 is nan: training diverged; lower the learning rate"
    said = results.build(store).warnings
    assert (
        "diverged: 1 of 3 runs of 1 head; what is compared are the runs that did not, which is another question" in said
    )


def test_a_stuck_seed_is_named_and_kept(store):
    store.add("h1", [0.667, 0.668, 1.430]).add("h2", [0.668, 0.666, 0.667]).add("h4", [0.669, 0.668, 0.667])
    built = results.build(store)
    assert [one for one in built.warnings if "unlike" in one] == [
        "1 run is unlike the others: 1 head, seed 2 (1.43 where the others have 0.667); a mean over them describes no "
        "run"
    ]
    assert next(c for c in built.comparisons if c.arm == "h1").n_pairs == 3


def test_seeds_that_scatter_as_the_others_are_no_news(store):
    draw = np.random.default_rng(3)
    for arm in ("h1", "h2", "h4"):
        store.add(arm, np.exp(0.1 * draw.standard_normal(8)).tolist())
    assert results.build(store).warnings == ()


def test_seeds_that_are_all_alike_and_fewer_than_three_name_nobody(store):
    store.add("h1", [1.0, 1.0, 1.0]).add("h2", [1.0, 3.0])
    assert results.build(store).warnings == ()


def test_a_loss_told_per_byte_still_falls_as_the_one_per_token_that_is_recorded(tmp_path):
    content = text().plain()
    arms = {"a": {"task": {"tokenizer": "bytes"}}, "b": {"task": {"tokenizer": "bpe-1024"}}}
    store = FakeStore(tmp_path, resolve({**content, "arms": arms, "baseline": "a"}))
    for arm, bits, by in (("a", 1.0, 0.2), ("b", 1.1, 0.0)):
        course = [{"step": r["step"], "eval_loss_nats": 2 * r["eval_mse"]} for r in falling(by)]
        metrics = {"eval_bits_per_byte": bits, "eval_loss_nats": 2.0, "bigram_loss_nats": 3.0}
        store.add(arm, [bits, bits], metrics=metrics, recorded=course)
    said = [one for one in results.build(store).warnings if "still falls" in one]
    assert len(said) == 1
    assert "of a still falls by more than the arms differ (a: by 20.0 %; the arms are 10.0 % apart)" in said[0]

"""What a run does to the one that it starts from: in steps, from a pruned one, and what cannot be done."""

from dataclasses import replace

import numpy as np
import pytest
from support.small_text import content

from headway.config.kinds import parse_run
from headway.config.lm.run import TokensRun
from headway.data.batch import open_examples
from headway.errors import UserError
from headway.models.weights import initial_weights
from headway.train.lm.init_from import InitRecord, initialise
from headway.train.loop import InitFrom

MODEL = {"n_heads": "4:2-4"}


def child(**start) -> TokensRun:
    found = parse_run(content(model=MODEL, init_from={"run": "run1-0", **start}, samples=None))
    assert isinstance(found, TokensRun)
    return found


@pytest.fixture(scope="module")
def examples():
    return open_examples(child().task)


@pytest.fixture
def origin(examples):
    run = parse_run(content(model=MODEL, samples=None))
    assert isinstance(run, TokensRun)
    weights = initial_weights(run.model, examples.vocab_size, 7)
    return InitFrom(name="dense seed 0", run=run, record=None, steps=40, weights=lambda step: weights)


@pytest.mark.parametrize("by", ["taylor", "ablation", "alike", "alike-either", "output", "magnitude", "random"])
def test_so_many_heads_are_left_by_every_method(by, origin, examples):
    record, weights = initialise(child(prune={"by": by, "keep": 4, "steps": 2, "sequences": 4}), origin, examples)
    assert record.model.layout.total == len(record.heads) == 4
    assert record.steps_before == 40
    again, weights_again = initialise(child(prune={"by": by, "keep": 4, "steps": 2, "sequences": 4}), origin, examples)
    assert again == record  # the same bits, whenever it is initialised
    assert all(np.array_equal(weights_again[name], weights[name]) for name in weights)


def test_a_share_is_of_the_heads_that_are_declared_also_where_some_have_gone(origin, examples):
    first, weights = initialise(child(prune={"by": "magnitude", "keep": 6}), origin, examples)
    parent = replace(
        origin, run=child(prune={"by": "magnitude", "keep": 6}),
        record=first.content, weights=lambda step: weights, steps=20,
    )  # fmt: skip
    second, _ = initialise(child(prune={"by": "magnitude", "keep": 0.5}), parent, examples)
    assert second.model.layout.total == 4
    assert set(second.heads) < set(first.heads)  # as the declared model calls them
    assert second.steps_before == 60
    with pytest.raises(
        UserError, match=r"init_from.prune.keep 6: that is 6 heads, and dense seed 0 has 6; keep fewer, or"
    ):
        initialise(child(prune={"by": "random", "keep": 6}), parent, examples)


def test_heads_are_added_back_where_they_are_missing(origin, examples):
    with pytest.raises(UserError, match=r"init_from.regrow: dense seed 0 has all of the heads that its model declares"):
        initialise(child(regrow=True), origin, examples)
    first, weights = initialise(child(prune={"by": "random", "keep": 4}), origin, examples)
    parent = replace(
        origin,
        run=child(prune={"by": "random", "keep": 4}),
        record=first.content,
        weights=lambda step: weights,
    )
    again, _ = initialise(child(regrow=True), parent, examples)
    assert again.model.layout == child().model.layout
    assert len(again.heads) == 8


def test_what_began_is_read_back(origin, examples):
    record, _ = initialise(child(prune={"by": "random", "keep": 4}), origin, examples)
    assert InitRecord.read(child(), record.content) == record

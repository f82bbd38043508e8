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
from headway.train.lm.init_from import Started, begin
from headway.train.loop import InitFrom

MODEL = {"n_heads": "4:2-4"}


def child(**start) -> TokensRun:
    found = parse_run(content(model=MODEL, start={"run": "run1-0", **start}, samples=None))
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
    return InitFrom(name="dense seed 0", run=run, beginning=None, steps=40, weights=lambda step: weights)


@pytest.mark.parametrize("by", ["taylor", "ablation", "alike", "alike-either", "output", "magnitude", "random"])
def test_so_many_heads_are_left_by_every_method(by, origin, examples):
    began = begin(child(prune={"by": by, "keep": 4, "steps": 2, "sequences": 4}), origin, examples)
    assert began.begun.model.layout.total == len(began.begun.heads) == 4
    assert began.begun.steps_before == 40
    again = begin(child(prune={"by": by, "keep": 4, "steps": 2, "sequences": 4}), origin, examples)
    assert again.begun == began.begun  # the same bits, whenever it is begun
    assert all(np.array_equal(again.weights[name], began.weights[name]) for name in began.weights)


def test_a_share_is_of_the_heads_that_are_declared_also_where_some_have_gone(origin, examples):
    first = begin(child(prune={"by": "magnitude", "keep": 6}), origin, examples)
    parent = replace(
        origin, run=child(prune={"by": "magnitude", "keep": 6}),
        beginning=first.begun.content, weights=lambda step: first.weights, steps=20,
    )  # fmt: skip
    second = begin(child(prune={"by": "magnitude", "keep": 0.5}), parent, examples)
    assert second.begun.model.layout.total == 4
    assert set(second.begun.heads) < set(first.begun.heads)  # as the declared model calls them
    assert second.begun.steps_before == 60
    with pytest.raises(UserError, match=r"start.prune.keep 6: that is 6 heads, and dense seed 0 has 6; keep fewer, or"):
        begin(child(prune={"by": "random", "keep": 6}), parent, examples)


def test_heads_are_added_back_where_they_are_missing(origin, examples):
    with pytest.raises(UserError, match=r"start.regrow: dense seed 0 has all of the heads that its model declares"):
        begin(child(regrow=True), origin, examples)
    first = begin(child(prune={"by": "random", "keep": 4}), origin, examples)
    parent = replace(
        origin,
        run=child(prune={"by": "random", "keep": 4}),
        beginning=first.begun.content,
        weights=lambda step: first.weights,
    )
    again = begin(child(regrow=True), parent, examples)
    assert again.begun.model.layout == child().model.layout
    assert len(again.begun.heads) == 8


def test_what_began_is_read_back(origin, examples):
    begun = begin(child(prune={"by": "random", "keep": 4}), origin, examples).begun
    assert Started.read(child(), begun.content) == begun

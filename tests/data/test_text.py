"""Sequences: what is trained on and what is judged, packed or padded as published."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config.lm.text import TextTask
from headway.data import text
from headway.data.text import evaluation_batches, steps_per_epoch, training_batch
from headway.errors import UserError

END = 0


@dataclass(frozen=True)
class Arrays:
    """Documents of given lengths, END after each; every other token is a number of its own."""

    train: np.ndarray
    held_out: np.ndarray
    train_ends: np.ndarray
    held_out_ends: np.ndarray
    end_of_text: int = END


def arrays(train, held_out=(5, 7, 3)):
    def joined(lengths, first):
        ends = np.cumsum(np.array(lengths, np.int64) + 1)
        tokens = np.arange(first, first + ends[-1]).astype(np.uint16)
        tokens[ends - 1] = END
        return tokens, ends

    (a, a_ends), (b, b_ends) = joined(train, 1), joined(held_out, 30_000)
    return Arrays(train=a, held_out=b, train_ends=a_ends, held_out_ends=b_ends)


def task(n_ctx, padding="packed"):
    return TextTask(kind="text", corpus="stories", n_ctx=n_ctx, padding=padding)


def epoch(tokens, text_task, seed, number, batch_size=1):
    """All sequences of an epoch, one after the other."""
    n = text.sequences_per_epoch(tokens, text_task)
    assert n % batch_size == 0
    steps = range(number * n // batch_size, (number + 1) * n // batch_size)
    return [training_batch(tokens, text_task, seed, step, batch_size) for step in steps]


@pytest.mark.slow
@given(lengths=st.lists(st.integers(1, 40), min_size=2, max_size=30), n_ctx=st.integers(1, 24), seed=st.integers(0, 9))
@settings(max_examples=60)
def test_an_epoch_asks_for_no_token_twice_and_leaves_less_than_a_window(lengths, n_ctx, seed):
    tokens = arrays(lengths, held_out=[30])
    if len(tokens.train) < n_ctx:
        return
    for number in (0, 1):
        batches = epoch(tokens, task(n_ctx), seed, number)
        asked = np.concatenate([batch.targets.ravel() for batch in batches])
        kept = asked[asked != END]
        assert len(np.unique(kept)) == len(kept)
        assert len(asked) == len(tokens.train) // n_ctx * n_ctx > len(tokens.train) - n_ctx
        for batch in batches:
            row = np.concatenate([batch.inputs[0], batch.targets[0, -1:]])
            assert np.array_equal(row[1:], batch.targets[0])
            ring = np.concatenate([tokens.train] * (n_ctx // len(tokens.train) + 2))
            assert any(np.array_equal(ring[i : i + n_ctx + 1], row) for i in range(len(tokens.train)))


def test_epochs_begin_elsewhere_and_go_in_another_order():
    tokens = arrays([50] * 40)
    first, second = (
        np.concatenate([batch.inputs[:, 0] for batch in epoch(tokens, task(10), 0, number)]) for number in (0, 1)
    )
    assert set(first.tolist()) != set(second.tolist())
    assert not np.array_equal(np.argsort(first), np.argsort(second))
    assert not np.all(np.diff(first) > 0)


def test_a_batch_is_a_function_of_seed_step_and_batch_size():
    tokens, text_task = arrays([31] * 50), task(16)
    one = training_batch(tokens, text_task, 3, 17, 8)
    text._order.cache_clear()
    training_batch(tokens, text_task, 4, 2, 8)
    again = training_batch(tokens, text_task, 3, 17, 8)
    assert np.array_equal(one.inputs, again.inputs)
    assert np.array_equal(one.targets, again.targets)
    assert not np.array_equal(one.inputs, training_batch(tokens, text_task, 4, 17, 8).inputs)
    # The sequences of a seed come in one order, however many make a batch.
    halves = [training_batch(tokens, text_task, 3, step, 4).inputs for step in (34, 35)]
    assert np.array_equal(one.inputs, np.concatenate(halves))


def test_a_batch_may_straddle_epochs():
    tokens, text_task = arrays([9] * 7), task(10)
    assert steps_per_epoch(tokens, text_task, 3) == pytest.approx(7 / 3)
    rows = np.concatenate([training_batch(tokens, text_task, 0, step, 3).targets for step in range(7)])
    for number in range(3):
        asked = rows[7 * number : 7 * number + 7].ravel()
        assert len(np.unique(asked[asked != END])) == 63


def test_published_stories_stand_alone_and_never_end():
    tokens, text_task = arrays([3, 12, 5, 8]), task(8, "published")
    assert steps_per_epoch(tokens, text_task, 2) == 2
    rows = [b for number in range(2) for b in epoch(tokens, text_task, 0, number, 2)]
    seen = []
    for batch in rows:
        for given_, wanted in zip(batch.inputs, batch.targets, strict=True):
            story = given_[given_ != END]
            seen.append(len(story))
            assert END not in wanted
            assert np.array_equal(wanted[: len(story) - 1], story[1:])
            assert np.all(wanted[len(story) - 1 :] == text.MASKED)
            assert np.array_equal(story, np.arange(story[0], story[0] + len(story)))
    assert sorted(seen[:4]) == sorted(seen[4:]) == [3, 5, 8, 8]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
def test_every_held_out_token_is_judged_once_whatever_the_batch(batch_size):
    tokens = arrays([20] * 70, held_out=[11, 4, 30, 8])
    batches = list(evaluation_batches(tokens, task(8), None, batch_size))
    assert {(b.inputs.shape, b.targets.shape) for b in batches} == {((batch_size, 8), (batch_size, 8))}
    pairs = [(i, t) for b in batches for i, t in zip(b.inputs.ravel(), b.targets.ravel(), strict=True) if t >= 0]
    assert pairs == list(zip(tokens.held_out[:-1].tolist(), tokens.held_out[1:].tolist(), strict=True))
    few = [list(evaluation_batches(tokens, task(8), 3, size)) for size in (batch_size, 3)]
    some, same = (np.concatenate([b.targets for b in found])[:3] for found in few)
    assert np.array_equal(some, same)
    assert sum(int((b.targets >= 0).any(axis=1).sum()) for b in few[0]) == 3


def test_published_stories_are_judged_as_they_are_trained():
    tokens = arrays([20] * 70, held_out=[11, 4, 30])
    (batch,) = evaluation_batches(tokens, task(8, "published"), None, 4)
    assert (batch.targets >= 0).sum(axis=1).tolist() == [7, 3, 7, 0]
    assert np.all(batch.inputs[3] == END)


def test_too_little_text_is_an_error_before_training():
    tokens = arrays([9] * 7)
    with pytest.raises(
        UserError, match=r"has 7 sequences of n_ctx 10 \(70 tokens\), but training.batch_size is 8; give"
    ):
        steps_per_epoch(tokens, task(10), 8)
    with pytest.raises(UserError, match=r"has 7 documents \(70 tokens\), but training.batch_size is 8"):
        training_batch(tokens, task(10, "published"), 0, 0, 8)
    with pytest.raises(
        UserError, match=r"held-out text has 18 tokens, fewer than one sequence of n_ctx 18 and the token"
    ):
        steps_per_epoch(tokens, task(18), 1)
    with pytest.raises(UserError, match=r"task.n_ctx 1 with published padding leaves no token to predict"):
        steps_per_epoch(tokens, task(1, "published"), 1)


def test_global_generators_are_left_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    training_batch(arrays([9] * 70), task(10), 0, 0, 8)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002

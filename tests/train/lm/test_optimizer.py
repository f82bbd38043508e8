"""Lengths and step sizes of language models."""

import math
from types import SimpleNamespace

import pytest
from support import small_text

from headway.train.lm.optimizer import rate_share, steps_of


def shares(steps, **training):
    declared = small_text.run_of(training={"steps": steps, **training}).training
    return [rate_share(declared, step, steps) for step in range(1, steps + 1)]


def test_linear_decay_without_warm_up_is_the_published_one():
    assert shares(4) == [1.0, 0.75, 0.5, 0.25]


def test_warm_up_rises_by_equal_parts_to_all_of_it():
    assert shares(8, warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert shares(3, warmup_steps=6) == [1 / 6, 2 / 6, 3 / 6], "a warm-up longer than the training never ends"


def test_cosine_and_constant():
    assert shares(5, decay="constant", warmup_steps=2) == [0.5, 1.0, 1.0, 1.0, 1.0]
    assert shares(4, decay="cosine") == pytest.approx([(1 + math.cos(math.pi * i / 4)) / 2 for i in range(4)])


def test_the_length_is_counted_in_steps_tokens_or_epochs():
    def of(**length):
        run = small_text.run_of(training={"steps": None, **length})
        return run.declared_steps, steps_of(run, SimpleNamespace(steps_per_epoch=lambda _: 10.5))

    assert of(steps=7) == (7, 7)
    assert of(tokens=4 * 24 * 9 + 5) == (9, 9)
    assert of(tokens=1) == (1, 1)
    assert of(epochs=2.0) == (None, 21)

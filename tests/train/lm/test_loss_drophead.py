"""DropHead: which heads are dropped, what that does to a step, and that nothing is dropped when a model is judged."""

import numpy as np
import pytest
import torch
from support.small_text import run_of, study_of
from support.tolerance import assert_same, nearly

from headway.config.lm.training import DropHead
from headway.data.text import TextExamples
from headway.data.token_store import open_corpus
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.lm.loss import head_gates

HALF = {"drophead": {"start": 0.5, "end": 0.5}}


def test_kept_heads_are_scaled_so_that_their_number_is_made_up_for():
    gates = head_gates((4, 0, 3), 0.5, 1_000, seed=0, step=1)
    assert gates.shape == (1_000, 7)
    for layer in (gates[:, :4], gates[:, 4:]):
        assert_same(layer.sum(1), layer.shape[1], dtype=np.float32)
        assert all(len(set(row[row > 0].tolist())) == 1 for row in layer)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9])
def test_heads_are_dropped_with_their_probability_but_never_all(probability):
    heads = 3
    dropped = head_gates((heads,), probability, 40_000, seed=0, step=1) == 0
    assert not dropped.all(1).any()
    none_left = probability**heads
    expected = (probability - none_left) / (1 - none_left)
    np.testing.assert_allclose(dropped.mean(0), expected, atol=0.01)


def test_a_single_head_is_never_dropped():
    assert (head_gates((1, 1), 0.9, 50, seed=0, step=1) == 1).all()


def test_masks_are_of_the_seed_and_the_step_alone():
    first, again, other_step, other_seed = (
        head_gates((8, 4), 0.5, 16, seed=seed, step=step) for seed, step in ((0, 1), (0, 1), (0, 2), (1, 1))
    )
    assert (first == again).all()
    assert (first != other_step).any()
    assert (first != other_seed).any()


def test_the_probability_falls_to_0_and_rises():
    drophead = DropHead(start=0.3, end=0.1, turn=0.25)
    along = [drophead.probability_at(step, 101) for step in range(1, 102)]
    assert (along[0], along[25], along[-1]) == (0.3, 0.0, pytest.approx(0.1))
    assert all(np.diff(along[:26]) < 0)
    assert all(np.diff(along[25:]) > 0)
    assert DropHead(start=0.3).probability_at(1, 1) == 0.3


@pytest.mark.parametrize("grad_accumulation", [1, 2])
def test_a_step_is_that_of_the_gated_model_written_out(grad_accumulation):
    run = run_of(training={**HALF, "clip": None, "grad_accumulation": grad_accumulation})
    tokens = open_corpus(run.task)
    module = Transformer(
        run.model, tokens.tokenizer.vocab_size, initial_weights(run.model, tokens.tokenizer.vocab_size, 0)
    )
    batch = TextExamples(run.task, tokens).training_batch(0, 0, 4)
    gates = torch.from_numpy(head_gates((4, 2), 0.5, 4, seed=0, step=1))
    logits, _ = module(torch.tensor(batch.inputs), gates=[gates[:, :4], gates[:, 4:]])
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(batch.targets).flatten())
    trainer = study_of(training={**HALF, "clip": None, "grad_accumulation": grad_accumulation}).trainer
    assert trainer.advance(1)[0] == nearly(expected.item(), dtype=np.float32)
    plain = study_of(training={"clip": None, "grad_accumulation": grad_accumulation}).trainer.advance(1)[0]
    assert plain != nearly(expected.item(), dtype=np.float32)


def test_without_a_chance_to_drop_a_step_is_a_plain_one_bit_for_bit():
    # The turn: p is 0 at step 21 of 41.
    over = {"training": {"steps": 41, "drophead": {"start": 0.5, "end": 0.5, "turn": 0.5}}}
    dropping, plain = study_of(**over), study_of(training={"steps": 41})
    dropping.trainer.advance(20)
    plain.trainer.restore(20, dropping.trainer.state())
    np.testing.assert_array_equal(dropping.trainer.advance(1), plain.trainer.advance(1))
    assert dropping.trainer.advance(10)[-1] != plain.trainer.advance(10)[-1]


def test_nothing_is_dropped_when_a_model_is_judged():
    dropping, plain = study_of(training=HALF), study_of()
    dropping.trainer.advance(3)
    plain.trainer.restore(3, dropping.trainer.state())
    assert dropping.conclude().metrics["eval_loss_nats"] == plain.conclude().metrics["eval_loss_nats"]

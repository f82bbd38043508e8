"""Regularisers: what is minimised beside the loss, what is recorded of it, and that heads come to differ."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.small_text import run_of, study_of
from support.tolerance import assert_same, nearly

from headway.config.lm.training import REGULARIZED, Regularizer
from headway.data.text import TextExamples
from headway.data.token_store import open_corpus
from headway.heads.regularizers import TERMS
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.lm.loss import terms
from headway.train.loop import Milestone, train

every_metric = pytest.mark.parametrize("metric", TERMS)


SIGN = {"high": -1, "low": 1}
"""Of a term where it is added to what is minimised."""


def regularized(metric, weight=1.0, schedule="constant", **training):
    return {"regularizers": [{"metric": metric, "weight": weight, "schedule": schedule}], **training}


def drawn(run):
    tokens = open_corpus(run.task)
    return tokens, Transformer(
        run.model, tokens.tokenizer.vocab_size, initial_weights(run.model, tokens.tokenizer.vocab_size, 0)
    )


def test_what_can_be_declared_has_a_function_and_the_other_way_round():
    assert set(TERMS) == set(REGULARIZED)


def test_schedules_are_linear_over_training():
    falling = Regularizer(metric="query_cka", weight=2.0, schedule="falling")
    assert [falling.weight_at(step, 4) for step in (1, 2, 3, 4)] == [2.0, 1.5, 1.0, 0.5]
    assert Regularizer(metric="query_cka").weight_at(3, 4) == 1.0


@pytest.mark.slow
@every_metric
def test_a_step_minimises_the_loss_and_the_term(metric):
    """The first update by stochastic descent's direction: that of NLL + weight x term, written out."""
    run = run_of(training=regularized(metric, 0.3, clip=None))
    tokens, module = drawn(run)
    batch = TextExamples(run.task, tokens).training_batch(0, 0, 4)
    inputs, targets = torch.tensor(batch.inputs), torch.tensor(batch.targets)
    logits, trace = module(inputs, record=True)
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    term = torch.stack([TERMS[metric].measure(attention) for attention in trace.attentions]).mean()
    (nll + SIGN[TERMS[metric].better] * 0.3 * term).backward()
    trainer = study_of(training=regularized(metric, 0.3, clip=None)).trainer
    loss, recorded = trainer.advance(1)[0]
    assert (loss, recorded) == nearly((nll.item(), term.item()), dtype=np.float32)
    gradients = {name: array / 0.1 for name, array in trainer.state().items() if "exp_avg/" in name}
    for name, parameter in module.named_parameters():
        expected = parameter.grad.numpy()
        found = gradients[f"optimizer/exp_avg/{name}"]
        assert_same(found, expected, what=name, dtype=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["query_cka", "disagreement_output"])
def test_heads_come_to_differ(metric):
    def final(training):
        trainer = study_of(training={**training, "steps": 60}).trainer
        trainer.advance(60)
        run = run_of()
        tokens, module = drawn(run)
        module.put(trainer.weights())
        inputs = torch.tensor(TextExamples(run.task, tokens).training_batch(0, 0, 16).inputs)
        with torch.no_grad():
            trace = module.trace(inputs)
        return terms(trace, [Regularizer(metric=metric)]).item()

    sign = SIGN[TERMS[metric].better]
    assert sign * final(regularized(metric, 3.0)) < sign * final({})


def test_layers_with_one_head_have_no_term():
    run = run_of(model={"n_heads": "1-4"})
    tokens, module = drawn(run)
    _, trace = module(torch.tensor(TextExamples(run.task, tokens).training_batch(0, 0, 4).inputs), record=True)
    wanted = [Regularizer(metric=metric) for metric in TERMS]
    alone = [TERMS[metric].measure(trace.attentions[1]).float() for metric in TERMS]
    assert_same(terms(trace, wanted), torch.stack(alone))


def test_the_record_has_the_plain_loss_and_each_term_beside_it():
    both = {"regularizers": [{"metric": "disagreement_output"}, {"metric": "query_cka", "weight": 0.1}]}
    study = study_of(training=both)
    records = [e.metrics for e in train(study, steps=20, log_every=10) if isinstance(e, Milestone)]
    assert "regularizer" not in records[0]
    for record in records[1:]:
        assert list(record["regularizer"]) == ["disagreement_output", "query_cka"]
        assert 0 < record["regularizer"]["query_cka"] < 1
        assert -1 < record["regularizer"]["disagreement_output"] < 0
    assert records[-1]["train_loss_nats"] > 1
    assert "regularizer" not in study_of().extra(3)


def test_a_weight_that_comes_to_nothing_leaves_training_as_it_was():
    plain, regular = study_of(), study_of(training=regularized("disagreement_output", 1e-12))
    assert_same(regular.trainer.advance(10)[:, 0], plain.trainer.advance(10), dtype=np.float32)


GUIDED = {
    "weights by step": regularized("disagreement_output", 0.5, "rising"),
    "two terms, dropped heads, parts": {
        "regularizers": [{"metric": "orthogonality", "weight": 0.01}, {"metric": "disagreement_position"}],
        "drophead": {"start": 0.3, "end": 0.3},
        "grad_accumulation": 2,
    },
}


@pytest.mark.parametrize("training", GUIDED.values(), ids=GUIDED)
def test_restored_it_goes_on_with_the_same_bits(training):
    over = {"training": training, "model": {"dropout": 0.1}}
    whole, first, second = (study_of(**over) for _ in range(3))
    losses = whole.trainer.advance(9)
    np.testing.assert_array_equal(np.concatenate([first.trainer.advance(1), first.trainer.advance(3)]), losses[:4])
    second.trainer.restore(4, first.trainer.state())
    np.testing.assert_array_equal(second.trainer.advance(5), losses[4:])


def test_parts_of_a_batch_make_the_same_step():
    """Terms are means over examples, so those of equal parts average to that of the batch."""
    training = {**regularized("disagreement_output", 0.5), "drophead": {"start": 0.4}}
    whole = study_of(training=training).trainer.advance(5)
    assert_same(study_of(training={**training, "grad_accumulation": 2}).trainer.advance(5), whole, dtype=np.float32)


@every_metric
def test_dropped_heads_leave_terms_and_gradients_finite(metric):
    trainer = study_of(training={**regularized(metric), "drophead": {"start": 0.9, "end": 0.9}}).trainer
    assert np.isfinite(trainer.advance(5)).all()
    assert all(np.isfinite(array).all() for array in trainer.weights().values())


# In a process of its own: shapes in signatures are checked here, and those checks are not to be compiled.
COMPILED = """
import sys
sys.path.insert(0, {tests!r})
import numpy as np, torch
from support.small_text import run_of
from headway.heads.regularizers import TERMS
from headway.train.lm.study import open_study
torch.use_deterministic_algorithms(True)
torch._dynamo.config.error_on_recompile = True
metrics = [dict(metric=name, weight=.1, schedule="rising") for name in TERMS]
training = dict(regularizers=metrics, drophead=dict(start=.5), grad_accumulation=2)
over = dict(training=training, model=dict(n_heads="4-1"))
fast, slow = (open_study(run_of(**over), compile=compile, device="cpu") for compile in (True, False))
np.testing.assert_allclose(*(study.trainer.advance(6) for study in (fast, slow)), rtol=2e-3)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiles")
def test_compiled_and_eager_agree_and_schedules_compile_nothing_anew():
    code = COMPILED.format(tests=str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]

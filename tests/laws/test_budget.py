"""Law: counted parameters are the built model's, exactly."""

import math
from functools import cache

import pytest

from headway.config import load as loading
from headway.config.kinds import parse_run
from headway.config.lm.run import TokensRun
from headway.config.regression import IclRun
from headway.config.yaml import shipped
from headway.icl.attention import InContextAttention
from headway.icl.weights import initial_weights, weight_shapes
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights as initial_text_weights


@cache
def load(name):
    return loading.load(name)


def arms_of(kind, changing=None):
    """The names of the arms of every experiment of a kind, without those whose control changes no part of interest."""
    return [
        (name, arm.full_name)
        for name in shipped()
        for arm in load(name).arms
        if isinstance(arm.resolved_spec, kind)
        and (changing is None or arm.control is None or changing in load(name).document.controls[arm.control])
    ]


def of_different_models(arms):
    """The first arm of each model and vocabulary."""
    found = {}
    for name, arm in arms:
        run = load(name).arm(arm).resolved_spec
        found.setdefault((run.task.kind, run.task.vocab_size, run.model.model_dump_json()), (name, arm))
    return list(found.values())


ARMS = arms_of(IclRun)
TEXT_ARMS = of_different_models(arms_of(TokensRun, changing="model"))


def variants(run):
    """The run as it is, and with biases."""
    content = run.content()
    yield run
    yield parse_run({**content, "model": {**content["model"], "bias": True}})


@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_counted_parameters_are_the_built_models(name, arm):
    for run in variants(load(name).arm(arm).spec(0)):
        counted = run.budget.n_parameters
        assert counted == sum(math.prod(shape) for shape in weight_shapes(run.model, run.task).values())
        model = InContextAttention(run.model, run.task, initial_weights(run.model, run.task, seed=0))
        assert counted == sum(parameter.numel() for parameter in model.parameters())


def counted_is_built(run):
    vocab_size = run.task.vocab_size
    built = Transformer(run.model, vocab_size, initial_text_weights(run.model, vocab_size, 0))
    parts = run.budget.parameters
    assert all(parts.values())
    assert sum(parts.values()) == sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arm"), TEXT_ARMS)
def test_counted_parameters_are_the_built_transformers(name, arm):
    counted_is_built(load(name).arm(arm).spec(0))


def test_flops_of_a_small_model_by_hand():
    run = parse_run(
        {
            "task": {"kind": "regression", "d_x": 2, "n_pairs": 4},
            "model": {"family": "icl", "n_heads": 1, "n_out": 1},
            "training": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 1, "steps": 1},
            "seed": 0,
        }
    )
    # QK x_q: 3 x 3 products; four scores of 3; four weighted tokens of 3; OV: 3. A product and a sum are two.
    assert run.budget.flops_per_example == 2 * (9 + 4 * 3 + 4 * 3 + 3)

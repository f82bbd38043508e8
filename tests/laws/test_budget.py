"""Law: counted parameters are the built model's, exactly."""

import math

import pytest

from headway.declare.budget import budget
from headway.declare.experiment import load
from headway.declare.run import parse_run
from headway.declare.shipped import shipped
from headway.icl.attention import InContextAttention
from headway.icl.weights import initial_weights, weight_shapes

ARMS = [(name, arm.full_name) for name in shipped() for arm in load(name).arms]


def variants(run):
    """The run as it is, and with biases."""
    content = run.content()
    yield run
    yield parse_run({**content, "model": {**content["model"], "bias": True}})


@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_counted_parameters_are_the_built_models(name, arm):
    for run in variants(load(name).arm(arm).spec(0)):
        counted = budget(run).n_parameters
        assert counted == sum(math.prod(shape) for shape in weight_shapes(run.model, run.task).values())
        model = InContextAttention(run.model, run.task, initial_weights(run.model, run.task, seed=0))
        assert counted == sum(parameter.numel() for parameter in model.parameters())


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
    assert budget(run).flops_per_example == 2 * (9 + 4 * 3 + 4 * 3 + 3)

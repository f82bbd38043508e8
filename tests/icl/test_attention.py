"""The fast model against the slow, obvious one, in value and gradient."""

import numpy as np
import pytest
import torch
from support import reference_attention
from support.tolerance import assert_same

from headway.config.regression import OneLayer, RegressionTask, Stack
from headway.data.regression import draw
from headway.errors import UserError
from headway.icl.attention import InContextAttention
from headway.icl.circuits import circuits
from headway.icl.estimators import attend
from headway.icl.weights import initial_weights, weight_shapes

ONE = RegressionTask(kind="regression", d_x=3, n_pairs=7)
TWO = RegressionTask(kind="regression", d_x=4, d_y=2, n_pairs=6, reads=((0, 1, 2), (1, 2, 3)))

MODELS = {
    "one layer": OneLayer(family="icl", n_heads=2, n_out=1),
    "one layer, whole tokens": OneLayer(family="icl", n_heads=1),
    "one layer, bias": OneLayer(family="icl", n_heads=2, n_out=1, bias=True),
    "one layer, whole tokens, bias": OneLayer(family="icl", n_heads=2, bias=True, attention="linear-mean"),
    "linear mean": OneLayer(family="icl", n_heads=2, attention="linear-mean"),
    "linear sum": OneLayer(family="icl", n_heads=2, attention="linear-sum"),
    "stack": Stack(family="icl-stack", n_heads=2, n_layers=2),
    "deep": Stack(family="icl-stack", n_heads=1, n_layers=3, residual=True),
    "tied": Stack(family="icl-stack", n_heads=2, n_layers=3, tied=True, residual=True, bias=True),
    "sees itself": Stack(family="icl-stack", n_heads=2, n_layers=2, attend_self=True, bias=True),
    "linear stack": Stack(family="icl-stack", n_heads=2, n_layers=3, attention="linear-mean", bias=True),
    "linear sum stack, sees itself": Stack(
        family="icl-stack", n_heads=2, n_layers=2, attention="linear-sum", attend_self=True, residual=True
    ),
}


def sizeable(model, task, seed=0):
    """A module in float64 whose attention is far from even, so that nothing hides."""
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(0, 0.6, shape).astype(np.float32) for name, shape in weight_shapes(model, task).items()}
    return InContextAttention(model, task, weights).double()


def prompts_of(task, n=5, n_pairs=None):
    drawn = draw(task, key=7, step=1, batch_size=n, n_pairs=n_pairs)
    return tuple(torch.from_numpy(getattr(drawn, name)).double() for name in ("x", "y", "x_query"))


def gradients(module, prediction):
    module.zero_grad()
    (prediction * torch.linspace(0.5, 2, prediction.numel()).view_as(prediction)).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("name", MODELS)
def test_prediction_and_gradient_are_those_of_the_reference(name):
    module, prompts = sizeable(MODELS[name], ONE), prompts_of(ONE)
    expected = reference_attention.predict(module, *prompts)
    predicted = module(*prompts)
    assert_same(predicted, expected)
    expected_gradients = gradients(module, expected)
    # Some gradients are 0 but for the roundings of the others, from which they are made.
    largest = max(gradient.abs().max() for gradient in expected_gradients.values())
    assert_same(gradients(module, predicted), expected_gradients, scale=largest)


@pytest.mark.parametrize("name", ["one layer, whole tokens", "stack", "sees itself"])
def test_two_outputs(name):
    module, prompts = sizeable(MODELS[name], TWO), prompts_of(TWO)
    assert_same(module(*prompts), reference_attention.predict(module, *prompts))


@pytest.mark.parametrize("name", MODELS)
def test_at_lengths_is_a_pass_for_each_length(name):
    module, (x, y, x_query) = sizeable(MODELS[name], ONE), prompts_of(ONE, n_pairs=11)
    lengths = (1, 2, 5, 11)
    expected = torch.stack([module(x[:, :n], y[:, :n], x_query) for n in lengths], dim=1)
    assert_same(module.at_lengths(x, y, x_query, lengths), expected)


def test_one_pair_and_logits_far_apart_are_finite():
    module = sizeable(MODELS["stack"], ONE)
    with torch.no_grad():
        module.W_Q.mul_(100)
    for n_pairs in (1, 7):
        prediction = module.float()(*(part.float() for part in prompts_of(ONE, n_pairs=n_pairs)))
        assert prediction.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in gradients(module, prediction).values())


@pytest.mark.parametrize("kind", ["softmax", "linear-mean", "linear-sum"])
def test_the_numpy_estimator_computes_the_same_from_circuits(kind):
    model = OneLayer(family="icl", n_heads=3, attention=kind)
    module = sizeable(model, TWO)
    drawn = draw(TWO, key=7, step=1, batch_size=9)
    found = circuits(module.float().weights(), model, TWO)
    with torch.no_grad():
        prediction = module(*(torch.from_numpy(getattr(drawn, name)) for name in ("x", "y", "x_query")))
    from_circuits = attend(drawn, found["qk"][0], found["ov"][0], kind)[:, 0]
    assert_same(prediction.numpy(), from_circuits, dtype=np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_weights_come_back(name):
    weights = initial_weights(MODELS[name], ONE, seed=3)
    returned = InContextAttention(MODELS[name], ONE, weights).weights()
    assert list(returned) == list(weights)
    assert all(np.array_equal(returned[key], weights[key]) for key in weights)


def test_weights_of_another_model_are_refused():
    weights = initial_weights(MODELS["one layer"], ONE, seed=0)
    with pytest.raises(UserError, match="do not fit the model; it needs"):
        InContextAttention(MODELS["stack"], ONE, weights)

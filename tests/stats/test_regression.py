"""What results.json says of the estimators, on the prompts that the runs are judged on."""

import json
import math
import time

import numpy as np
import pytest

from headway.config.regression import LengthCurve, Power, PromptEvaluation, RegressionTask
from headway.data.regression import curve_prompts, evaluation_prompts
from headway.icl import estimators, evaluation, theory
from headway.stats.regression import estimator_errors

NOTEBOOK = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
TWO = RegressionTask(
    kind="regression", d_x=6, d_y=2, n_pairs=48, noise_variance=0.4, reads=((0, 1, 2, 3), (2, 3, 4, 5))
)
CORRELATED = NOTEBOOK.model_copy(update={"covariance": Power(kind="power", rho=0.7)})
SMALL = PromptEvaluation(prompts=4_000, curve=LengthCurve(prompts=500, longest=100, lengths=12, resamples=50))
NAMES = ["debiased_gd_best", "gd_best", "gd_eta1", "least_squares", "ridge"]


def test_the_shape_of_the_answer():
    found = estimator_errors(NOTEBOOK, SMALL)
    assert json.loads(json.dumps(found)) == found
    assert sorted(found["baselines"]) == NAMES
    assert all(set(entry) == {"mse", "se"} and entry["se"] > 0 for entry in found["baselines"].values())
    curves = found["curves"]
    assert curves.pop("n_pairs") == list(SMALL.curve.grid(NOTEBOOK.n_pairs))
    assert sorted(curves) == NAMES
    for curve in curves.values():
        low, mse, high = (np.array(curve[key]) for key in ("low", "mse", "high"))
        assert low.shape == (len(SMALL.curve.grid(NOTEBOOK.n_pairs)),)
        assert (low <= mse).all()
        assert (mse <= high).all()


@pytest.mark.parametrize("task", [NOTEBOOK, TWO, CORRELATED], ids=["notebook", "two", "correlated"])
def test_they_are_the_named_estimators_on_the_runs_prompts(task):
    found = estimator_errors(task, SMALL)
    prompts, reads = evaluation_prompts(task, 4_000), task.read_mask()

    def mse(predictions):
        return evaluation.squared_errors(predictions, prompts).mean()

    expected = {
        "gd_eta1": mse(estimators.gd(prompts, 1.0, reads=reads)),
        "gd_best": mse(estimators.gd(prompts, theory.best_eta(task, debiased=False), reads=reads)),
        "debiased_gd_best": mse(estimators.debiased_gd(prompts, theory.best_eta(task, debiased=True), reads=reads)),
        "ridge": mse(estimators.ridge(prompts, task.noise_variance, reads=reads)),
        "least_squares": mse(estimators.least_squares(prompts, reads=reads)),
    }
    if task is CORRELATED:
        best = theory.best_preconditioner(task, debiased=True)
        expected["preconditioned_gd"] = mse(estimators.preconditioned_gd(prompts, best, debiased=True))
        assert expected["preconditioned_gd"] < 0.7 * expected["gd_best"]
    assert {name: entry["mse"] for name, entry in found["baselines"].items()} == pytest.approx(expected)


def test_curves_take_each_lengths_best_step_and_a_median_for_least_squares():
    found = estimator_errors(TWO, SMALL)["curves"]
    lengths = list(SMALL.curve.grid(TWO.n_pairs))
    prompts, reads = curve_prompts(TWO, 500, 100), TWO.read_mask()
    for name, predict, debiased in (
        ("gd_best", estimators.gd, False),
        ("debiased_gd_best", estimators.debiased_gd, True),
    ):
        eta = theory.best_eta(TWO, lengths, debiased=debiased)
        errors = evaluation.squared_errors(predict(prompts, eta, lengths, reads=reads), prompts)
        assert found[name]["mse"] == pytest.approx(errors.mean(axis=0))
    errors = evaluation.squared_errors(estimators.least_squares(prompts, lengths, reads=reads), prompts)
    assert found["least_squares"]["mse"] == pytest.approx(np.median(errors, axis=0))


def test_without_a_curve():
    assert estimator_errors(NOTEBOOK, SMALL.model_copy(update={"curve": None}))["curves"] == {}


def test_without_noise_ridge_is_least_squares():
    found = estimator_errors(NOTEBOOK.model_copy(update={"noise_variance": 0.0}), SMALL)["baselines"]
    assert found["ridge"] == found["least_squares"]
    assert math.isclose(found["ridge"]["mse"], 0.0, abs_tol=1e-9)


@pytest.mark.slow
def test_the_whole_evaluation_takes_seconds():
    start = time.process_time()
    estimator_errors(NOTEBOOK, PromptEvaluation())
    assert time.process_time() - start < 20  # 3 to 4 s on one core

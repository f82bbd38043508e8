"""Published errors of the estimators, and of the kernel estimator at published trained values, on simulated prompts.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734, and an earlier notebook of its authors' setting.
"""

import numpy as np
import pytest

from headway.config.regression import PromptEvaluation, RegressionTask
from headway.data.regression import evaluation_prompts
from headway.icl import estimators, theory
from headway.icl.evaluation import adjusted, debiased_gd_control, squared_errors, summary
from headway.stats.regression import estimator_errors

NOTEBOOK = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
PAPER = RegressionTask(
    kind="regression", d_x=5, n_pairs=40, noise_variance=0.1, beta_variance="1/d_x", noisy_query=True
)
EXACT = {
    "notebook": (
        NOTEBOOK,
        {"gd_eta1": 0.7501, "gd_best": 0.6522, "debiased_gd_best": 0.6667, "ridge": 7.35e-5, "least_squares": 7.35e-5},
    ),
    "paper": (PAPER, {"gd_best": 0.2398, "debiased_gd_best": 0.2429, "ridge": 0.11446}),
}
TRAINED = {  # heads: w, mu, error of the kernel estimator and its standard error
    1: ([-0.5177], [-1.5523], 1.4315, 0.0009),
    2: ([-0.1393, 0.1420], [-3.1719, 3.1868], 0.6677, 0.00005),
    4: ([-0.1372, -0.1388, 0.1422, 0.1343], [-1.1908, -2.0372, 2.7210, 0.4412], 0.6681, 0.00005),
    8: (
        [-0.1396, 0.1393, -0.1417, 0.1296, -0.0013, -0.1396, -0.1350, 0.0092],
        [-0.7766, 2.9165, -1.2395, 0.2509, 0.0, -0.8720, -0.3324, -0.0010],
        0.6680,
        0.00005,
    ),
}


@pytest.fixture(scope="module")
def prompts():
    return evaluation_prompts(NOTEBOOK, 100_000)


@pytest.fixture(scope="module")
def control(prompts):
    return debiased_gd_control(prompts, NOTEBOOK)


@pytest.mark.parametrize("setting", EXACT)
def test_baselines_lie_within_four_standard_errors_of_their_exact_values(setting):
    task, exact = EXACT[setting]
    found = estimator_errors(task, PromptEvaluation(curve=None))["baselines"]
    for name, value in exact.items():
        assert abs(found[name]["mse"] - value) < 4 * found[name]["se"], name


@pytest.mark.parametrize("setting", EXACT)
def test_exact_risks_to_the_published_digits(setting):
    task, exact = EXACT[setting]
    unit, reads = np.eye(5)[None, None], task.read_mask()
    steps = {
        "gd_eta1": (unit, False),
        "gd_best": (estimators.step_matrices(theory.best_eta(task, debiased=False), reads), False),
        "debiased_gd_best": (estimators.step_matrices(theory.best_eta(task, debiased=True), reads), True),
    }
    for name in exact.keys() & steps.keys():
        matrices, debiased = steps[name]
        assert theory.gd_risk(task, matrices, debiased=debiased)[0] == pytest.approx(exact[name], abs=5e-5), name
    if "least_squares" in exact:
        assert theory.least_squares_risk(task)[0] == pytest.approx(exact["least_squares"], abs=5e-8)


@pytest.mark.parametrize("n_heads", TRAINED)
def test_trained_values_through_the_kernel_estimator(n_heads, prompts, control):
    w, mu, published, published_se = TRAINED[n_heads]
    errors = squared_errors(estimators.kernel(prompts, np.array(w), np.array(mu)), prompts)[:, 0]
    mse, se = adjusted(errors, control)
    assert abs(mse - published) < 4 * np.hypot(se, published_se + 5e-5)
    if n_heads > 1:
        # Control variates take the standard error from .0046 to .0005, and below.
        assert summary(errors).se == pytest.approx(0.0046, abs=0.0003)
        assert se < 0.0006
        assert 0.985 < errors.mean() / control.errors.mean() < 1.03

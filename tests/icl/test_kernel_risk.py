"""The reduced simulation of kernel heads against whole prompts, and its optima against their neighbours."""

import numpy as np
import pytest

from headway.config.regression import Power, RegressionTask
from headway.data.regression import tuning_prompts
from headway.errors import UserError
from headway.icl import estimators
from headway.icl.evaluation import adjusted, debiased_gd_control, squared_errors
from headway.icl.kernel_risk import KernelRisk

NOTEBOOK = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
PAPER = RegressionTask(
    kind="regression", d_x=3, n_pairs=20, noise_variance=0.4, beta_variance="1/d_x", noisy_query=True
)


@pytest.mark.parametrize("task", [NOTEBOOK, PAPER], ids=["notebook", "paper"])
@pytest.mark.parametrize(("w", "mu"), [([0.5], [1.5]), ([0.14, -0.14], [3.2, -3.1]), ([0.2, -0.1, 1.9], [1, -2, 0.05])])
def test_the_reduced_risk_is_that_on_prompts(task, w, mu):
    w, mu = np.array(w), np.array(mu, dtype=float)
    reduced = KernelRisk.of(task, 20_000).risk(w, mu)
    prompts = tuning_prompts(task, 40_000)
    errors = squared_errors(estimators.kernel(prompts, w, mu), prompts)[:, 0]
    whole = adjusted(errors, debiased_gd_control(prompts, task))
    assert abs(reduced.mse - whole.mse) < 4 * np.hypot(reduced.se, whole.se)


@pytest.mark.parametrize("w", [[0.5], [0.14, -0.14], [0.2, -0.1, 1.9]])
def test_best_mu_is_better_than_its_neighbours(w):
    risk = KernelRisk.of(PAPER, 5_000)
    w = np.array(w)
    mu = risk.best_mu(w)

    def plain(mu):
        return risk._risks(sum(m * risk._softmax(a) for a, m in zip(w, mu, strict=True))).mean()

    for h in range(len(w)):
        for nudge in (-0.01, 0.01):
            assert plain(mu + nudge * np.eye(len(w))[h]) > plain(mu)


def test_draws_depend_on_the_task_alone():
    heads = np.array([0.3]), np.array([1.0])
    assert KernelRisk.of(PAPER, 1_000).risk(*heads) == KernelRisk.of(PAPER, 1_000).risk(*heads)


@pytest.mark.parametrize(
    "change", [{"covariance": Power(kind="power", rho=0.5)}, {"d_y": 2}, {"reads": ((0, 1),)}], ids=str
)
def test_tasks_that_do_not_reduce(change):
    with pytest.raises(
        UserError, match=r"only for isotropic tasks with one output that depends on all of x; estimate it with"
    ):
        KernelRisk.of(NOTEBOOK.model_copy(update=change))

"""Gradients against finite differences, exact risks against simulation, optima against their neighbours."""

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.config.regression import Identity, Power, RegressionTask
from headway.data.regression import tuning_prompts
from headway.errors import UserError
from headway.icl import estimators, theory
from headway.icl.evaluation import squared_errors, summary
from headway.icl.theory import EffectiveLoss

BASE = {"kind": "regression", "d_x": 5, "n_pairs": 40}
TASKS = {
    "notebook": RegressionTask(**BASE, noise_variance=0.0005),
    "paper": RegressionTask(**BASE, noise_variance=0.1, beta_variance="1/d_x", noisy_query=True),
    "correlated": RegressionTask(
        **BASE, noise_variance=0.5, noisy_query=True, covariance=Power(kind="power", rho=0.8), beta_variance=2.0
    ),
    "two outputs": RegressionTask(
        kind="regression",
        d_x=6,
        d_y=2,
        n_pairs=48,
        noise_variance=0.4,
        reads=((0, 1, 2), (1, 2, 3, 4, 5)),
        covariance=Power(kind="power", rho=-0.5),
    ),
}
LENGTHS = (1, 2, 5, 20, 40)


@pytest.fixture(params=TASKS, ids=list(TASKS))
def task(request):
    return TASKS[request.param]


@pytest.fixture
def effective():
    return EffectiveLoss(d_x=5, n_pairs=40, noise=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("debiased", [False, True])
def test_exact_risks_are_the_simulated_ones(task, debiased):
    prompts = tuning_prompts(task, 40_000)
    odd = np.random.default_rng(0).normal(size=(task.d_y, task.d_x, task.d_x)) * 0.4
    masks = task.read_mask()
    odd *= masks[:, :, None] & masks[:, None, :]
    matrices = {
        "plain": estimators.step_matrices(theory.best_eta(task, LENGTHS, debiased=debiased), masks),
        "best": theory.best_preconditioner(task, LENGTHS, debiased=debiased),
        "not symmetric": np.broadcast_to(odd, (len(LENGTHS), *odd.shape)),
    }
    for name, steps in matrices.items():
        predictions = estimators.preconditioned_gd(prompts, steps, LENGTHS, debiased=debiased)
        errors = squared_errors(predictions, prompts)
        exact = theory.gd_risk(task, steps, LENGTHS, debiased=debiased)
        for k in range(len(LENGTHS)):
            mse, se = summary(errors[:, k])
            assert abs(mse - exact[k]) < 4 * se, (name, LENGTHS[k], mse, se, exact[k])


@pytest.mark.parametrize("debiased", [False, True])
def test_best_steps_are_better_than_their_neighbours(task, debiased):
    def risk(matrices):
        return theory.gd_risk(task, matrices, LENGTHS[1:], debiased=debiased)

    masks = task.read_mask()
    eta = theory.best_eta(task, LENGTHS[1:], debiased=debiased)
    best = risk(estimators.step_matrices(eta, masks))
    for factor in (0.98, 1.02):
        assert (risk(estimators.step_matrices(factor * eta, masks)) > best).all()
    matrices = theory.best_preconditioner(task, LENGTHS[1:], debiased=debiased)
    best = risk(matrices)
    generator = np.random.default_rng(1)
    for _ in range(20):
        nudge = generator.normal(size=matrices.shape) * 0.01 * (masks[:, :, None] & masks[:, None, :])
        assert (risk(matrices + nudge) > best).all()


@pytest.mark.parametrize("name", ["notebook", "paper"])
@pytest.mark.parametrize("debiased", [False, True])
def test_isotropic_formulas_as_published(name, debiased):
    task = TASKS[name]
    d, n_pairs, q = 5, 40, task.noisy_query
    signal = d * task.variance_of_beta
    s2 = task.noise_variance / signal
    eta = n_pairs / (n_pairs + d + (not debiased) + d * s2)
    published = signal * (q * s2 + 1 - eta * ((1 - 1 / n_pairs) if debiased else 1))
    found = theory.best_eta(task, debiased=debiased)
    assert found == pytest.approx(eta)
    preconditioner = theory.best_preconditioner(task, debiased=debiased)
    assert_same(preconditioner[0, 0], eta * np.eye(d))
    assert theory.gd_risk(task, preconditioner, debiased=debiased) == pytest.approx(published)


def test_noiseless_gd_at_any_step():
    task = RegressionTask(**BASE)
    for eta in (0.0, 0.3, 1.0, 1.7):
        matrices = estimators.step_matrices(eta, task.read_mask())
        published = 5 * ((1 - eta) ** 2 + eta**2 * 6 / 40)
        assert theory.gd_risk(task, matrices, debiased=False) == pytest.approx(published)


def test_the_preconditioner_tends_to_the_inverse_covariance():
    task = TASKS["correlated"]
    best = theory.best_preconditioner(task, [10**8], debiased=True)[0, 0]
    np.testing.assert_allclose(best @ task.covariance_matrix(), np.eye(5), atol=1e-5)


def test_least_squares_risk(task):
    prompts = tuning_prompts(task, 40_000)
    errors = squared_errors(estimators.least_squares(prompts, [15, 40], reads=task.read_mask()), prompts)
    for k, exact in enumerate(theory.least_squares_risk(task, [15, 40])):
        mse, se = summary(errors[:, k])
        assert abs(mse - exact) < 4 * se
    assert np.isinf(theory.least_squares_risk(task, [4, 5, 6])).all()


def test_proportional_risks_are_limits():
    noise, ratio = 3.0, 0.2
    for d, tolerance in ((50, 2e-3), (300, 3e-4)):
        task = RegressionTask(
            kind="regression",
            d_x=d,
            n_pairs=round(d / ratio),
            noise_variance=noise,
            beta_variance="1/d_x",
            noisy_query=True,
        )
        matrices = estimators.step_matrices(theory.best_eta(task, debiased=False), task.read_mask())
        exact = theory.gd_risk(task, matrices, debiased=False)[0]
        assert exact == pytest.approx(theory.proportional_gd_risk(ratio, noise), abs=tolerance)
    # Ridge: v E tr (X^T X + v d I)^-1 beyond the query's noise, from one large draw of X.
    x = np.random.default_rng(0).normal(size=(1250, 250))
    variances = np.linalg.eigvalsh(x.T @ x)
    assert noise + np.sum(noise / (variances + noise * 250)) == pytest.approx(
        theory.proportional_bayes_risk(ratio, noise), abs=5e-3
    )
    assert theory.proportional_bayes_risk(ratio, noise) < theory.proportional_gd_risk(ratio, noise)


@pytest.mark.parametrize("n_heads", [1, 2, 5])
def test_gradients_by_finite_differences(effective, n_heads):
    generator = np.random.default_rng(n_heads)
    w, mu = generator.normal(size=(2, n_heads)) * 0.5
    by_w, by_mu = effective.gradients(w, mu)
    for gradient, at in ((by_w, w), (by_mu, mu)):
        for h in range(n_heads):
            value = at[h]
            at[h] = value + 1e-6
            above = effective.loss(w, mu)
            at[h] = value - 1e-6
            below = effective.loss(w, mu)
            at[h] = value
            assert gradient[h] == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-8)


def test_best_mu_is_stationary_even_with_equal_w(effective):
    for w in ([0.3, -0.2, 0.7], [0.3, 0.3], [0.3, -0.3, 0.3, -0.3]):
        w = np.array(w)
        mu = effective.best_mu(w)
        assert_same(effective.gradients(w, mu)[1], 0.0, scale=1.0)
    # Of all mu that are as good, the one of least norm: equal heads share equally.
    assert mu == pytest.approx([mu[0], -mu[0], mu[0], -mu[0]])


def test_one_head_stands_at_its_minimum(effective):
    w, mu = effective.one_head()
    assert_same(np.concatenate(effective.gradients(w, mu)), 0.0, scale=1.0)
    assert effective.best_mu(w) == pytest.approx(mu)
    for factor in (0.98, 1.02):
        assert effective.loss(factor * w, effective.best_mu(factor * w)) > effective.loss(w, mu)


def test_two_heads_fall_into_a_flat_valley(effective):
    losses = [effective.loss(w, effective.best_mu(w)) for w in (np.array([c, -c]) for c in (0.2, 0.1, 0.05, 0.01))]
    assert (np.diff(losses) < 0).all()
    assert losses[-1] == pytest.approx(effective.valley_loss(), abs=1e-5)
    w = np.array([0.02, -0.01])
    mu = effective.best_mu(w)
    assert mu @ w == pytest.approx(effective.eta, abs=1e-3)
    assert abs(mu.sum()) < 0.01 * np.abs(mu).sum()


def test_gradient_flow_follows_mu_star_along_the_valley(effective):
    start = theory.small_start(2)
    flow = theory.gradient_flow(effective, start, start, steps=8_000, every=100)
    assert flow.time[[0, 1, -1]] == pytest.approx([0, 1, 80])
    assert flow.w.shape == flow.mu.shape == (81, 2)
    assert (np.diff(flow.loss) < 0).all()
    np.testing.assert_allclose(flow.mu.sum(axis=1), 0, atol=1e-9)
    assert flow.mu[-1] == pytest.approx(effective.best_mu(flow.w[-1]), rel=0.02)
    assert flow.loss[-1] == pytest.approx(effective.valley_loss(), abs=6e-3)


def test_gradient_flow_keeps_the_last_step():
    effective = EffectiveLoss(d_x=5, n_pairs=40, noise=0.0)
    flow = theory.gradient_flow(effective, np.array([0.1]), np.array([0.1]), steps=25, every=10)
    assert flow.time == pytest.approx([0, 0.1, 0.2, 0.25])


def test_effective_loss_of_a_task():
    effective = EffectiveLoss.of(TASKS["notebook"])
    assert effective.noise == pytest.approx(0.0001)
    # Clean query, beta ~ N(0, I): d times the loss, without the noise of the query.
    assert theory.effective_risk(TASKS["notebook"], effective.valley_loss()) == pytest.approx(5 * (1 - effective.eta))
    paper = EffectiveLoss.of(TASKS["paper"])
    assert theory.effective_risk(TASKS["paper"], paper.valley_loss()) == pytest.approx(paper.valley_loss())
    two = TASKS["two outputs"].model_copy(update={"covariance": Identity(kind="identity")})
    assert [EffectiveLoss.of(two, k).d_x for k in range(2)] == [3, 5]


def test_no_effective_loss_for_correlated_coordinates():
    with pytest.raises(UserError, match=r"covariance 'power', but it holds for x ~ N\(0, I\) only; use best_precond"):
        EffectiveLoss.of(TASKS["correlated"])

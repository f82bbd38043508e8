"""Standard errors and intervals must cover, and controls must not bias."""

import numpy as np
import pytest
from support.tolerance import assert_same, nearly

from headway.base import rng
from headway.config.regression import Power, RegressionTask
from headway.data.regression import draw, evaluation_prompts
from headway.icl import estimators, evaluation
from headway.icl.evaluation import Control

TASK = RegressionTask(kind="regression", d_x=5, n_pairs=40, noise_variance=0.0005)
TWO = RegressionTask(
    kind="regression", d_x=6, d_y=2, n_pairs=48, noise_variance=0.4, reads=((0, 1, 2, 3), (2, 3, 4, 5))
)
CORRELATED = TASK.model_copy(update={"covariance": Power(kind="power", rho=0.7), "noisy_query": True})
PAPER = RegressionTask(
    kind="regression", d_x=5, n_pairs=40, noise_variance=0.1, beta_variance="1/d_x", noisy_query=True
)


def test_squared_errors_average_outputs():
    prompts = evaluation_prompts(TWO, 4)
    predictions = prompts.y_query[:, None] + np.array([[1, 0], [1, 3]], np.float32)
    assert_same(evaluation.squared_errors(predictions, prompts), [[0.5, 5.0]] * 4, dtype=np.float32)


def test_summary():
    errors = np.random.default_rng(0).exponential(size=1000)
    mse, se = evaluation.summary(errors)
    assert mse == errors.mean()
    assert se == nearly(errors.std(ddof=1) / np.sqrt(1000))
    assert np.isnan(evaluation.summary(errors[:1]).se)


@pytest.mark.parametrize("task", [TASK, TWO, CORRELATED, PAPER], ids=["notebook", "two", "correlated", "paper"])
def test_the_control_has_its_exact_expectation(task):
    control = evaluation.debiased_gd_control(evaluation_prompts(task, 40_000), task)
    mse, se = evaluation.summary(control.errors)
    assert abs(mse - control.expected) < 4 * se
    assert evaluation.adjusted(control.errors, control) == nearly((control.expected, 0))


def test_adjusting_removes_luck_and_keeps_the_mean():
    w, mu = np.array([-0.1393, 0.1420]), np.array([-3.1719, 3.1868])
    plain, better = [], []
    for step in range(30):
        prompts = draw(TASK, key=rng.key(5, "test"), step=step, batch_size=2_000)
        errors = evaluation.squared_errors(estimators.kernel(prompts, w, mu), prompts)[:, 0]
        plain.append(evaluation.summary(errors))
        better.append(evaluation.adjusted(errors, evaluation.debiased_gd_control(prompts, TASK)))
    mean, spread = np.mean([b.mse for b in better]), np.std([b.mse for b in better], ddof=1)
    assert abs(mean - 0.6677) < 4 * spread / np.sqrt(30)
    # The stated standard error is that seen over repetitions, and several times below the plain one.
    assert spread == pytest.approx(np.mean([b.se for b in better]), rel=0.5)
    assert np.mean([b.se for b in better]) < np.mean([p.se for p in plain]) / 5


def test_a_control_that_never_varies_changes_nothing():
    errors = np.arange(5.0)
    assert evaluation.adjusted(errors, Control(errors=np.ones(5), expected=3.0)) == evaluation.summary(errors)


def test_length_curves_cover_the_mean():
    generator = np.random.default_rng(1)
    covered = np.zeros(3)
    for _ in range(200):
        curve = evaluation.length_curve(generator.exponential([1.0, 2.0, 3.0], size=(300, 3)), 200)
        covered += (np.array(curve["low"]) < [1, 2, 3]) & (np.array(curve["high"]) > [1, 2, 3])
    assert (covered / 200 > 0.88).all()
    assert (covered / 200 < 0.99).all()


def test_median_curves_are_the_limit_of_resampled_medians():
    errors = np.random.default_rng(2).exponential(size=(501, 2)) ** 3
    curve = evaluation.length_curve(errors, statistic="median")
    np.testing.assert_array_equal(curve["mse"], np.median(errors, axis=0))
    picks = np.random.default_rng(3).integers(501, size=(4_000, 501))
    resampled = np.percentile(np.median(errors[picks], axis=1), [2.5, 97.5], axis=0)
    ranked = np.sort(errors, axis=0)
    for k in range(2):
        ends = np.searchsorted(ranked[:, k], [curve["low"][k], curve["high"][k]])
        np.testing.assert_allclose(np.searchsorted(ranked[:, k], resampled[:, k]), ends, atol=2)


def test_curves_repeat_and_share_their_resamples():
    errors = np.random.default_rng(4).exponential(size=(200, 2))
    first, second = evaluation.length_curve(errors), evaluation.length_curve(2 * errors)
    assert first == evaluation.length_curve(errors)
    assert_same(2 * np.array(first["low"]), second["low"])
    assert all(isinstance(value, float) for value in first["high"])

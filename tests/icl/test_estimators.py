"""Every estimator against a slow, obvious float64 version of itself, one prompt and one length at a time."""

import tracemalloc

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.base import rng
from headway.config.regression import Power, RegressionTask
from headway.data.regression import Prompts, draw, tuning_prompts
from headway.errors import UserError
from headway.icl import estimators, theory

LENGTHS = (1, 3, 4, 5, 6, 17, 40)


def task_of(d_x=5, d_y=1, **more):
    settings = {"kind": "regression", "d_x": d_x, "d_y": d_y, "n_pairs": 40, "noise_variance": 0.3}
    return RegressionTask(**{**settings, **more})


TASKS = {
    "one coordinate": task_of(1),
    "isotropic": task_of(5),
    "anisotropic": task_of(5, covariance=Power(kind="power", rho=0.6)),
    "two outputs": task_of(6, 2, reads=((0, 1, 2, 3), (2, 3, 4, 5))),
    "uneven outputs": task_of(5, 3, reads=((0,), (1, 2, 4), (0, 1, 2, 3, 4))),
}


@pytest.fixture(params=TASKS, ids=list(TASKS))
def task(request):
    return TASKS[request.param]


def prompts_of(task, n=12, n_pairs=40):
    return draw(task, key=rng.key(7, "test"), step=0, batch_size=n, n_pairs=n_pairs)


def slowly(prompts, lengths, predict):
    """predict(x, y, x_query) -> (d_y,), called on the first pairs of each prompt, in float64."""
    x, y, x_query = (a.astype(np.float64) for a in (prompts.x, prompts.y, prompts.x_query))
    return np.array([[predict(x[i, :n], y[i, :n], x_query[i]) for n in lengths] for i in range(len(x))])


def slow_attention(qk, ov, kind):
    def predict(x, y, x_query):
        z = np.concatenate([x, y], axis=1)
        z_query = np.concatenate([x_query, np.zeros(y.shape[1])])
        total = np.zeros(len(ov[0]))
        for scores_of, values_of in zip(qk, ov, strict=True):
            scores = z @ scores_of @ z_query
            if kind == "softmax":
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
            else:
                weights = scores / (len(z) if kind == "linear-mean" else 1)
            total += values_of @ z.T @ weights
        return total

    return predict


def per_output(reads, predict):
    """predict(x, y, x_query) -> float on the coordinates that an output reads."""
    return lambda x, y, x_query: np.array([predict(x[:, mask], y[:, k], x_query[mask]) for k, mask in enumerate(reads)])


def slow_ridge(penalty):
    return lambda x, y, q: q @ np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


def slow_least_squares(x, y, q):
    return q @ np.linalg.lstsq(x, y, rcond=None)[0]


def slow_gd(eta, debiased):
    return lambda x, y, q: eta / len(x) * sum(y[i] * (x[i] - debiased * x.mean(axis=0)) @ q for i in range(len(x)))


def random_circuits(task, n_heads, scale):
    generator = np.random.default_rng(3)
    size = task.d_token
    return scale * generator.normal(size=(n_heads, size, size)), generator.normal(size=(n_heads, task.d_y, size))


@pytest.mark.parametrize("kind", ["softmax", "linear-mean", "linear-sum"])
@pytest.mark.parametrize("n_heads", [1, 3])
def test_attention_is_the_slow_one(task, kind, n_heads):
    prompts = prompts_of(task)
    qk, ov = random_circuits(task, n_heads, scale=0.3)
    fast = estimators.attend(prompts, qk, ov, kind, LENGTHS)
    slow = slowly(prompts, LENGTHS, slow_attention(qk, ov, kind))
    assert fast.shape == (12, len(LENGTHS), task.d_y)
    assert_same(fast, slow, dtype=np.float32)


@pytest.mark.parametrize("scale", [20.0, 1e3])
@pytest.mark.parametrize("order", [1, -1])
def test_softmax_survives_logits_far_below_and_above_all_others(scale, order):
    # Scores ascend or descend along the prompt by thousands: with a maximum over all pairs, and scores ascending,
    # every weight of a short prompt would be 0/0.
    task = TASKS["isotropic"]
    prompts = prompts_of(task)
    along = np.argsort(order * np.einsum("nld,nd->nl", prompts.x, prompts.x_query), axis=1)
    sort = {name: np.take_along_axis(getattr(prompts, name), along[..., None], axis=1) for name in ("x", "y")}
    prompts = Prompts(**sort, x_query=prompts.x_query, y_query=prompts.y_query, beta=prompts.beta)
    qk, ov = estimators.kernel_circuits(np.array([scale, -0.2]), np.array([1.0, 0.5]), task.read_mask())
    with np.errstate(all="raise", under="ignore"):
        fast = estimators.attend(prompts, qk, ov, "softmax", LENGTHS)
    slow = slowly(prompts, LENGTHS, slow_attention(qk, ov, "softmax"))
    np.testing.assert_allclose(fast, slow, atol=2e-3 if scale < 100 else 0.1)
    assert np.median(np.abs(fast - slow)) < 1e-5


@pytest.mark.parametrize("kind", ["softmax", "linear-mean", "linear-sum"])
def test_kernel_of_one_output(kind):
    task = TASKS["isotropic"]
    prompts = prompts_of(task)
    w, mu = np.array([0.5, -0.2, 0.0]), np.array([1.5, -3.0, 0.7])

    def predict(x, y, q):
        scores = x @ q
        shares = {"softmax": [np.exp(a * scores) / np.exp(a * scores).sum() for a in w]}.get(
            kind, [a * scores / (len(x) if kind == "linear-mean" else 1) for a in w]
        )
        return np.array([sum(m * share @ y[:, 0] for m, share in zip(mu, shares, strict=True))])

    fast = estimators.kernel(prompts, w, mu, kind, LENGTHS)
    assert_same(fast, slowly(prompts, LENGTHS, predict), dtype=np.float32)


def test_kernel_of_several_outputs_reads_each_outputs_coordinates():
    task = TASKS["two outputs"]
    prompts = prompts_of(task)
    w, mu = np.array([[0.4, 0.1], [-0.3, 0.2]]), np.array([[1.0, 0.5], [-1.0, 2.0]])
    fast = estimators.kernel(prompts, w, mu, "softmax", LENGTHS, reads=task.read_mask())
    for k, coordinates in enumerate(task.reads):
        at = list(coordinates)
        alone = Prompts(
            x=np.ascontiguousarray(prompts.x[..., at]),
            y=prompts.y[..., [k]],
            x_query=prompts.x_query[:, at],
            y_query=prompts.y_query[:, [k]],
            beta=prompts.beta[:, [k]][..., at],
        )
        expected = estimators.kernel(alone, w[:, k], mu[:, k], "softmax", LENGTHS)
        assert_same(fast[..., [k]], expected, dtype=np.float32)


def test_two_opposite_heads_of_small_w_are_debiased_gradient_descent():
    prompts = prompts_of(TASKS["isotropic"], n_pairs=200)
    w = np.array([0.01, -0.01])
    heads = estimators.kernel(prompts, w, 0.9 / (2 * w), "softmax", [200])
    np.testing.assert_allclose(heads, estimators.debiased_gd(prompts, 0.9, [200]), atol=0.02)


@pytest.mark.parametrize("debiased", [False, True])
def test_gradient_descent(task, debiased):
    prompts = prompts_of(task)
    fast = (estimators.debiased_gd if debiased else estimators.gd)(prompts, 0.7, LENGTHS, reads=task.read_mask())
    slow = slowly(prompts, LENGTHS, per_output(task.read_mask(), slow_gd(0.7, debiased)))
    assert_same(fast, slow)


def test_eta_may_differ_by_output_and_by_length():
    task = TASKS["two outputs"]
    prompts, reads = prompts_of(task), task.read_mask()
    unit = estimators.gd(prompts, 1.0, LENGTHS, reads=reads)
    by_output = np.array([0.5, 2.0])
    assert_same(estimators.gd(prompts, by_output, LENGTHS, reads=reads), unit * by_output, dtype=np.float32)
    by_both = np.linspace(0.1, 2.0, 2 * len(LENGTHS)).reshape(-1, 2)
    assert_same(estimators.gd(prompts, by_both, LENGTHS, reads=reads), unit * by_both, dtype=np.float32)


def test_preconditioned_gradient_descent_whitens():
    task = TASKS["anisotropic"]
    prompts = prompts_of(task)
    inverse = np.linalg.inv(task.covariance_matrix())
    fast = estimators.preconditioned_gd(prompts, 0.7 * inverse[None, None], LENGTHS, debiased=True)
    slow = slowly(prompts, LENGTHS, lambda x, y, q: np.array([slow_gd(0.7, True)(x, y[:, 0], inverse @ q)]))
    assert_same(fast, slow)


@pytest.mark.parametrize("penalty", [1e-4, 0.3, 10.0])
def test_ridge(task, penalty):
    prompts = prompts_of(task)
    fast = estimators.ridge(prompts, penalty, LENGTHS, reads=task.read_mask())
    slow = slowly(prompts, LENGTHS, per_output(task.read_mask(), slow_ridge(penalty)))
    assert_same(fast, slow, dtype=np.float32)


def test_least_squares_is_of_minimum_norm_below_d(task):
    prompts = prompts_of(task)
    fast = estimators.least_squares(prompts, LENGTHS, reads=task.read_mask())
    slow = slowly(prompts, LENGTHS, per_output(task.read_mask(), slow_least_squares))
    assert_same(fast, slow, dtype=np.float32)


def test_ridge_without_penalty_is_its_limit():
    prompts = prompts_of(task_of(5, noise_variance=0.0))
    limit = estimators.ridge(prompts, 1e-7, [3, 20])
    np.testing.assert_allclose(estimators.ridge(prompts, 0.0, [3, 20]), limit, atol=1e-4)


def test_tuned_eta_is_best_on_its_prompts_and_near_theory(task):
    prompts, reads = tuning_prompts(task, 20_000), task.read_mask()
    for debiased, predict in ((False, estimators.gd), (True, estimators.debiased_gd)):
        eta = estimators.tuned_eta(prompts, [10, 40], debiased=debiased, reads=reads)
        p = predict(prompts, eta, [10, 40], reads=reads)
        residual = prompts.y_query[:, None] - p
        np.testing.assert_allclose(np.einsum("nlk,nlk->lk", residual, p) / len(p), 0, atol=1e-6)
        np.testing.assert_allclose(eta, theory.best_eta(task, [10, 40], debiased=debiased), rtol=0.05)


def test_the_longest_prompt_is_the_default_and_chunks_leave_no_trace(monkeypatch):
    task = TASKS["isotropic"]
    prompts = prompts_of(task)
    qk, ov = random_circuits(task, 2, 0.3)
    whole = estimators.attend(prompts, qk, ov), estimators.ridge(prompts, 0.3)
    monkeypatch.setattr(estimators, "_CHUNK_BYTES", 20_000)
    parts = estimators.attend(prompts, qk, ov, "softmax", [40]), estimators.ridge(prompts, 0.3, [40])
    assert len(list(estimators.prompt_chunks(prompts))) > 1
    for one, other in zip(whole, parts, strict=True):
        assert one.shape == (12, 1, 1)
        assert_same(one, other, dtype=np.float32)


@pytest.mark.parametrize("lengths", [[], [0, 5], [5, 5], [7, 3], [41]])
def test_lengths_that_prompts_do_not_have(lengths):
    with pytest.raises(UserError, match="give different lengths from 1 to 40, ascending"):
        estimators.gd(prompts_of(TASKS["isotropic"]), 1.0, lengths)


def test_negative_penalty():
    with pytest.raises(UserError, match=r"ridge with penalty -1.0 has no minimum; give 0 or more"):
        estimators.ridge(prompts_of(TASKS["isotropic"]), -1.0)


@pytest.mark.slow
def test_a_long_curve_of_many_heads_fits_in_300_mb():
    task = TASKS["isotropic"]
    prompts = prompts_of(task, n=10_000, n_pairs=500)
    lengths = np.unique(np.geomspace(1, 500, 46).round().astype(int))
    qk, ov = random_circuits(task, 8, 0.1)
    tracemalloc.start()
    estimators.attend(prompts, qk, ov, "softmax", lengths)
    estimators.ridge(prompts, 0.3, lengths)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300e6

"""Prompts of in-context regression: the native bits are the reference's, and they are what is declared."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headway.base import rng
from headway.config.regression import RegressionTask
from headway.data import native, regression
from headway.data.regression import (
    Prompts,
    curve_prompts,
    draw,
    draw_reference,
    evaluation_prompts,
    standard_normals,
    tuning_prompts,
)
from headway.errors import UserError

KEY = rng.key(0, "test of draws")
NATIVE = pytest.mark.parametrize("instruction_set", native.instruction_sets())


def make_task(**changes):
    return RegressionTask.model_validate(
        {"kind": "regression", "d_x": 5, "n_pairs": 40, "noise_variance": 0.1} | changes
    )


TWO_TASKS = {"d_x": 6, "d_y": 2, "n_pairs": 48, "reads": [[0, 1, 2, 3], [2, 3, 4, 5]], "noise_variance": 0.4}
TASKS = {
    "plain": make_task(),
    "noiseless": make_task(noise_variance=0.0),
    "noisy query": make_task(noisy_query=True, beta_variance="1/d_x"),
    "two tasks": make_task(**TWO_TASKS),
    "anisotropic": make_task(covariance={"kind": "power", "rho": 0.6}, beta_variance=2.5),
    "one of each": make_task(d_x=1, n_pairs=1),
    "wide": make_task(d_x=32, d_y=3, n_pairs=7, covariance={"kind": "power", "rho": -0.4}),
}


GOLDEN = [
    "0x1.0ffb500000000p-6",
    "-0x1.a5a1820000000p-1",
    "0x1.1669a60000000p-2",
    "0x1.1267b20000000p+1",
    "0x1.0aa2ea0000000p+3",
]


def bits(prompts: Prompts):
    return {field.name: getattr(prompts, field.name).view(np.uint32) for field in fields(prompts)}


def assert_same_bits(one: Prompts, other: Prompts):
    for name, array in bits(one).items():
        assert np.array_equal(array, bits(other)[name]), name


@NATIVE
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("batch_size", [1, 15, 16, 129])
def test_native_draws_equal_the_reference_bit_for_bit(instruction_set, name, batch_size):
    arguments = {"key": KEY, "step": 2**32 - 1, "batch_size": batch_size}
    drawn = draw(TASKS[name], **arguments, instruction_set=instruction_set)
    assert_same_bits(drawn, draw_reference(TASKS[name], **arguments))


@pytest.mark.slow
@NATIVE
@settings(max_examples=40)
@given(
    d_x=st.integers(1, 32),
    d_y=st.integers(1, 3),
    n_pairs=st.integers(1, 60),
    key=st.integers(0, 2**64 - 1),
    step=st.integers(0, 2**32 - 1),
    batch_size=st.integers(1, 40),
)
def test_native_draws_equal_the_reference_for_any_shape(instruction_set, d_x, d_y, n_pairs, key, step, batch_size):
    task = make_task(d_x=d_x, d_y=d_y, n_pairs=n_pairs)
    arguments = {"key": key, "step": step, "batch_size": batch_size}
    assert_same_bits(draw(task, **arguments, instruction_set=instruction_set), draw_reference(task, **arguments))


def test_the_definition_is_frozen():
    prompts = draw(TASKS["anisotropic"], key=1, step=2, batch_size=3)
    golden = [*prompts.x[2, 39, :3], prompts.y[2, 39, 0], prompts.y_query[1, 0]]
    assert [float(number).hex() for number in golden] == GOLDEN


def test_a_batch_begins_a_larger_one_and_a_prompt_a_longer_one():
    task = TASKS["two tasks"]
    small, large = (draw(task, key=KEY, step=1, batch_size=n) for n in (37, 5_000))
    for name, array in bits(small).items():
        assert np.array_equal(array, bits(large)[name][:37]), name
    longer = draw(task, key=KEY, step=1, batch_size=37, n_pairs=100)
    assert np.array_equal(longer.x[:, :48], small.x)
    assert np.array_equal(longer.y[:, :48], small.y)
    assert np.array_equal(longer.y_query, small.y_query)


def test_the_reference_joins_its_parts_without_a_seam(monkeypatch):
    whole = draw_reference(TASKS["plain"], key=KEY, step=1, batch_size=50)
    monkeypatch.setattr(regression, "AT_ONCE", 7)
    assert_same_bits(whole, draw_reference(TASKS["plain"], key=KEY, step=1, batch_size=50))


def test_tasks_that_differ_in_noise_alone_share_everything_else():
    quiet, loud = (draw(TASKS[name], key=KEY, step=1, batch_size=20) for name in ("noiseless", "plain"))
    assert np.array_equal(quiet.x, loud.x)
    assert np.array_equal(quiet.beta, loud.beta)
    assert np.array_equal(quiet.y_query, loud.y_query)
    assert not np.array_equal(quiet.y, loud.y)


def test_keys_and_steps_and_purposes_give_other_prompts():
    task = TASKS["plain"]
    batches = [
        draw(task, key=KEY, step=1, batch_size=9),
        draw(task, key=KEY, step=2, batch_size=9),
        draw(task, key=KEY + 1, step=1, batch_size=9),
        draw(task, key=KEY ^ (1 << 63), step=1, batch_size=9),
        evaluation_prompts(task, 9),
        curve_prompts(task, 9, 40),
        tuning_prompts(task, 9),
    ]
    distinct = np.unique(np.concatenate([batch.x.ravel() for batch in batches]))
    assert len(distinct) > 0.999 * 7 * 9 * 40 * 5
    assert_same_bits(evaluation_prompts(task, 9), evaluation_prompts(task, 9))
    assert curve_prompts(task, 2, 500).x.shape == (2, 500, 5)


@pytest.mark.parametrize("name", TASKS)
def test_prompts_are_what_the_task_declares(name):
    task = TASKS[name]
    prompts = draw(task, key=KEY, step=0, batch_size=20_000)
    clean = np.einsum("pkj,plj->plk", prompts.beta, prompts.x)
    noise = (prompts.y - clean).ravel()
    query_noise = (prompts.y_query - np.einsum("pkj,pj->pk", prompts.beta, prompts.x_query)).ravel()
    n = 20_000
    assert np.var(noise) == pytest.approx(task.noise_variance, rel=5 * (2 / n) ** 0.5, abs=1e-9)
    assert np.var(query_noise) == pytest.approx(
        task.noise_variance * task.noisy_query, rel=5 * (2 / n) ** 0.5, abs=1e-9
    )
    reads = task.read_mask()
    assert not prompts.beta[:, ~reads].any()
    assert np.var(prompts.beta[:, reads]) == pytest.approx(task.variance_of_beta, rel=5 * (2 / n) ** 0.5)
    both = np.concatenate([prompts.x.reshape(-1, task.d_x)[:n], prompts.x_query])
    np.testing.assert_allclose(both.T @ both / len(both), task.covariance_matrix(), atol=5 * (2 / len(both)) ** 0.5)


@pytest.mark.slow
def test_normals_pass_moment_and_distribution_tests_on_ten_million():
    z = draw(make_task(d_x=10, n_pairs=1_000), key=KEY, step=3, batch_size=1_000).x.ravel().astype(float)
    n = len(z)
    assert n == 10_000_000
    # Four standard errors of each moment of a standard normal.
    for power, mean, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10_170)]:
        assert np.mean(z**power) == pytest.approx(mean, abs=4 * (variance / n) ** 0.5), power
    assert stats.kstest(z, "norm").pvalue > 1e-3
    tails = [(np.abs(z) > t).sum() for t in (3, 4, 5)]
    for count, t in zip(tails, (3, 4, 5), strict=True):
        expected = 2 * n * stats.norm.sf(t)
        assert count == pytest.approx(expected, abs=4 * expected**0.5), t
    assert np.abs(z).max() < 6.7


def correlation(a, b):
    return np.mean(a.astype(float) * b.astype(float)) * a.size**0.5  # a standard normal when they are independent


@pytest.mark.slow
def test_neighbouring_lanes_steps_keys_and_numbers_are_independent():
    task = make_task(d_x=10, n_pairs=1_000)
    z, next_step, next_key = (
        draw(task, key=key, step=step, batch_size=1_000).x.reshape(1_000, -1) for key, step in [(5, 7), (5, 8), (6, 7)]
    )
    pairs = {
        "next step": (z, next_step),
        "next key": (z, next_key),
        **{f"lane +{lag}": (z[:-lag], z[lag:]) for lag in (1, 2, 4, 8, 16)},
        **{f"number +{lag}": (z[:, :-lag], z[:, lag:]) for lag in (1, 2, 3, 4, 5, 10)},
    }
    for name, (a, b) in pairs.items():
        assert abs(correlation(a, b)) < 4.5, name
        assert abs(correlation(a**2 - 1, b**2 - 1)) / 2 < 4.5, f"squares, {name}"


@pytest.mark.slow
def test_first_numbers_of_neighbouring_examples_and_steps_are_normal():
    """A weak seeding shows in the first outputs: one number of each of many generators."""
    examples = np.arange(200_000, dtype=np.uint32)
    first = standard_normals(0, 0, examples, 2)
    steps = np.concatenate([standard_normals(0, step, examples[:50], 2) for step in range(2_000)])
    for z in (*first.T, *steps.T):
        assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(correlation(*first.T)) < 4.5


def test_global_generators_are_untouched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    draw(TASKS["plain"], key=KEY, step=1, batch_size=4)
    draw_reference(TASKS["plain"], key=KEY, step=1, batch_size=4)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_without_native_code_the_reference_draws(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: None)
    drawn = draw(TASKS["plain"], key=KEY, step=1, batch_size=4)
    assert_same_bits(drawn, draw_reference(TASKS["plain"], key=KEY, step=1, batch_size=4))


@pytest.mark.parametrize("step", [-1, 2**32])
def test_a_step_out_of_range_is_refused(step):
    with pytest.raises(UserError, match=f"step {step} has no data.*take a step in that range"):
        draw(TASKS["plain"], key=KEY, step=step, batch_size=1)

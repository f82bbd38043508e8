"""The figure of what a second head is worth: ratios of medians beside theory, and the sentence."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from headway.config.kinds import parse_run
from headway.config.regression import RegressionTask
from headway.report.regression.theory import Worth, _median, nearer, worth_statement, worths_of
from headway.report.regression.theory import second_head as figure_of


def arm_of(d, n, heads, errors, noise=0.0):
    """As much of `ArmResults` as the figure reads."""
    task = {"kind": "regression", "d_x": d, "n_pairs": n, "noise_variance": noise}
    training = {"optimizer": "adam", "learning_rate": 0.001, "batch_size": 8, "steps": 10}
    model = {"family": "icl", "n_heads": heads, "n_out": 1}
    run = SimpleNamespace(spec=parse_run({"task": task, "model": model, "training": training, "seed": 0}))
    values = {"eval_mse_adjusted": dict(enumerate(errors))}
    shown = SimpleNamespace(run=run)
    return SimpleNamespace(label=f"{d} {n} {heads}", control=None, shown=shown, by_seed=values.__getitem__)


@pytest.fixture
def material():
    errors = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0]
    arms = (
        arm_of(5, 40, 1, [2.15 * e for e in errors]),
        arm_of(5, 40, 2, errors),
        arm_of(5, 200, 1, [2.8 * e for e in errors[:-1]] + [1.0]),  # one that did not move
        arm_of(5, 200, 2, errors),
        arm_of(5, 40, 1, errors, noise=1.0),
        arm_of(2, 40, 2, errors),
    )
    return SimpleNamespace(arms=arms)


def test_tasks_with_one_and_with_two_heads_are_told_by_the_median_ratio(material):
    first, second = worths_of(material)
    assert (first.task.n_pairs, second.task.n_pairs) == (40, 200)
    assert first.found == pytest.approx(2.15)
    assert second.found == pytest.approx(2.8)
    assert second.low == pytest.approx(1.0)
    assert second.high == pytest.approx(2.8)
    assert first.effective == pytest.approx(2.2825, abs=1e-3)
    assert first.exact == pytest.approx(2.15, abs=0.1)


def test_the_sentence_counts_tasks_by_theory(material):
    (statement,) = worth_statement(material)
    assert statement.sentence.startswith(
        "At d = 5 and 200 pairs, the error of one head is 2.80 times that of two heads (1.00 to 2.80). "
    )
    assert statement.sentence.endswith(
        "effective loss predicts 2.61. By 95 % intervals, 1 of 2 tasks are nearer to the exact risk, 0 to the "
        "effective loss, and 1 not clearly to either"
    ), statement.sentence


def test_the_figure_says_what_it_tends_to(material):
    figure = figure_of(material)
    assert {row["dimension"] for rows in figure.spec["datasets"].values() for row in rows if "dimension" in row} == {
        "d = 5 (long prompts: 3.19)"
    }
    assert figure.spec["layer"]


def test_one_task_makes_no_figure(material):
    assert figure_of(SimpleNamespace(arms=material.arms[:2])) is None
    assert worth_statement(SimpleNamespace(arms=material.arms[:2])) == ()


def test_fewer_than_six_seeds_have_no_interval():
    assert math.isnan(_median([1.0, 2.0, 3.0, 4.0, 5.0])[1][0])
    assert _median([float(at) for at in range(32)])[1] == (9.0, 22.0)


@pytest.mark.parametrize(("at", "told"), [(0.0, "exact"), (1.0, "effective"), (0.5, None)])
def test_a_theory_is_named_where_models_follow_it_and_seldom_where_they_follow_neither(at, told):
    """Models that scatter about one of the two, and about what lies between them."""
    random = np.random.default_rng(4)
    exact, effective = 2.6, 2.2
    found = []
    for _ in range(400):
        ratios = np.log(exact) + at * np.log(effective / exact) + 0.15 * random.standard_normal(32)
        middle, (low, high) = _median(list(ratios))
        task = RegressionTask(kind="regression", d_x=2, n_pairs=8)
        ends = {"found": math.exp(middle), "low": math.exp(low), "high": math.exp(high)}
        found.append(nearer(Worth(task=task, seeds=32, exact=exact, effective=effective, **ends)))
    if told:
        other = {"exact": "effective", "effective": "exact"}[told]
        assert found.count(told) > 200
        assert found.count(other) == 0
    else:
        assert found.count(None) >= 0.95 * 400

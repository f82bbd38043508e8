"""What a judged table says: the verdicts of a results directory, seeds that are none, and what differs besides arms."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.stored import data
from support.tolerance import assert_same

from headway.errors import UserError
from headway.judged.judge import judge
from headway.stats.cells import Cells
from headway.stats.contrasts import Question, judged
from headway.stats.results import Results
from headway.stats.sequential import Looking
from headway.stats.welch import compare_unpaired


def rows(values, **more):
    return [
        {"arm": arm, "seed": seed, "loss": value, **more}
        for arm, of_arm in values.items()
        for seed, value in enumerate(of_arm)
    ]


def drawn(seed=0, arms=("a", "b", "c"), n=5, spread=0.02):
    rng = np.random.default_rng(seed)
    return {arm: tuple(3 + 0.1 * place + spread * rng.normal(size=n)) for place, arm in enumerate(arms)}


def test_five_repeats_of_one_seed_give_no_interval():
    results = judge(data("../cases/judge_repeats_of_one_seed.csv"), arm=["norm", "gate"])
    (comparison,) = results.judged
    assert (comparison.arm, comparison.baseline) == ("qk", "none")
    assert (comparison.n_pairs, comparison.interval, comparison.outcome) == (1, None, "few")
    warnings = "\n".join(results.warnings)
    assert "seed 12345 has up to 5 runs in an arm, and Headway uses their mean" in warnings
    assert "--seed run_num" in warnings
    asked = judge(data("../cases/judge_repeats_of_one_seed.csv"), arm="norm", seed="run_num", metric="val_loss")
    assert asked.judged[0].n_pairs == 5


def test_a_union_of_log_calls_is_judged_by_the_last_loss():
    results = judge(data("../cases/judge_union_of_log_calls.jsonl"))
    (comparison,) = results.judged
    assert (comparison.arm, comparison.baseline, comparison.n_pairs) == ("rising", "flat", 5)
    assert comparison.difference == pytest.approx(-0.0168, abs=5e-5)
    assert (comparison.freedom, comparison.outcome) == (4, "apart")
    assert "its p-value cannot be below 0.0625" in "\n".join(results.notes)


@pytest.mark.parametrize("negative", [False, True])
def test_numbers_are_those_of_a_results_directory(negative):
    """The same cells give the same family: in per cent, or in the metric's unit where a value is 0 or below."""
    values = {arm: tuple(v - 3.1 if negative else v for v in of_arm) for arm, of_arm in drawn().items()}
    found = judge(rows(values), metric="loss", baseline="a")
    cells = Cells(
        arms=("b", "a", "c"),
        seeds=tuple(range(5)),
        values=np.array([values[arm] for arm in "bac"]),
        ended=np.ones((3, 5), bool),
        asked=np.ones((3, 5), bool),
    )
    weights = [{"b": 1.0, "a": -1.0}, {"c": 1.0, "a": -1.0}]
    question = Question(of="comparisons", metric=found.primary, control=None, differences=weights, cells=cells, runs={})
    _, expected = judged(question, Looking(margin=1.0))
    for one, other in zip(found.judged, expected, strict=True):
        numbers = [(one.estimate, *one.interval, one.p_family), (other.estimate, *other.interval, other.p_family)]
        assert_same(*numbers, each=True)
        assert one.outcome == other.outcome


def test_arms_without_common_seeds_are_compared_by_welch():
    values = drawn(arms=("a", "b"))
    table = rows({"a": values["a"]}) + [{**row, "seed": row["seed"] + 100} for row in rows({"b": values["b"]})]
    results = judge(table)
    (comparison,) = results.judged
    logs = [100 * np.log(values[arm]) for arm in "ba"]
    welch = stats.ttest_ind(*logs, equal_var=False)
    assert comparison.rule == "unpaired"
    assert_same(comparison.p, welch.pvalue)
    interval = welch.confidence_interval(0.95)
    assert_same(comparison.interval, (interval.low, interval.high))
    assert "unpaired, 5 and 5 runs" in comparison.verdict
    assert "Train all arms with the same seeds" in "\n".join(results.warnings)


@pytest.mark.slow
def test_unpaired_families_err_as_seldom_as_they_say():
    """Three arms against a baseline, of spreads 1 to 4 and of 3 to 8 runs: any wrong in about 5 of 100."""
    rng = np.random.default_rng(5)
    pairs = [(arm, "a") for arm in "bcd"]
    wrong = 0
    n = 500
    for _ in range(n):
        values = {
            arm: list(100 + spread * rng.normal(size=size))
            for arm, spread, size in zip("abcd", (1, 1, 2, 4), (5, 3, 8, 4), strict=True)
        }
        _, differences = compare_unpaired(values, pairs, metric="loss", unit="", margin=0.01)
        wrong += any(each.is_told for each in differences)
    assert wrong / n < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_runs_without_a_seed_have_no_interval_until_they_are_called_independent():
    table = [{k: v for k, v in row.items() if k != "seed"} for row in rows(drawn(arms=("a", "b")))]
    results = judge(table)
    assert results.judged[0].interval is None
    assert "10 runs without a seed" in results.warnings[0]
    assert judge(table, unpaired=True).judged[0].outcome == "apart"
    equal = [{"arm": arm, "accuracy": value} for arm in "ab" for value in (0.5, 0.5, 0.6, 0.5)]
    assert len(judge(equal, unpaired=True).runs) == 8, "equal values are no duplicates"


def test_one_published_number_carries_no_interval():
    results = judge([*rows({"mine": drawn()["a"]}), {"arm": "published", "seed": 0, "loss": 3.2}], baseline="published")
    (comparison,) = results.judged
    assert comparison.interval is None
    assert "published: one seed has no spread" in "\n".join(results.warnings)


def test_confounds_are_named_first_and_constants_are_said():
    values = drawn(arms=("adamw", "lion"))
    sizes = {"adamw": 32, "lion": 64}
    found = rows(values, device="A100")
    table = [{**row, "batch_size": sizes[row["arm"]], "optimizer_name": row["arm"]} for row in found]
    results = judge(table, arm="arm")
    assert results.warnings[0] == "batch_size differs between the arms: 32 in adamw; 64 in lion"
    assert not any("optimizer_name" in warning for warning in results.warnings)
    assert "equal in all runs: device A100" in "\n".join(results.notes)


def test_arms_that_trained_for_different_steps_are_confounded():
    table = [
        {**row, "step": step, "loss": row["loss"] + 1 / step}
        for row in rows(drawn(arms=("a", "b")))
        for step in (1, 2, *((3,) if row["arm"] == "b" else ()))
    ]
    assert judge(table).warnings[0] == "last step differs between the arms: 2 in a; 3 in b"
    assert not any("nothing" in warning for warning in judge(table, at=2).warnings)


def test_the_value_is_the_last_the_best_or_that_of_a_step():
    table = [
        {**row, "step": step, "loss": row["loss"] + change}
        for row in rows(drawn(arms=("a", "b")))
        for step, change in ((1, 0.5), (2, -0.1), (3, 0.0))
    ]
    plain = drawn(arms=("a", "b"))
    for at, change in (("last", 0.0), ("best", -0.1), (1, 0.5)):
        means = judge(table, at=at).judged[0].means
        assert_same(means, tuple(np.mean(plain[arm]) + change for arm in "ba"))
    assert "best step" in "\n".join(judge(table, at="best").warnings)


def test_several_columns_make_an_arm_and_those_with_one_value_do_not():
    table = [
        {**row, "optimizer": optimizer, "schedule": schedule, "model": "gpt"}
        for optimizer in ("adam", "sgd")
        for schedule in ("cosine", "none")
        for row in [{k: v for k, v in one.items() if k != "arm"} for one in rows({"x": drawn()["a"]})]
    ]
    results = judge(table, arm=["optimizer", "schedule", "model"])
    assert list(results.labels)[:2] == ["optimizer=adam, schedule=cosine", "optimizer=adam, schedule=none"]


def test_arms_of_numbers_are_named_by_their_column():
    loss = lambda heads, seed: 3 - 0.1 * heads + 0.01 * seed  # noqa: E731
    table = [{"config.n_head": n, "seed": seed, "loss": loss(n, seed)} for n in (4, 8) for seed in range(4)]
    results = judge(table, arm="config.n_head", baseline="8")
    assert (results.judged[0].arm, results.judged[0].baseline) == ("n_head=4", "n_head=8")


def test_yes_and_no_are_judged_as_shares():
    table = [{"arm": arm, "seed": s, "solved": s < n} for arm, n in (("a", 1), ("b", 15)) for s in range(16)]
    results = judge(table, better="higher")
    assert results.families[0].rule == "shares"
    assert "solved in 15 of 16 seeds" in results.judged[0].verdict


def test_accuracies_near_one_are_compared_by_their_errors():
    table = [
        {"arm": arm, "seed": s, "accuracy": 1 - error * (1 + 0.1 * s)}
        for arm, error in (("a", 0.002), ("b", 0.001))
        for s in range(5)
    ]
    (comparison,) = judge(table).judged
    assert comparison.of_errors
    assert comparison.share == pytest.approx(-0.5)


def test_a_name_of_headways_keeps_its_meaning():
    from headway.config.metrics import METRICS

    before = dict(METRICS)
    table = [{"arm": arm, "seed": s, "accuracy": 60 + s + 5 * (arm == "b")} for arm in "ab" for s in range(4)]
    assert judge(table).primary == "accuracy (table)"
    assert METRICS["accuracy"] == before["accuracy"]


def test_an_arm_whose_runs_spread_ten_times_as_much_is_judged_apart():
    values = {**drawn(), "wild": tuple(3.2 + 2 * x for x in (0.1, -0.3, 0.4, -0.2, 0.3))}
    assert "as much as others: wild." in "\n".join(judge(rows(values), baseline="a").warnings)


def test_columns_that_are_asked_for_are_not_guessed():
    table = rows(drawn(arms=("a", "b")), fold=1)
    said = judge(table, arm="arm", seed="seed", metric="loss").notes[0]
    assert "guessed" not in said
    assert "seed: seed (guessed)" in judge(table).notes[0]
    with pytest.raises(UserError, match="has one value"):
        judge(table, arm="fold")


def test_the_page_says_the_verdict_and_how_the_table_was_read(tmp_path: Path):
    from headway.report.judged import write_judged

    results = judge(rows(drawn()), baseline="a")
    page = write_judged(results, tmp_path).read_text()
    assert "c vs a: worse, loss" in page.replace('<span class="whole">', "").replace("</span>", "")
    assert "Arm: arm" in page or "arm: arm (guessed)" in page
    assert Results.from_json(json.loads((tmp_path / "results.json").read_text())) == results
    assert "b vs a" in results._repr_html_()
    assert results.verdicts.to_csv().startswith("comparison")

"""results.json: what is in it, for whole, missing, damaged and unequal runs."""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from support import stored

from headway.base.identity import signed
from headway.config.load import resolve
from headway.errors import ResultsError
from headway.stats import regression, results
from headway.stats.answer import answer
from headway.stats.cells import matches_of
from headway.store import checkpoint
from headway.store.directory import Store
from headway.store.run import unreliable_run

DOCUMENT = {
    "name": "small",
    "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
    "model": {"family": "icl"},
    "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 8, "steps": 10},
    "evaluation": {"prompts": 300, "curve": {"prompts": 50, "longest": 12, "lengths": 4, "resamples": 20}},
    "arms": {
        "h1": {"label": "1 head", "model": {"n_heads": 1}},
        "h2": {"label": "2 heads", "model": {"n_heads": 2}},
        "h4": {"label": "4 heads", "model": {"n_heads": 4}},
    },
    "controls": {
        "opposed": {"label": "halves opposed", "training": {"batch_size": 16}},
        "noisy": {"task": {"noise_variance": 0.5}},
    },
    "baseline": "h2",
}
ESTIMATES = {"baselines": {"ridge": {"mse": 0.1, "se": math.nan}}, "curves": {"n_pairs": [1, 12]}}


@dataclass
class FakeRun:
    """What results are made of, without a folder."""

    arm: str
    seed: int
    spec: object
    control: str | None = None
    group: str | None = None
    status: str = "done"
    message: str = ""
    execution: dict = field(default_factory=lambda: {"trainer": "fused", "threads": 1})
    metrics: dict = field(default_factory=dict)
    seal: str = "sealed"
    failure: str | None = None

    @property
    def trained(self):
        return self.spec

    @property
    def name(self):
        return f"{self.arm}+{self.control}" if self.control else self.arm

    recorded: list = field(default_factory=list)

    @property
    def id(self):
        return self.spec.id

    def records(self):
        return self.recorded

    def head_steps(self):
        return ()


@dataclass
class FakeStore:
    path: Path
    experiment: object
    content: list = field(default_factory=list)
    absent: tuple = ()
    """Arms that were asked for and have no folder."""

    @property
    def compared(self):
        return self.experiment.among([*dict.fromkeys(run.name for run in self.content), *self.absent])

    def gone(self):
        return []

    def runs(self):
        return tuple(self.content)

    def add(self, full_name, values, metric="eval_mse", **changes):
        """Runs of an arm, one for each value of a metric, at seeds 0, 1, ..."""
        arm = self.experiment.arm(full_name)
        for seed, value in enumerate(values):
            given = {"metrics": {metric: value, "n_heads": arm.spec(0).model.n_heads, "w": [0.1, math.nan]}, **changes}
            self.content.append(
                FakeRun(arm=arm.name, control=arm.control, group=arm.group, seed=seed, spec=arm.spec(seed), **given)
            )
        return self


@pytest.fixture
def calls(monkeypatch):
    """The tasks for which estimators were computed, in place of computing them."""
    calls = []
    monkeypatch.setattr(regression, "estimator_errors", lambda task, evaluation: calls.append(task) or ESTIMATES)
    return calls


@pytest.fixture
def store(tmp_path, calls):
    return FakeStore(tmp_path, resolve(DOCUMENT))


def matched(content):
    return [(c["arm"], c["baseline"], c["control"], c["group"]) for c in content["comparisons"]]


def test_the_whole_file(store):
    store.add("h1", [1.40, 1.45, 1.43]).add("h2", [0.67, 0.66, 0.68])
    content = results.build(store).to_json()
    assert (content["schema"], content["experiment"], content["scale"], content["fits"]) == (2, "small", None, [])
    row = content["runs"][4]
    assert list(row) == ["arm", "control", "group", "seed", "id", "status", "task", "metrics"]
    assert (row["arm"], row["control"], row["group"], row["seed"], row["status"]) == ("h2", None, None, 1, "done")
    assert row["metrics"] == {"eval_mse": 0.66, "n_heads": 2, "w": [0.1, None]}
    assert row["id"].startswith("run1-")
    assert content["baselines"] == {"ridge": {"mse": 0.1, "se": None}}
    assert content["tasks"] == {row["task"]: {"baselines": content["baselines"], "curves": {"n_pairs": [1, 12]}}}
    (comparison,) = content["comparisons"]
    assert comparison["metric"] == "eval_mse"  # n_heads has no better direction, w is a list
    assert comparison["n_pairs"] == 3
    assert comparison["difference"] == pytest.approx(np.mean([0.73, 0.79, 0.75]))
    assert comparison["p_family"] == comparison["p"] < 0.001
    # The interval is that of a ratio, so it reaches farther upwards.
    assert comparison["verdict"] == "1 head vs 2 heads: worse, evaluation MSE +112.9 % (95 % CI 99.0 to 127.9; 3 seeds)"
    (family,) = content["families"]
    assert family["plan"] == {"looks": [3], "margin": 1.0, "level": 0.05, "rules": 3}
    assert (family["look"], family["rule"], family["size"], family["wild"]) == (1, "blocks", 1, [])
    assert family["level"] == pytest.approx(0.05)
    assert family["freedom"] == comparison["freedom"] == 2
    assert content["warnings"] == []


@pytest.mark.parametrize(("least", "unit"), [(0.97, "100 ln"), (0.0, "y squared")])
def test_the_unit_of_an_estimate_stands_beside_it(tmp_path, calls, least, unit):
    store = FakeStore(tmp_path, resolve({**DOCUMENT, "contrasts": {"more": "h1 - h2"}}))
    built = results.build(store.add("h1", [1.0, 1.02, least]).add("h2", [1.01, 1.0, 0.99]))
    content = built.to_json()
    assert {one["unit"] for one in (*content["comparisons"][:1], *content["contrasts"])} == {unit}
    assert [one["look"] for one in content["contrasts"]] == [1]
    for one in (*content["comparisons"], *content["contrasts"]):
        for key in ("unit", "look", "late", "doubts", "seeds"):
            one.pop(key, None)
    del content["doubts"]
    read = results.Results.from_json(content)
    assert (read.contrasts[0].unit, read.contrasts[0].interval) == ("", built.contrasts[0].interval), "of before"


def test_it_is_written_as_strict_json(store):
    store.add("h1", [math.inf, 1.0]).add("h2", [1.0, math.nan])
    written = results.write(store)
    content = json.loads((store.path / "results.json").read_text(), parse_constant=pytest.fail)
    assert content == signed(written.to_json())
    assert content["runs"][0]["metrics"]["eval_mse"] is None
    (comparison,) = content["comparisons"]
    assert comparison["n_pairs"] == 0
    assert comparison["verdict"] == (
        "1 head vs 2 heads: cannot be compared in evaluation MSE, since no seed has a result for every arm; "
        "seeds 0 and 1 left out: a value is not finite"
    )


def test_one_pair(store):
    store.add("h1", [1.4]).add("h2", [0.7])
    content = results.build(store).to_json()
    (comparison,) = content["comparisons"]
    assert {comparison[key] for key in ("interval", "p", "p_family", "detectable")} == {None}
    assert comparison["verdict"] == "1 head vs 2 heads: too few seeds, evaluation MSE +100.0 % (1 seed)"
    assert comparison["outcome"] == "few"
    assert content["families"][0]["look"] == 1


def test_while_a_run_is_missing_there_is_no_verdict(store):
    store.add("h1", [1.40, 1.45, 1.43, 1.41]).add("h2", [0.67, 0.66, 0.68, 0.67])
    store.content[-1].status = "running"
    built = results.build(store)
    (comparison,) = built.comparisons
    assert (comparison.n_pairs, comparison.interval, comparison.p, comparison.outcome) == (3, None, None, "open")
    assert ": no verdict yet, evaluation MSE +112.9 % (3 of 4 seeds needed)" in comparison.verdict
    assert built.families[0].look is None
    store.content[-1].status = "failed"
    (comparison,) = results.build(store).comparisons
    assert (comparison.n_pairs, comparison.outcome) == (3, "apart")


def test_runs_without_a_result_are_listed_and_not_compared(store):
    store.add("h1", [1.4, 1.5]).add("h2", [0.7, 0.8])
    store.content[0].status, store.content[0].message = "failed", "the loss was not finite at step 7; lower it"
    store.content[3].status = "interrupted"
    content = results.build(store).to_json()
    assert [row["metrics"] is None for row in content["runs"]] == [True, False, False, True]
    (comparison,) = content["comparisons"]
    assert comparison["n_pairs"] == 0
    assert comparison["verdict"].endswith("1 of 2 runs of 1 head failed; 1 of 2 runs of 2 heads not finished")
    assert content["warnings"] == [
        "1 head, seed 0 failed: the loss was not finite at step 7; lower it",
        "1 of 4 runs are not finished. `headway run` on this directory finishes them.",
    ]


def test_a_damaged_run_is_listed_warned_about_and_not_compared(store):
    store.add("h1", [1.4, 1.5]).add("h2", [0.7, 0.8])
    gone = unreliable_run(
        store.path / "runs" / "h1" / "seed-0", "h1/seed-0/run.json: cannot be read; delete the run's folder"
    )
    store.content[0] = gone
    content = results.build(store).to_json()
    row = content["runs"][0]
    assert (row["arm"], row["seed"], row["status"], row["task"], row["metrics"]) == ("h1", 0, "damaged", None, None)
    (comparison,) = content["comparisons"]
    assert comparison["n_pairs"] == 1
    assert comparison["verdict"].endswith("; 1 of 2 runs of 1 head damaged")
    assert content["warnings"] == [f"1 head: Headway leaves out a damaged run: {gone.message}"]


def test_an_arm_that_failed_throughout_is_named(store):
    store.add("h1", [None, None], status="failed", metrics={}).add("h2", [0.7, 0.8])
    (comparison,) = results.build(store).to_json()["comparisons"]
    assert "since no seed has a result for every arm; 2 of 2 runs of 1 head failed" in comparison["verdict"]


def test_nothing_finished(store, calls):
    content = results.build(store.add("h1", [None], status="waiting", metrics={})).to_json()
    assert (content["comparisons"], content["tasks"], content["baselines"]) == ([], {}, {})
    assert calls == []
    assert results.build(FakeStore(store.path, store.experiment)).to_json()["runs"] == []


def test_a_metric_that_one_arm_does_not_have_is_not_compared(store):
    store.add("h1", [1.0, 2.0], metric="kernel_mse").add("h2", [1.0, 1.0])
    assert results.build(store).to_json()["comparisons"] == []


def test_each_metric_is_a_family_and_the_primary_one_comes_first(store):
    random = np.random.default_rng(0)
    for arm in ("h1", "h2", "h4"):
        store.add(arm, [0.0] * 4)
    for run in store.content:
        run.metrics |= {"steps_per_s": 100 + random.standard_normal(), "eval_mse": 10 + random.standard_normal()}
    comparisons = results.build(store).to_json()["comparisons"]
    assert [c["metric"] for c in comparisons] == ["eval_mse"] * 2 + ["steps_per_s"] * 2
    built = results.build(store)
    assert [(f.metric, f.size) for f in built.families] == [("eval_mse", 2), ("steps_per_s", 2)]
    for c in comparisons:
        assert c["p"] <= c["p_family"] < min(1.0, 2 * c["p"]) or c["p_family"] == pytest.approx(1)


def test_values_of_0_and_below_are_judged_together_in_their_unit(store):
    random = np.random.default_rng(0)
    for arm in ("h1", "h2", "h4"):
        store.add(arm, random.standard_normal(4).tolist())
    built = results.build(store)
    assert {c.rule for c in built.comparisons} == {f.rule for f in built.families} == {"blocks"}
    assert {c.unit for c in built.comparisons} == {"y squared"}
    assert all(c.p <= c.p_family <= 2 * c.p and c.estimate == pytest.approx(c.difference) for c in built.comparisons)
    verdict = built.comparisons[0].verdict
    assert ": no clear difference, evaluation MSE " in verdict
    assert " y squared (simultaneous 95 % CI " in verdict


def test_controls_are_compared_with_their_arm_and_within_themselves(store):
    for arm in ("h1", "h2", "h1+opposed", "h2+opposed"):
        store.add(arm, [1.0, 1.5, 2.5] if "h1" in arm else [1.0, 1.2, 1.1])
    content = results.build(store).to_json()
    assert matched(content) == [
        ("h1", "h2", None, None),
        ("h1+opposed", "h1", "opposed", None),
        ("h2+opposed", "h2", "opposed", None),
        ("h1+opposed", "h2+opposed", "opposed", None),
    ]
    assert content["comparisons"][3]["verdict"].startswith(
        "1 head, halves opposed vs 2 heads, halves opposed: no clear difference, "
    )
    assert [(f["control"], f["size"]) for f in content["families"]] == [(None, 1), ("opposed", 3)]


def test_another_task_is_not_judged_as_merit(store, calls):
    store.add("h2", [0.70, 0.71, 0.70]).add("h2+noisy", [0.90, 0.92, 0.91])
    content = results.build(store).to_json()
    (comparison,) = content["comparisons"]
    assert comparison["verdict"].startswith(
        "2 heads, noisy vs 2 heads: higher, evaluation MSE +29.4 % (95 % CI 27.6 to 31.2; 3 seeds)"
    )
    assert comparison["verdict"].endswith("; they are evaluated on different tasks")
    assert len(content["tasks"]) == len(calls) == 2
    assert content["runs"][0]["task"] != content["runs"][3]["task"]
    assert content["baselines"] == content["tasks"][content["runs"][0]["task"]]["baselines"]


def test_groups_have_their_own_baseline_and_the_experiments_across():
    groups = {"few": {"arms": ["h1", "h2"], "baseline": "h1"}, "rest": {"arms": ["h4"], "baseline": "h4"}}
    experiment = resolve({**DOCUMENT, "groups": groups, "controls": {}, "baseline": "h1"})
    found = [(m.arm.name, m.baseline.name, m.group) for m in matches_of(experiment)]
    assert found == [("h2", "h1", "few"), ("h4", "h1", None)]


def test_a_baseline_that_was_not_run_is_missed_aloud(store):
    store.absent = ("h2",)
    content = results.build(store.add("h1", [1.0, 2.0]).add("h4", [1.0, 2.0])).to_json()
    assert [c["n_pairs"] for c in content["comparisons"]] == [0, 0]
    assert content["warnings"] == [
        "These baselines have no runs, so nothing is compared with them: 2 heads (h2). Train them."
    ]
    assert list(answer(results.build(store))) == [], "the warning has said it"


def test_pairs_that_were_executed_differently_are_warned_about(store):
    store.add("h1", [1.0, 2.0], execution={"trainer": "torch", "threads": 1}).add("h2", [1.0, 2.0])
    (warning,) = results.build(store).to_json()["warnings"]
    assert warning.startswith(
        "1 head and 2 heads were executed differently in 2 of 2 pairs of runs (trainer torch against fused)"
    )


def test_estimators_are_computed_once_and_again_when_damaged(store, calls):
    store.add("h1", [1.0, 2.0]).add("h2", [1.0, 1.0])
    first = results.build(store).to_json()
    (file,) = (store.path / "estimators").iterdir()
    assert file.stem == first["runs"][0]["task"]
    assert results.build(store).to_json() == first
    assert len(calls) == 1
    for n, damage in enumerate(['{"schema": 1, "err', "[]", '{"schema": 0, "errors": {}}', "null", '{"schema": 1}'], 2):
        file.write_text(damage)
        assert results.build(store).to_json() == first
        assert len(calls) == n


def test_a_full_disk_leaves_the_former_file(store, monkeypatch):
    results.write(store.add("h1", [1.0, 2.0]).add("h2", [1.0, 1.0]))
    before = (store.path / "results.json").read_bytes()
    store.content.pop()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultsError, match=r"results\.json cannot be written: No space left on device; free space"):
        results.write(store)
    assert (store.path / "results.json").read_bytes() == before
    assert sorted(path.name for path in store.path.iterdir()) == ["estimators", "results.json"]


def test_of_a_real_store(tmp_path, calls):
    store = Store.create(tmp_path / "out", resolve(DOCUMENT))
    for name, seed, metrics in [("h1", 0, {"eval_mse": 1.5}), ("h2", 0, {"eval_mse": 1.0}), ("h2+opposed", 1, {})]:
        run = store.add(store.experiment.arm(name), seed)
        outcome = {"status": "done", "execution": {"threads": seed}, "metrics": metrics} if metrics else {}
        (run.path / "metrics.jsonl").write_text('{"step": 10}\n')
        checkpoint.save(run.path / "checkpoint", checkpoint.Checkpoint(step=10, state={}))
        stored.rewrite(run.path, **outcome)
        stored.seal(run.path)
    content = results.write(store).to_json()
    assert [(row["arm"], row["control"], row["seed"], row["status"]) for row in content["runs"]] == [
        ("h1", None, 0, "done"),
        ("h2", None, 0, "done"),
        ("h2", "opposed", 1, "waiting"),
    ]
    assert content["comparisons"][0]["verdict"].startswith(
        "1 head vs 2 heads: too few seeds, evaluation MSE +50.0 % (1 seed)"
    )
    assert [warning.partition(" ")[2] for warning in content["warnings"]] == [
        "of 3 runs are not finished. `headway run` on this directory finishes them.",
    ]


def test_with_the_estimators_themselves(tmp_path):
    store = FakeStore(tmp_path, resolve(DOCUMENT)).add("h1", [1.0, 2.0]).add("h2", [1.0, 1.0])
    content = results.build(store).to_json()
    assert content["baselines"].keys() == {"gd_eta1", "gd_best", "debiased_gd_best", "ridge", "least_squares"}
    assert content["baselines"]["ridge"]["mse"] < content["baselines"]["gd_best"]["mse"]
    (task,) = content["tasks"].values()
    assert task["curves"]["n_pairs"][-1] == 12
    assert len(task["curves"]["ridge"]["low"]) == len(task["curves"]["n_pairs"])

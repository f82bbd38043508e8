"""Runs of a table: settings that vary, seeds that are missing, steps that start again, units of a metric."""

import json

import pytest

from headway.errors import UserError
from headway.judged.judge import judge


def table(text, tmp_path, name="t.csv"):
    path = tmp_path / name
    path.write_text("\n".join(text.split()) + "\n" if name.endswith("csv") else text)
    return path


def means(results):
    return {one.arm: pytest.approx(one.means[0]) for one in results.judged} | {
        one.baseline: pytest.approx(one.means[1]) for one in results.judged
    }


def test_a_metric_of_negative_values_is_compared_in_its_unit(tmp_path):
    text = "arm,seed,reward ppo,0,-200 ppo,1,-190 ppo,2,-210 sac,0,-150 sac,1,-151 sac,2,-158"
    (one,) = judge(table(text, tmp_path)).judged
    assert one.difference == pytest.approx(47)
    assert one.estimate == pytest.approx(47)
    assert "better, reward +47" in one.verdict
    assert "%" not in one.verdict.replace("95 % CI", "")


@pytest.mark.parametrize("column", ["lr", "dataset", "split"])
@pytest.mark.parametrize("steps", [True, False])
def test_settings_that_vary_within_a_seed_belong_to_the_arm(column, steps, tmp_path):
    head, step = ("step,", "1,") if steps else ("", "")
    rows = [f"{arm},{seed},{step}{value},{seed + 1}" for arm in "ab" for seed in (0, 1, 2) for value in ("u", "v")]
    path = table(f"opt,seed,{head}{column},val_loss " + " ".join(rows), tmp_path)
    with pytest.raises(
        UserError, match=f"{column} has several values in arm a, seed 0 .u, v.; type --arm opt,{column}"
    ):
        judge(path, arm="opt", metric="val_loss")
    assert len(judge(path, arm=["opt", column], metric="val_loss").labels) == 4


def test_runs_without_a_seed_that_log_steps_are_not_taken_for_one(tmp_path):
    text = "optimizer,steps,val_loss adamw,1000,3 adamw,1000,3.1 lion,1000,2.9 lion,1000,3.4"
    with pytest.raises(UserError, match="they may be one run or several; type --seed NAME"):
        judge(table(text, tmp_path))


def test_a_run_without_a_seed_replaces_no_other(tmp_path):
    text = "arm,seed,loss a,,10.0 a,0,2.0 a,1,2.1 a,2,2.2 b,0,2 b,1,2.1 b,2,2.2"
    results = judge(table(text, tmp_path))
    assert len(results.by_seed("a")) == 4
    assert results.judged[0].n_pairs == 3


@pytest.mark.parametrize("missing", ["", "NA", "nan", "null"])
def test_a_missing_seed_is_no_seed(missing, tmp_path):
    rows = [f"{arm},{seed},{value}" for arm, value in (("a", 2.0), ("b", 3.0)) for seed in ("1", "2", missing)]
    (one,) = judge(table("arm,seed,loss " + " ".join(rows), tmp_path)).judged
    assert one.interval is None


def test_missing_numbers_of_a_frame_are_missing():
    pandas = pytest.importorskip("pandas")
    rows = [
        {"arm": arm, "seed": seed, "step": step, "train": 1.0, "val_loss": value + seed / 10 if step == 2 else None}
        for arm, value in (("a", 2.0), ("b", 3.0))
        for seed in range(3)
        for step in (2, 3)
    ]
    (one,) = judge(pandas.DataFrame(rows), metric="val_loss").judged
    assert one.n_pairs == 3


def test_a_run_that_went_on_under_another_name_is_one_run(tmp_path):
    rows = [
        f"{arm},{seed},{arm}{seed}{part},{step},{5 - step + (arm == 'b')}"
        for arm in "ab"
        for seed in range(3)
        for part, steps in (("x", (1, 2)), ("y", (3, 4)))
        for step in steps
    ]
    results = judge(table("arm,seed,run_id,step,loss " + " ".join(rows), tmp_path))
    assert means(results) == {"a": 1.0, "b": 2.0}
    assert results.warnings == ()


def test_steps_that_start_again_end_where_the_file_ends(tmp_path):
    rows = [f"{arm},{seed},{step},{value + (arm == 'b')}" for arm in "ab" for seed in range(3)
            for step, value in ((1, 9), (2, 8), (3, 7), (1, 3), (2, 2))]  # fmt: skip
    assert means(judge(table("arm,seed,step,loss " + " ".join(rows), tmp_path))) == {"a": 2.0, "b": 3.0}


def test_numbers_with_commas_are_read_only_where_they_have_one_meaning(tmp_path):
    rows = [f"{arm};{seed};0.001;{value},{seed}00" for arm, value in (("a", 2), ("b", 3)) for seed in range(3)]
    assert means(judge(table("arm;seed;lr;val_loss " + " ".join(rows), tmp_path))) == {"a": 2.1, "b": 3.1}
    rows = [f'{arm},{seed},"{value},00{seed}"' for arm, value in (("a", 2), ("b", 3)) for seed in range(3)]
    with pytest.raises(UserError, match="holds no number"):
        judge(table("arm,seed,val_loss " + " ".join(rows), tmp_path), metric="val_loss")


@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "steps_to_accuracy"])
def test_directions_of_other_words_are_not_guessed(metric, tmp_path):
    rows = [f"{arm},{seed},{value + seed}" for arm, value in (("a", 20), ("b", 30)) for seed in range(3)]
    (one,) = judge(table(f"arm,seed,{metric} " + " ".join(rows), tmp_path), metric=metric).judged
    assert "higher, " in one.verdict


def test_a_direction_that_was_given_once_is_not_kept():
    rows = [{"arm": arm, "seed": s, "surprise": 2 + s / 10 + (arm == "b")} for arm in "ab" for s in range(4)]
    assert "worse" in judge(rows, metric="surprise", better="lower").judged[0].verdict
    assert "worse" not in judge(rows, metric="surprise").judged[0].verdict


def test_equal_repeats_are_repeats(tmp_path):
    rows = [f"{arm},{seed},{value}" for arm in "ab" for seed in range(3) for value in (1.0, 1.0, 4.0)]
    assert means(judge(table("arm,seed,loss " + " ".join(rows), tmp_path))) == {"a": 2.0, "b": 2.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arm,seed,loss\na,0,1\nb,3.1\n", "line 3: 2 cells under 3 columns"),
        ('arm,seed,loss\na,0,"1\nb,0,2\na,1,2\nb,1,2\na,2,2\nb,2,2\n', "close its quotes"),
    ],
)
def test_torn_rows_are_refused(text, says, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=says):
        judge(tmp_path / "t.csv")


def test_the_state_of_a_run_is_its_last(tmp_path):
    rows = [f"{arm},{seed},{step},{state},{3 - step + (arm == 'b')}" for arm in "ab" for seed in range(3)
            for step, state in ((1, "running"), (2, "finished"))]  # fmt: skip
    assert means(judge(table("arm,seed,step,status,loss " + " ".join(rows), tmp_path))) == {"a": 1.0, "b": 2.0}


def test_arms_are_as_they_are_written(tmp_path):
    rows = [f"{arm},{seed},{value}" for arm, value in (("v1.0", 1), ("v1", 2)) for seed in range(3)]
    assert len(judge(table("arm,seed,loss " + " ".join(rows), tmp_path)).labels) == 2


@pytest.mark.parametrize(
    "names",
    [
        ["resnet18", "resnet34", "resnet50", "vgg16", "vgg19", "vgg13"],
        ["adam-lr0.1", "adam-lr0.3", "sgd-lr0.1", "sgd-lr0.3"],
        ["adamw-1", "adamw-2", "lion-3", "lion-4"],
    ],
)
def test_numbers_in_names_are_seeds_only_where_arms_share_them(names, tmp_path):
    rows = [f"{name},{place}" for place, name in enumerate(names)]
    results = judge(table("name,val_loss " + " ".join(rows), tmp_path), arm="name")
    assert all(one.interval is None for one in results.judged)
    assert len(results.labels) == len(names)


def test_a_number_without_a_seed_leaves_the_other_comparisons(tmp_path):
    rows = [f"{arm},{seed},{value + seed / 100}" for arm, value in (("base", 3), ("ours", 2)) for seed in range(3)]
    results = judge(table("arm,seed,loss " + " ".join(rows) + " prior,,2.4", tmp_path))
    ours, prior = results.judged
    assert (ours.outcome, ours.n_pairs, prior.interval) == ("apart", 3, None)
    assert "prior vs base: too few seeds, loss −20" in prior.verdict


@pytest.mark.parametrize(
    ("arms", "column", "values"),
    [
        (("a", "b"), "loss_fn", ("mse", "l1")),
        (("a", "b"), "grad_acc_steps", ("8", "1")),
        (("a", "b"), "device", ("cuda", "tpu-b")),
        (("A", "H"), "gpu", ("A100", "H100")),
        (("base", "new"), "data", ("base-data-10B", "new-data-20B")),
    ],
)
def test_settings_that_differ_are_named(arms, column, values, tmp_path):
    rows = [
        f"{arm},{seed},{value},{2 + seed / 10}" for arm, value in zip(arms, values, strict=True) for seed in range(3)
    ]
    warnings = judge(table(f"arm,seed,{column},val_loss " + " ".join(rows), tmp_path), arm="arm").warnings
    assert any(warning.startswith(f"{column} differs between the arms") for warning in warnings)


@pytest.mark.parametrize("text", ['{"log_history": null}', '{"log_history": 3}', "2.0", "[" * 100_000, '[{"a": 1}, 3]'])
def test_json_of_other_shapes_is_refused(text, tmp_path):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(UserError):
        judge(tmp_path / "t.json")


def test_numbers_beyond_floats_are_infinite(tmp_path):
    rows = [{"arm": arm, "seed": seed, "loss": 10**400 if arm == "b" else 2} for arm in "ab" for seed in range(3)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert judge(tmp_path / "t.jsonl", metric="loss").judged[0].interval is None


def test_files_that_are_no_parquet_and_settings_that_are_no_mapping_are_refused(tmp_path):
    pytest.importorskip("pandas")
    (tmp_path / "t.parquet").write_text("hi")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        judge(tmp_path / "t.parquet")
    (tmp_path / "runs/a").mkdir(parents=True)
    (tmp_path / "runs/a/summary.json").write_text('{"loss": 1}')
    (tmp_path / "runs/a/config.json").write_text("[1, 2]")
    with pytest.raises(UserError, match="it holds no settings by name"):
        judge(tmp_path / "runs")

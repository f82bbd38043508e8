"""Two directories of one experiment: which arms are compared, how runs are paired, and what is refused."""

import pytest
from support import stored
from support.fabricate import fabricate, small
from support.fabricate_text import EXECUTION, SHARED, fabricate_text, head_progression
from typer.testing import CliRunner

import headway
from headway.cli.options import app
from headway.errors import ResultsError


def regression(path, arms=("h1", "h2"), seeds=3, **changes):
    return fabricate(path, small("icl-heads", **changes).select(arms=list(arms), seeds=seeds))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return regression(tmp_path_factory.mktemp("across") / "first")


def pairs(results):
    return [(each.arm, each.baseline) for each in results.judged]


def test_arms_of_one_name_are_compared_and_paired_by_seed(first, tmp_path):
    second = regression(tmp_path / "second", seeds=[1, 2, 3, 4], **{"training.learning_rate": 0.01})
    results = headway.compare(first, second)
    assert pairs(results) == [("h1 (second)", "h1 (first)"), ("h2 (second)", "h2 (first)")]
    for comparison in results.judged:
        assert comparison.seeds == (1, 2)
    values = [
        [headway.open(path).run("h2", seed=seed).metrics["eval_mse"] for seed in (1, 2)] for path in (second, first)
    ]
    assert results.judged[1].means == tuple(sum(of_side) / 2 for of_side in values)
    assert results.verdicts.rows[0].comparison == "1 head (second) vs 1 head (first)"


def test_all_comparisons_are_one_family(first, tmp_path):
    results = headway.compare(first, regression(tmp_path / "second", **{"training.learning_rate": 0.01}))
    (family,) = [family for family in results.families if family.metric == results.primary]
    assert family.size == 2


def test_an_arm_that_the_first_directory_lacks_is_compared_with_its_baseline(first, tmp_path):
    results = headway.compare(first, regression(tmp_path / "second", arms=("h1", "h8")))
    assert pairs(results) == [("h1 (second)", "h1 (first)"), ("h8 (second)", "h2 (first)")]
    assert any("h1 is the same run in both directories" in warning for warning in results.warnings)


def test_an_arm_under_a_control_is_compared_with_itself_under_it(tmp_path):
    directories = []
    for name, steps in (("one", 12_000), ("two", 9_000)):
        experiment = head_progression(training={**SHARED["training"], "steps": steps})
        asked = experiment.select(arms=["constant-low"], controls=["scaled-logits"], seeds=3)
        directories.append(fabricate_text(tmp_path / name, asked))
    assert pairs(headway.compare(*directories)) == [
        ("constant-low (two)", "constant-low (one)"),
        ("constant-low (two)+scaled-logits", "constant-low (one)+scaled-logits"),
    ]


def test_directories_of_one_name_are_told_apart_by_their_paths(first, tmp_path):
    second = regression(tmp_path / "first", **{"training.learning_rate": 0.01})
    row = headway.compare(first, second).verdicts.rows[0]
    assert row.comparison == f"1 head ({second}) vs 1 head ({first})"


@pytest.mark.parametrize(
    ("changes", "seeds", "message"),
    [
        (
            {"task.noise_variance": 0.3},
            3,
            r"h1 \(first\) are not compared, since they differ in task.noise_variance \(0.3 and ",
        ),
        ({"evaluation.prompts": 900}, 3, r"differ in evaluation.prompts \(900 and "),
        ({}, [5, 6], r"h1 \(second\) has seeds 5 and 6, and h1 \(first\) has seeds 0, 1 and 2. Train common seeds"),
    ],
)
def test_one_sentence_says_why_nothing_can_be_compared(first, tmp_path, changes, seeds, message):
    second = regression(tmp_path / "second", arms=("h1",), seeds=seeds, **changes)
    with pytest.raises(ResultsError, match=message):
        headway.compare(first, second)
    ended = CliRunner().invoke(app, ["compare", str(first), str(second)])
    assert ended.exit_code != 0
    assert "\n" not in str(ended.exception).strip()


@pytest.mark.parametrize(
    ("path", "digest", "refused"),
    [
        ("elsewhere.txt", "a", ""),
        ("elsewhere.txt", "b", r"differ in task.corpus \(elsewhere.txt and "),
        ("train.txt", "b", "differ in the content of their text"),
    ],
)
def test_one_text_is_told_by_its_tokens_and_not_by_its_path(tmp_path, path, digest, refused):
    directories = []
    for name, corpus, tokens in (("one", "train.txt", "a"), ("two", path, digest)):
        task = {"kind": "text", "corpus": corpus, "tokenizer": "gpt2", "n_ctx": 512}
        experiment = head_progression(task=task).select(arms=["constant-low"], seeds=3)
        directories.append(fabricate_text(tmp_path / name, experiment))
        for folder in directories[-1].glob("runs/*/*"):
            stored.rewrite(folder, execution={**EXECUTION, "corpus": tokens})
    if refused:
        with pytest.raises(ResultsError, match=refused):
            headway.compare(*directories)
    else:
        assert pairs(headway.compare(*directories)) == [("constant-low (two)", "constant-low (one)")]


def test_what_cannot_be_compared_is_told_beside_what_can(first, tmp_path):
    changes = {"arms.h2.evaluation": {"prompts": 900}, "training.learning_rate": 0.01}
    results = headway.compare(first, regression(tmp_path / "second", **changes))
    assert pairs(results) == [("h1 (second)", "h1 (first)")]
    assert any(
        "h2 (second) and h2 (first) are not compared, since they differ in evaluation.prompts" in warning
        for warning in results.warnings
    )


def test_an_arm_without_a_finished_run_is_told(first, tmp_path):
    experiment = small("icl-heads", **{"training.learning_rate": 0.01}).select(arms=["h1", "h2"], seeds=3)
    unfinished = {("h2", seed): "failed" for seed in range(3)}
    results = headway.compare(first, fabricate(tmp_path / "second", experiment, unfinished))
    assert pairs(results) == [("h1 (second)", "h1 (first)")]
    assert "h2 (second) has no finished run." in results.warnings


def test_a_directory_is_not_compared_with_itself(first):
    with pytest.raises(ResultsError, match="are one directory"):
        headway.compare(first, first.parent / "first")


def test_the_command_says_what_python_says_and_writes_nothing(first, tmp_path):
    second = regression(tmp_path / "second", **{"training.learning_rate": 0.01})
    before = {path: path.read_bytes() for path in (*first.glob("*.*"), *second.glob("*.*"))}
    results = headway.compare(first, second)
    ended = CliRunner().invoke(app, ["compare", str(first), str(second)])
    assert ended.exit_code == 0
    assert all(comparison.verdict in ended.stdout for comparison in results.judged)
    table = CliRunner().invoke(app, ["compare", str(first), str(second), "--format", "csv"])
    assert table.stdout == results.verdicts.to_csv()
    assert {path: path.read_bytes() for path in before} == before
    refused = CliRunner().invoke(app, ["compare", str(first), str(second), "--out", str(tmp_path / "out")])
    assert "nothing is written when two directories are compared" in str(refused.exception)

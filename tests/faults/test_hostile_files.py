"""Hostile experiment files, settings and command lines: each was tried by hand once, and none gives more than an error.

Every case has two seconds of processor time and 500 MB.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.fuzz_experiments import guarded, look_at
from support.typed import typed

import headway
from headway.config.load import load
from headway.config.spec import MOST_ARMS, MOST_LAYERS
from headway.config.yaml import read_yaml, shipped, write_yaml
from headway.errors import DeclarationError, UserError

FUZZER = Path(__file__).parents[2] / "tools/faults/fuzz_experiments.py"

LANGUAGE = """
name: mine
task: {kind: text, corpus: stories, n_ctx: 64}
model: {family: gpt-neo, d_model: 64, n_heads: 8, n_layers: 4}
training: {optimizer: adamw, learning_rate: 1.0e-3, batch_size: 8, steps: 10}
arms: {plain: {}}
"""
PROMPTS = """
name: mine
task: {kind: regression, d_x: 5, n_pairs: 40}
model: {family: icl, n_heads: 2}
training: {optimizer: adam, learning_rate: 1.0e-3, batch_size: 8, steps: 10}
arms: {plain: {}}
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
MERGES = "a: &a {k: 1, l: 2}\n" + "".join(
    f"{name}: &{name}\n  <<: [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def refused(path, problem):
    """The error of a file; that it takes no time and no memory is checked."""
    said = []

    def work():
        with pytest.raises(DeclarationError) as error:
            look_at(path)
        said.append(str(error.value))

    assert guarded(work) is None
    assert problem in said[0]
    assert len(said[0]) < 20_000
    return said[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "with aliases written out, the file has more than 500,000 characters"),
        (MERGES, "with aliases written out, the file has more than 500,000 characters"),
        ("a: &a " + "x" * 100_000 + "\nb: [*a, *a, *a, *a, *a]", "more than 500,000 characters up to here"),
        ("a: &a [*a]", "a value contains itself (an alias inside its own anchor)"),
        ("{[a]: b}", "line 1: a mapping or a list is used as a key"),
        ("a: {{7*7}}", "text that begins with a bracket in quotes"),
        ("a: !!int abc", "line 1: abc is marked as int but is not; remove the mark with !"),
        ("a: !!int [1]", "is marked as int but is not"),
        ("a: !!timestamp x", "line 1: the mark !!timestamp is not known"),
        ("a: !!python/object/apply:os.system [ls]", "the mark !!python/object/apply:os.system is not known"),
        ("a: !!map [b]", "a tag says that this is a mapping, and it is not"),
        ("a: " + "9" * 5000, "Exceeds the limit (4300 digits)"),
        ("a: [" + "1, " * 300_000 + "1]", "more than 500,000 characters"),
        ("a: [" + "1, " * 1_000_000 + "1]", "the file is larger than 2 MB"),
        ("[" * 100_000, "mappings and lists are nested more than 32 deep"),
        ("a: " + "{a: " * 100_000, "mappings and lists are nested more than 32 deep"),
        ("".join("  " * i + "a:\n" for i in range(1000)), "mappings and lists are nested more than 32"),
        ('a: "\\U0011FFFF"', "this is not YAML"),
        ('a: "\\uD800"', "invalid Unicode character escape code"),
        ('a: "\\e[31mred"', "the text holds the character U+001B"),
        ("%YAML 9." + "9" * 5000 + "\n---\na: 1", "this is not YAML"),
        ("a\x00b", "control characters are not allowed"),
        ("k: " + "y" * 100_000 + "\nk: 1", "'k' appears twice"),
        ("y" * 1100 + ": 1", "this is not YAML"),
        ("", "holds NoneType, not a mapping"),
        ("*a", "found undefined alias"),
        (bytes(range(256)) * 100, "byte 128 is not UTF-8; save it in that encoding"),
        ("name: x".encode("utf-16"), "is not UTF-8"),
    ],
    ids=lambda text: str(text)[:40],
)
def test_a_hostile_text_is_refused(tmp_path, text, problem):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert "mine.yaml" in refused(path, problem)


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    refused(tmp_path / "pipe.yaml", "this is no file; give the path of a text file")
    (tmp_path / "folder.yaml").mkdir()
    refused(tmp_path / "folder.yaml", "cannot be read as a text file: it is a folder")
    with open(tmp_path / "sparse.yaml", "wb") as file:
        file.truncate(10_000_000_000)
    refused(tmp_path / "sparse.yaml", "the file is larger than 2 MB")
    refused(Path("/dev/zero"), "this is no file")
    refused(tmp_path / ("n" * 300 + ".yaml"), "there is no such file")
    refused(tmp_path / ("n/" * 5000 + "x.yaml"), "there is no such file")
    refused(Path("a\0b.yaml"), "there is no such file")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    refused(tmp_path / "loop.yaml", "there is no such file")


@pytest.mark.parametrize(
    ("document", "old", "new", "problem"),
    [
        (LANGUAGE, "n_layers: 4", "n_layers: 300000000", f"give a number of at most {MOST_LAYERS}"),
        (LANGUAGE, "n_layers: 4", "n_layers: 1e18", "no whole number is above 1e+15 here: give a smaller one"),
        (LANGUAGE, "d_model: 64", "d_model: 1000000000000", "give a number of at most 1000000000"),
        (LANGUAGE, "d_model: 64", "d_model: 1000000000", "no machine holds more than 1e+15; lower d_model, n_layers"),
        (LANGUAGE, "n_heads: 8, n_layers: 4", "n_heads: 65536, d_head: 1, n_layers: 2048", "at most 1,000,000 heads"),
        (LANGUAGE, "n_heads: 8", "n_heads: ascending(1e300)", "1e+300 was given; give 1,000,000,000 or less"),
        (LANGUAGE, "n_heads: 8, n_layers: 4", "n_heads: ascending(90), n_layers: 2000", "take 30 layers or fewer"),
        (LANGUAGE, "n_layers: 4", "n_layers: 4, d_mlp: 'openelm(1e308, 1e308)'", "no number of a schedule is above"),
        (LANGUAGE, "n_layers: 4", "n_layers: 4, d_mlp: " + "1-" * 5000 + "1", "names 5001 layers, but n_layers is 4"),
        (LANGUAGE, "n_layers: 4", "n_layers: 4, d_mlp: '" + "9" * 5000 + "'", "a number, a list, or numbers joined"),
        (LANGUAGE, "batch_size: 8", "batch_size: 1e15", "a batch of about 4e+18 numbers was asked for"),
        (LANGUAGE, "learning_rate: 1.0e-3", "learning_rate: 1.0e+300", "1e+300 was given; no number is above 1e+30"),
        (LANGUAGE, "corpus: stories", "corpus: ./" + "c" * 300, "is too long for a path: 255 bytes a name"),
        (LANGUAGE, "corpus: stories", "corpus: stories, tokenizer: ~nobody-is-this/x", "neither bytes, bpe-N, gpt2"),
        (LANGUAGE, "corpus: stories", "corpus: stories, tokenizer: " + "y" * 100_000, "is too long for a path"),
        (LANGUAGE, "name: mine", "name: " + "n" * 300, "use letters, digits, dashes and underscores, at most 120"),
        (LANGUAGE, "plain: {}", "n" * 300 + ": {}", "becomes part of a path"),
        (LANGUAGE, "optimizer: adamw", "optimizer: " + "y" * 100_000, "(99,870 characters) ..."),
        (LANGUAGE, "kind: text", "kind: [text]", "task.kind: ['text'] is not known"),
        (LANGUAGE, "steps: 10", "steps: " + "'" + "y" * 100_000 + "'", "was given; give a whole number, such as 8"),
        (LANGUAGE, "arms: {plain", "scales: {big: {arms: 7}}\narms: {plain", "big.arms: 7 was given; write a mapping"),
        (LANGUAGE, "arms: {plain: {}}", "arms: {plain: {}}\nprobes: {metrics: [" + "x, " * 20_000 + "x]}", "and 19,"),
        (PROMPTS, "d_x: 5", "d_x: 1000000000", "no machine holds more than 1e+15; lower task.d_x"),
        (PROMPTS, "n_pairs: 40", "n_pairs: 1e15", "a batch of about 5e+16 numbers was asked for"),
        (PROMPTS, "arms:", "evaluation: {curve: {lengths: 1e12}}\narms:", "give a number of at most 1000"),
        (PROMPTS, "d_x: 5", "d_x: 2, covariance: {kind: matrix, rows: [[1.0e+300, 0], [0, 1]]}", "no number is above"),
    ],
    ids=lambda text: text[:40],
)
def test_a_hostile_value_is_refused(tmp_path, document, old, new, problem):
    assert old in document
    path = tmp_path / "mine.yaml"
    path.write_text(document.replace(old, new, 1))
    refused(path, problem)


def test_thousands_of_arms_under_controls_are_counted_first(tmp_path):
    path = tmp_path / "mine.yaml"
    arms = "".join(f"  a{i}: {{}}\n" for i in range(4000))
    controls = "".join(f"  c{i}: {{model: {{n_heads: 4}}}}\n" for i in range(400))
    path.write_text(LANGUAGE.replace("arms: {plain: {}}", f"arms:\n{arms}controls:\n{controls}"))
    said = f"4,000 arms, alone and under each of 400 controls, are 1,604,000 arms, and {MOST_ARMS:,} are allowed"
    refused(path, said)
    rows = ", ".join(["[" + "0.5, " * 99 + "0.5]"] * 100)
    matrix = PROMPTS.replace("d_x: 5", f"d_x: 100, covariance: {{kind: matrix, rows: [{rows}]}}")
    arms = "".join(f"  a{i}: {{}}\n" for i in range(900))
    path.write_text(matrix.replace("arms: {plain: {}}", f"arms:\n{arms}"))
    refused(path, "keys and values in all, and 1,000,000 are allowed; move shared keys out")


@pytest.mark.parametrize("setting", ["prompts", "prompts_during", "curve.prompts", "curve.resamples"])
def test_what_a_run_is_judged_on_is_counted_before_it_is_made(setting, tmp_path):
    experiment = load("icl-heads", settings=[f"evaluation.{setting}=1e12"]).select(arms=["h1"], seeds=1)

    def work():
        with pytest.raises(UserError, match=r"^h1 needs about [\d,.]+ GB for its evaluation prompts, but [\d.]+"):
            headway.run(experiment, tmp_path / "out")

    assert guarded(work) is None
    assert not (tmp_path / "out").exists()


def test_prompts_that_are_judged_on_are_counted():
    budget = load("icl-heads", settings=["evaluation.prompts=1e6"]).arm("h1").spec(0).budget
    assert budget.judging_bytes == 10**6 * (4 * 41 * 6 + 4 * 5) == budget.peak_bytes
    assert load("icl-heads").arm("h1").spec(0).budget.judging_bytes == 10**4 * (4 * 501 * 6 + 4 * 5 + 8 * 200)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["a" + ".a" * 100_000 + "=1"], "a path of 100,001 keys leads nowhere"),
        (["training.steps=" + "y" * 100_000], "(99,870 characters)"),
        (["training.steps={{7*7}}"], "training.steps: '{{7*7}}' was given; give a whole number, such as 8"),
        (["training.steps=" + "9" * 5000], "was given; give a whole number, such as 8"),
        (["question=a\udcffb"], "the text holds the character U+DCFF, which cannot be shown"),
        (["seeds=3"] * 100_000, "100,000 settings were given, and 500 are allowed"),
        (["y" * 100_000], "write it as PATH=VALUE"),
    ],
    ids=lambda settings: str(settings)[:30],
)
def test_a_hostile_setting_is_refused(settings, problem):
    def work():
        with pytest.raises(DeclarationError) as error:
            load("icl-heads", settings=settings)
        assert problem in str(error.value)
        assert len(str(error.value)) < 10_000

    assert guarded(work) is None


@pytest.mark.parametrize(
    "text", ["{{7*7}}", "[a", "!!int abc", "*a", "9" * 5000, "1e3", "null", "a: b", "- a", "\ta", ""]
)
def test_odd_text_is_text_when_it_is_quoted_and_is_read_back(tmp_path, text):
    assert read_yaml(write_yaml({"a": text})) == {"a": text}
    path = tmp_path / "mine.yaml"
    path.write_text(write_yaml({**read_yaml(LANGUAGE), "question": text, "arms": {"plain": {"label": text}}}))
    experiment = load(path)
    assert experiment.question == text
    assert experiment.arms[0].label == text
    assert guarded(lambda: look_at(path)) is None


@pytest.mark.parametrize("name", shipped())
def test_what_comes_with_headway_is_far_from_the_limits(name):
    assert guarded(lambda: look_at(shipped()[name])) is None


LONG = "a" * 5000
NEARLY = "a" * 250
"""A name that a file system takes, but not with an ending."""


@pytest.mark.parametrize(
    "line",
    [
        ["status", LONG], ["status", f"{'a/' * 3000}"], ["compare", LONG], ["report", LONG], ["generate", LONG],
        ["generate", "here", "--tokenizer", LONG], ["export", LONG, "out"], ["export", "here", LONG],
        ["xray", LONG, "--text", "x"], ["xray", "here", "--text", LONG], ["xray", "here", "--text", "t", "--out", LONG],
        ["plan", LONG], ["plan", f"{LONG}.yaml"], ["plan", "gpt2", "--out", f"{LONG}.png"], ["show", LONG],
        ["show", "a/" * 5000], ["run", "icl-heads", "--out", LONG], ["run", LONG], ["run", "icl-heads", "--arms", LONG],
        ["run", "icl-heads", "--device", LONG], ["run", "icl-heads", "--seeds", "9" * 5000],
        ["run", "icl-heads", "--workers", "9" * 30], ["generate", "here", "--seed", "9" * 30],
        ["generate", "here", "--tokens", "9" * 30], ["show", "icl-heads", "--scale", LONG], [LONG], ["--" + LONG],
        ["drop", LONG, "h1"], ["drop", "here", LONG], ["drop", "here", "h1", "--seeds", LONG], ["list", LONG],
        ["run", "icl-heads", "--control", LONG], ["plan", "icl-heads", "--scale", "- " * 5000],
        ["generate", NEARLY], ["export", NEARLY, NEARLY], ["xray", NEARLY, "--text", NEARLY], ["status", NEARLY],
        ["report", NEARLY], ["show", NEARLY], ["run", NEARLY], ["plan", "gpt2", "--out", f"{NEARLY}.png"],
        ["run", "icl-heads", "--out", f"{NEARLY}/{'b/' * 2030}"], ["generate", "here", "--top-p", LONG],
        ["run", "icl-heads", "--trainer", "y" * 100_000], ["show", "icl-heads", "y" * 100_000],
    ],
    ids=lambda line: " ".join(line)[:40],
)  # fmt: skip
def test_a_hostile_command_line_gets_a_sentence(line, tmp_path):
    done = typed(*line, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr) < 10_000


def ended_of(tmp_path, *command):
    return subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_directory_may_begin_with_dashes(tmp_path):
    small = ["--set", "training.steps=10", "--set", "evaluation.prompts=10", "--set", "evaluation.curve=null"]
    line = ["run", "icl-heads", "--out", "--", "--seeds", "1", "--arms", "h1", *small]
    ended = ended_of(tmp_path, "-m", "headway", *line)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "--/report.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [("--files", "100000"), ("--files", "0", "--commands", "10000")], ids=str)
def test_mutated_files_and_command_lines_give_no_traceback_no_hang_and_need_no_memory(kind, tmp_path):
    ended = ended_of(tmp_path, FUZZER, *kind, "--seconds", "5", "--seed", "0")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " 0 findings" in ended.stdout

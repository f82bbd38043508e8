"""What the README shows runs, and what the command line can do stands in the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.config.load import load, resolve
from headway.config.yaml import read_yaml, shipped

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = README + "".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("how-to", "experiments"))


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found[1]


@pytest.mark.slow
def test_the_python_example_runs(tmp_path):
    code = "import warnings; warnings.simplefilter('error')\n" + block("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, *_ = (float(number) for number in done.stdout.strip("[]\n").split(","))
    assert 1 < first < 6
    assert 1 < second < 6


def test_the_example_of_a_file_is_an_experiment():
    experiment = resolve(read_yaml(block("yaml")))
    assert [arm.full_name for arm in experiment.selected] == ["h1", "h2"]
    assert len(experiment.runs) == 10


def test_every_verb_stands_in_the_readme_and_every_verb_there_exists():
    help_text = subprocess.run([sys.executable, "-m", "headway", "--help"], capture_output=True, text=True, check=True)
    verbs = set(re.findall(r"^  ([a-z]+)  ", help_text.stdout.partition("Run:")[2], re.MULTILINE))
    shown = set(re.findall(r"^ {4}headway ([a-z]+)|; headway ([a-z]+)", README, re.MULTILINE))
    assert verbs == {verb for pair in shown for verb in pair if verb}


@pytest.mark.parametrize(
    "line", re.findall(r"^ {4}headway (?:plan|run|show) (icl-.*?)(?: *#.*| *>.*)?$", EXAMPLES, re.MULTILINE)
)
def test_the_commands_of_the_readme_are_about_experiments_that_exist(line):
    name, *options = line.split()
    experiment = load(name)
    controls = [value for option, value in zip(options[::2], options[1::2], strict=True) if option == "--control"]
    assert experiment.select(controls=controls).runs


def test_the_numbers_of_architectures_are_those_of_the_generated_list():
    page = (ROOT / "docs/architectures.md").read_text()
    sizes = {title: int(n) for n, title in re.findall(r"^## (\d+) (\w+(?:: [\w-]+)?)", page, re.MULTILINE)}
    n_ablated = sizes["decoders: x-ray"] + sizes["decoders: all"] + sizes["decoders: ablation"]
    n_traced = n_ablated + sizes["models: x-ray"]
    heads = " ".join((ROOT / "docs/heads.md").read_text().split())
    for words in (" ".join(README.split()), heads):
        assert f"x-rays {n_traced} architectures of `transformers`, and ablates {n_ablated} of them (" in words
    assert f"It supports the same {n_ablated} architectures" in heads


def test_every_experiment_is_on_its_page_with_its_question():
    page = (ROOT / "docs/experiments.md").read_text()
    for name in shipped():
        assert f"| `{name}` | {load(name).question} |" in page


def test_the_readme_is_short_and_has_the_words_that_a_reader_searches_for():
    assert len(README.splitlines()) <= 150
    pages = "activation patching|path patching|ablation|logit difference|confidence interval|pandas|CSV|sweep|resume"
    for word in pages.split("|"):
        assert word.lower() in README.lower(), word


def test_the_targets_that_the_readme_names_exist():
    for target in re.findall(r"^ {4}make ([a-z]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "LOG.md", "CONTRIBUTING.md"])
def test_nothing_is_left_to_be_filled_in(name):
    text = (ROOT / name).read_text()
    words = set(
        re.findall(r"(?<![\w-])[A-Z]{4,}(?:_[A-Z]+)*(?![\w-])", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    )
    known = (
        "HEADWAY_CACHE HEADWAY_NO_SKIPS TORCHINDUCTOR_CACHE_DIR GOMP_SPINCOUNT SLURM_JOB_ID ATEN_CPU_CAPABILITY "
        "ONEDNN_MAX_CPU_ISA ICML YAML JSON LICENSE CHANGELOG CONTRIBUTING HTTP README EPYC NVIDIA CUDA SDPA "
        "SIGTERM SIGKILL STORED_FILES SIGINT SIGHUP PLANTED HOST NAME MODEL CITATION"
    )
    assert words <= {*known.split()}, words


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/house.md"])
def test_numbers_have_one_notation(name):
    assert re.findall(r"(?<![\w./\]*-])\.\d+", (ROOT / name).read_text()) == []
    without_options = re.sub(r"--until [\d.]+%", "", (ROOT / name).read_text())
    assert re.findall(r"\d%", without_options) == []

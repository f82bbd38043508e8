"""Laws of imports: what a reader has to open for a run only gets less, and no module serves one neighbour alone."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import PurePosixPath

import pytest
from support import drawn, small_text
from support.house import SOURCE, Module, modules

from headway.data.tokenizer import bytes_tokenizer
from headway.hf.write import export
from headway.models.weights import initial_weights

MOST_MODULES = {"train/lm/study.py": 83, "analysis/xray.py": 76, "api.py": 138}
"""Modules that a module imports, itself and what they import included: lower a number when it falls."""

FEWEST_LINES_FOR_ONE_NEIGHBOUR = 120
FOR_ONE_NEIGHBOUR = {
    "data/ngrams.py": "a model with formulas and a paper of its own",
    "train/regression_torch.py": "loads torch, which its one importer does only where it is used",
}


@cache
def imports() -> dict[str, frozenset[str]]:
    """The modules that each module names in an import anywhere in it, by their places."""
    by_name = {_name(module): module.place for module in modules()}
    return {module.place: frozenset(_imported(module, by_name)) for module in modules()}


def _name(module: Module) -> str:
    parts = ["headway", *module.place.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: Module, by_name: dict[str, str]) -> set[str]:
    named = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= whole & by_name.keys() or {node.module}
    return {by_name[name] for name in named if name in by_name} - {module.place}


def closure(place: str) -> set[str]:
    """A module with everything that it imports, directly or not."""
    seen, left = set(), {place}
    while left:
        seen.add(each := left.pop())
        left |= imports()[each] - seen
    return seen


@pytest.mark.parametrize("place", MOST_MODULES)
def test_a_reader_of_a_run_opens_no_more_modules_than_before(place):
    assert len(closure(place)) <= MOST_MODULES[place]


def test_a_module_for_one_neighbour_is_a_chapter():
    importers: dict[str, set[str]] = {}
    for place, named in imports().items():
        for each in named:
            importers.setdefault(each, set()).add(place)
    small = {
        module.place
        for module in modules()
        if "/" in module.place
        and module.lines < FEWEST_LINES_FOR_ONE_NEIGHBOUR
        and [PurePosixPath(each).parent for each in importers.get(module.place, ())]
        == [PurePosixPath(module.place).parent]
    }
    assert small == FOR_ONE_NEIGHBOUR.keys()


def test_the_closure_follows_imports_inside_functions():
    assert "store/run.py" in closure("api.py")
    assert closure("errors.py") == {"errors.py"}


COUNTS_MODULES = """
import atexit, os, sys

def write():
    loaded = [name for name in sys.modules if name.split(".")[0] == "headway"]
    with open(os.path.join(os.environ["COUNTS"], f"{os.path.basename(sys.argv[0])}-{os.getpid()}"), "w") as file:
        file.write(str(len(loaded)))

atexit.register(write)
"""
"""What each process writes when it ends, as `sitecustomize` of an interpreter."""

MOST_LOADED = {"in-context worker": 49, "text worker": 87, "x-ray of a folder": 77}
"""Modules of Headway that a process has loaded at its end: lower a number when it falls."""
SHORT = ("--set", "training.steps=3", "--no-timing", "--no-figures")
FEW_PROMPTS = ("--set", "evaluation.prompts=100", "--set", "evaluation.curve.prompts=10")
REGRESSION = ("icl-heads", "--arms", "h2", "--seeds", "1")


@pytest.mark.slow
def test_a_process_loads_no_more_modules_than_before(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(COUNTS_MODULES)
    task, model = small_text.CONTENT["task"], small_text.CONTENT["model"]
    training = {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 4}
    document = {"name": "small", "task": task, "model": model, "training": training, "arms": {"a": {}}, "seeds": 1}
    (tmp_path / "small.yaml").write_text(json.dumps(document))
    gpt_2 = drawn.STOCK["gpt2"][1]
    export(gpt_2, 257, initial_weights(gpt_2, 257, seed=0), tmp_path / "model", bytes_tokenizer())
    (tmp_path / "text.txt").write_text("A head attends to the token before it. " * 60)

    def loaded(program: str, *line: str) -> int:
        counts = tmp_path / f"counts-{line[0]}-{line[1]}"
        counts.mkdir()
        paths = os.pathsep.join([str(tmp_path), str(SOURCE.parent)])
        told = {**os.environ, "PYTHONPATH": paths, "COUNTS": str(counts)}
        command = [sys.executable, "-m", "headway", *line]
        subprocess.run(command, env=told, cwd=tmp_path, check=True, capture_output=True)
        return max(int(file.read_text()) for file in counts.glob(f"{program}-*"))

    found = {
        "in-context worker": loaded("worker.py", "run", *REGRESSION, *FEW_PROMPTS, *SHORT),
        "text worker": loaded("worker.py", "run", "small.yaml", *SHORT),
        "x-ray of a folder": loaded("__main__.py", "xray", "model", "--text", "text.txt"),
    }
    assert found == MOST_LOADED

"""Laws of the house: a file is a chapter, and functions are read without scrolling."""

import ast
import tomllib

from support.house import ROOT, functions, modules

LONGEST_FILE = 600
LONGEST_FUNCTION = 45
"""Lines from `def` to the end, without the docstring."""

LONG_FILES = {"base/words.py": "a table of all sentences on results"}

LONG_FUNCTIONS = {
    "api.py:run": "a line for each option",
    "cli/models.py:patch": "a line for each option",
    "cli/experiments.py:run": "a line for each option",
    "cli/directories.py:judge": "a line for each option",
    "cli/models.py:look": "a line for each option",
    "analysis/ablate.py:ablate": "the order in which heads are taken away",
    "analysis/look.py:look": "the order in which a model is looked at",
    "analysis/prune.py:prune": "the order in which a model is pruned and judged",
}


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    whole = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    docstring = function.body[0]
    assert docstring.end_lineno is not None
    return whole - (docstring.end_lineno - docstring.lineno + 1)


def test_files_are_short():
    long = {module.place: module.lines for module in modules() if module.lines > LONGEST_FILE}
    assert long.keys() == LONG_FILES.keys(), long


def test_functions_are_short():
    long = {
        f"{module.place}:{function.name}": length(function)
        for module in modules()
        for function in functions(module.tree)
        if length(function) > LONGEST_FUNCTION
    }
    assert long.keys() == LONG_FUNCTIONS.keys(), long


def test_the_linter_bounds_how_many_ways_a_function_has():
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "C901" in ruff["select"]
    assert ruff["mccabe"]["max-complexity"] <= 10
    let_off = [files for files, rules in ruff["per-file-ignores"].items() if "C901" in rules]
    assert let_off == []

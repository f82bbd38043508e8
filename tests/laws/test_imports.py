"""Laws of imports: what a reader has to open for a run only gets less, and no module serves one neighbour alone."""

import ast
from functools import cache
from pathlib import PurePosixPath

import pytest
from support.house import Module, modules

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

"""Laws of the house: a name means one thing, a room says what is in it, and only the door prints."""

import ast
import re
from collections import defaultdict

import pytest
from support.house import ROOT, SOURCE, modules, packages

PRINTING = ("print", "sys.stdout.write", "typer.echo", "typer.secho", "Console")
PRINTERS = {
    "api.py": "how far a call is, beside a live table",
    "cli/options.py": "the door, where `say` shows what would steer a terminal",
    "execute/timing.py": "a worker's log",
    "execute/ensemble.py": "a worker's log",
    "execute/work.py": "a worker's log",
    "execute/worker.py": "a worker's log",
}

BACKWARDS = ("Of ", "The same", "Nothing", "That ", "As ", "By ", "In which")
"""Beginnings that only make sense beside another sentence."""


def test_no_two_classes_have_one_name():
    places = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            places[node.name].add(module.place)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("package", packages())
def test_a_room_names_its_modules(package):
    folder = SOURCE / package
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"(?<!`)`([a-z_][a-z0-9_]*)`", docstring))
    assert inside - named == set(), "modules that the docstring does not name"
    assert named - inside == set(), "names in the docstring that are no modules"


def test_a_docstring_begins_with_a_line_that_stands_alone():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    backwards = {
        f"{module.place}: {line}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, kinds)
        for line in [first_line(node)]
        if line.startswith(BACKWARDS)
    }
    assert backwards == set()


def test_a_module_does_not_begin_with_the_name_of_its_folder():
    repeating = {
        module.place: line
        for module in modules()
        for line in [first_line(module.tree)]
        if any(line.lower().startswith(f"{folder}:") for folder in module.place.split("/")[:-1])
    }
    assert repeating == {}


def first_line(node):
    return (ast.get_docstring(node) or "").partition("\n")[0]


def test_only_the_door_prints():
    printing = set()
    for module in modules():
        calls = (node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        if any(ast.unparse(call) in PRINTING for call in calls):
            printing.add(module.place)
    assert printing == PRINTERS.keys()


@pytest.mark.slow
def test_every_test_file_begins_with_a_line_that_says_what_it_is_about():
    files = [*(ROOT / "tests").rglob("*.py")]
    assert len(files) > 80
    assert [path.relative_to(ROOT).as_posix() for path in files if not says_what_it_is_about(path)] == []


def says_what_it_is_about(path):
    first, _, rest = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")
    return re.search(r"[.:?]$", first) is not None and (not rest or rest.startswith("\n"))

"""Laws of the house: a name means one thing, a room says what is in it, and only the door prints."""

import ast
import re
from collections import defaultdict

import pytest
from house import ROOT, SOURCE, modules, packages

ONE_IDEA = {
    "attention": "the layer, of transformers and of the one-layer models",
    "budget": "what a run costs, in all laboratories and in each",
    "contrasts": "differences between arms, asked for and answered",
    "circuits": "QK and OV, of transformers and of the one-layer models",
    "laboratory": "what a room wants of its slices",
    "page": "an HTML page, shared and of each kind",
    "parameters": "where parameters go, counted and drawn",
    "progress": "how far runs are, known and printed",
    "reference": "what is generated in docs, of experiments and of results",
    "run": "a run, in all laboratories and in each",
    "shapes": "published models, declared and printed",
    "together": "runs of one shape, worked on by one process and trained as one program",
    "transformer": "the model, declared and built",
    "weights": "arrays by name, of transformers and of the one-layer models",
    "tasks": "what models are asked, declared, and by which figures are split",
    "xray": "the heads of a finished model, measured and found",
}
"""Modules of one name outside the slices, which say the same of different rooms."""

PRINTERS = {
    "cli/__init__.py": "the door",
    "cli/directories.py": "the door",
    "cli/directories.py": "the door",
    "cli/directories.py": "the door",
    "cli/experiments.py": "the door",
    "cli/models.py": "the door",
    "cli/models.py": "the door",
    "cli/options.py": "the door",
    "execute/timing.py": "a worker's log",
    "execute/ensemble.py": "a worker's log",
    "execute/work.py": "a worker's log",
    "execute/worker.py": "a worker's log",
}


def test_no_two_classes_have_one_name():
    places = defaultdict(set)
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            places[node.name].add(module.place)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_few_modules_have_one_name():
    places = defaultdict(set)
    for module in modules():
        name = module.place.rpartition("/")[2].removesuffix(".py")
        if name != "__init__":
            places[name].add(module)
    outside = {
        name: {module.place for module in found}
        for name, found in places.items()
        if len(found) > 1 and not all(module.in_slice for module in found)
    }
    assert {name: found for name, found in outside.items() if name not in ONE_IDEA} == {}
    assert outside.keys() >= ONE_IDEA.keys()


@pytest.mark.parametrize("package", packages())
def test_a_room_names_its_modules(package):
    folder = SOURCE / package
    inside = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inside |= {path.parent.name for path in folder.glob("*/__init__.py")}
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    named = set(re.findall(r"(?<!`)`([a-z_][a-z0-9_]*)`", docstring))
    assert inside - named == set(), "modules that the docstring does not name"
    assert named - inside == set(), "names in the docstring that are no modules"


def test_only_the_door_prints():
    printing = set()
    for module in modules():
        calls = (node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        if any(ast.unparse(call) in ("print", "sys.stdout.write", "typer.echo") for call in calls):
            printing.add(module.place)
    assert printing == PRINTERS.keys()


def test_every_test_file_begins_with_a_line_that_says_what_it_is_about():
    files = [*(ROOT / "tests").rglob("*.py")]
    assert len(files) > 80
    assert [path.relative_to(ROOT).as_posix() for path in files if not says_what_it_is_about(path)] == []


def says_what_it_is_about(path):
    first, _, rest = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")
    return re.search(r"[.:?]$", first) is not None and (not rest or rest.startswith("\n"))

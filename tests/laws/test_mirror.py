"""Law: tests stand where their modules stand, so that whoever changes a module finds its tests by its path."""

from support.house import ROOT, SOURCE

TESTS = ROOT / "tests"
OF_NO_MODULE = {"benchmarks", "docs", "faults", "laws", "published"}
"""Folders of tests of what is no module, or of the whole: benchmarks, pages, faults, laws, published numbers."""


def test_every_test_file_is_named_after_a_module_in_its_place():
    assert [place(path) for path in files("test_*.py") if not has_module(path)] == []


def test_what_is_no_test_stands_in_support():
    others = {*files("*.py")} - {*files("test_*.py")} - {*files("conftest.py")}
    assert {place(path) for path in others if path.parent != TESTS / "support"} == set()


def files(pattern):
    return sorted(path for path in TESTS.rglob(pattern) if path.relative_to(TESTS).parts[0] != "before")


def place(path):
    return path.relative_to(TESTS).as_posix()


def has_module(path):
    """Whether `test_goal.py` or `test_goal_margins.py` has a `goal.py` where it stands."""
    folder = path.parent.relative_to(TESTS)
    words = path.stem.split("_")[1:]
    names = ("_".join(words[:n]) for n in range(1, len(words) + 1))
    return folder.as_posix() in OF_NO_MODULE or any((SOURCE / folder / f"{name}.py").is_file() for name in names)

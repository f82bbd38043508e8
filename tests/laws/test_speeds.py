"""Two speeds: one marker decides which tests a newcomer runs, and every test runs in one of the two."""

import re

from support.house import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def recipe(target):
    return re.search(rf"^{target}: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1].split()


def test_the_quick_and_the_slow_tests_are_all_tests():
    assert recipe("test") == ["$(PYTEST)", "-m", '"not', 'slow"']
    assert recipe("test-rest") == ["$(PYTEST)", "-m", "slow"]
    assert recipe("test-all") == ["$(PYTEST)"]


def test_nothing_but_the_marker_leaves_a_test_out():
    command = re.search(r"^PYTEST = (.*)$", MAKEFILE, re.MULTILINE)[1]
    options = set(re.findall(r"(?<= )--?[a-z-]+", command))
    assert options == {"-m", "-n", "--dist"}
    assert "python -m pytest" in command
    hooks = {"pytest_ignore_collect", "pytest_collection_modifyitems", "pytest_deselected"}
    for conftest in (ROOT / "tests").rglob("conftest.py"):
        assert not hooks & set(re.findall(r"\w+", conftest.read_text(encoding="utf-8"))), conftest


def test_ci_runs_them_all():
    assert re.search(
        r"^HEADWAY_NO_SKIPS=1 make test-all$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE
    )

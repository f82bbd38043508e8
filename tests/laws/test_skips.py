"""Laws of the house: where HEADWAY_NO_SKIPS is set, as in CI, a test is skipped only for what no package can bring."""

import os
import subprocess
import sys

import pytest
from support.house import ROOT
from support.skips import EXCUSES

TESTS = """
import pytest

@pytest.mark.skipif(True, reason="there is no Chromium or Chrome here")
def test_marked():
    pass

def test_skips():
    pytest.importorskip("a_package_that_nobody_has")

@pytest.mark.skipif(True, reason="there is no GPU")
def test_excused():
    pass

@pytest.mark.xfail
def test_expected_to_fail():
    assert False
"""
FILE = 'import pytest\npytest.importorskip("a_package_that_nobody_has")\n'


def outcome(folder, no_skips, **files):
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "HEADWAY_NO_SKIPS": no_skips}
    options = ["-q", "--continue-on-collection-errors", "-p", "support.skips", "-c", "none.ini", "--rootdir=."]
    command = [sys.executable, "-m", "pytest", *options, "."]
    (folder / "none.ini").write_text("[pytest]")
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_where_nothing_is_asked_tests_are_skipped_with_a_reason(tmp_path):
    ended = outcome(tmp_path, "", of_tests=TESTS, of_a_file=FILE)
    assert (ended.returncode, ended.stdout.splitlines()[-1].split(" in ")[0]) == (0, "4 skipped, 1 xfailed")


@pytest.mark.slow
def test_in_ci_a_skip_without_an_excuse_fails_and_says_why(tmp_path):
    ended = outcome(tmp_path, "1", of_tests=TESTS, of_a_file=FILE)
    assert ended.returncode == 1
    assert "1 failed, 1 skipped, 1 xfailed, 2 errors" in ended.stdout
    assert "could not import 'a_package_that_nobody_has'" in ended.stdout
    assert (
        "there is no Chromium or Chrome here; HEADWAY_NO_SKIPS is set, so install what the test needs" in ended.stdout
    )


@pytest.mark.parametrize("excuse", EXCUSES)
def test_every_excuse_is_a_reason_of_some_test(excuse):
    others = (file for file in (ROOT / "tests").rglob("*.py") if file.name not in ("skips.py", "test_skips.py"))
    assert any(excuse in file.read_text() for file in others)

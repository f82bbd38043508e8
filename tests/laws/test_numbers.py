"""Laws of the house: numbers have a zero before the point, and a page parts no number from its per cent sign."""

import ast
import re
from pathlib import Path

import pytest
from support.house import ROOT, SOURCE

from headway.report.charts.page import templates

BARE = re.compile(r"(?<![\w.)\]}])\.(?!0\b)\d+(?![\w~%])")
"""A number that begins with its point; `.3f` and `.1%` are formats, and `.0` is what a whole number drops."""
STRIPS_ZERO = re.compile(r"""(?:removeprefix|lstrip)\(["']0["']\)|replace\((?:["']-?0\.["']|/[^/]*0\\\\?\.)""")
"""Code that takes the zero away."""
FOLDERS = (SOURCE, ROOT / "docs", ROOT / "README.md")
TEXTS = sorted(
    path
    for folder in FOLDERS
    for path in (folder.rglob("*") if folder.is_dir() else [folder])
    if path.suffix in (".py", ".j2", ".yaml", ".md") and "history" not in path.parts and ".css" not in path.name
)


def lines_to_read(path: Path) -> list[str]:
    """Return the strings of a program, docstrings too, and the text of any other file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text.splitlines()
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return [line for string in strings if isinstance(string, str) for line in string.splitlines()]


def test_no_text_has_a_number_without_its_zero():
    found = [f"{path}: {line}" for path in TEXTS for line in lines_to_read(path) if BARE.search(line)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "is_bare"),
    [
        ("from .4 on", True),
        ("(.89)", True),
        ("−.10", True),
        ("0.12, 1.5 and −0.1", False),
        ("{share:.2f} .1%", False),
        ("version 1.2.3, L0.5", False),
    ],
)
def test_what_is_a_number_without_its_zero(text, is_bare):
    assert (BARE.search(text) is not None) is is_bare


def test_no_code_takes_the_zero_away():
    found = [str(path) for path in TEXTS if STRIPS_ZERO.search(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("code", "strips"),
    [
        ('text.replace("0.", ".", 1)', True),
        ('text.removeprefix("0")', True),
        (r'text.replace(/^0\./, ".")', True),
        ('text.replace(".0 s", " s")', False),
    ],
)
def test_what_takes_the_zero_away(code, strips):
    assert (STRIPS_ZERO.search(code) is not None) is strips


def test_no_line_of_a_page_ends_before_a_per_cent_sign():
    page = templates().from_string("<p>{{ plain }} {{ marked | whole }}</p>").render(plain="5 % < 6 %", marked="7 %")
    assert page == "<p>5\xa0% &lt; 6\xa0% 7\xa0%</p>"

"""The rendered reference: made without a warning, and every public name is in it and says what it is."""

import inspect
import pydoc
import re
import runpy
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = [
    line.partition("(")[0]
    for line in (ROOT / "tests" / "laws" / "public_names.txt").read_text(encoding="utf-8").splitlines()
]
PUBLIC = runpy.run_path(str(ROOT / "docs" / "reference.py"))["public"]()
HOMES = {name: module for module, names in PUBLIC.items() for name in names or ()}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-W", "error", ROOT / "docs" / "reference.py", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


def place(name: str) -> tuple[str, str]:
    """The module that a public name is shown in, and the name there."""
    first, _, rest = name.partition(".")
    if first in HOMES:
        return HOMES[first], name
    module, _, member = name.rpartition(".")
    return (module, member) if rest and not inspect.ismodule(pydoc.locate(name)) else (name, "")


def where_it_stands(name: str) -> str:
    """The name that the reference shows: that of the base of which a class has a member."""
    first, _, member = name.partition(".")
    if first not in HOMES or not member:
        return name
    bases = pydoc.locate(f"{HOMES[first]}.{first}").__mro__
    holds = [base for base in bases if member in {**vars(base), **inspect.get_annotations(base)}]
    return f"{holds[0].__name__}.{member}" if holds else name


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(pages):
    for name in NAMES:
        module, member = place(where_it_stands(name))
        page = (pages / f"{module.replace('.', '/')}.html").read_text(encoding="utf-8")
        assert not member or f'id="{member}"' in page, name


@pytest.mark.slow
def test_links_between_its_pages_lead_somewhere(pages):
    found = [*pages.rglob("*.html")]
    assert len(found) > 15
    for page in found:
        for link in re.findall(r'href="((?!http|#|\$)[^"]+)"', page.read_text(encoding="utf-8")):
            file, _, name = link.partition("#")
            target = page.parent / file
            assert target.is_file(), (page.name, link)
            assert not name or f'id="{name}"' in target.read_text(encoding="utf-8"), (page.name, link)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_is(name):
    module, member = place(name)
    value = pydoc.locate(f"{module}.{member}" if member else module)
    if (
        inspect.isroutine(value)
        or inspect.isclass(value)
        or inspect.ismodule(value)
        or isinstance(value, property | cached_property)
    ):
        said = (inspect.getdoc(value) or "").splitlines()
        assert said, "it has no docstring"
        assert re.search(r"[.:;?]$", said[0]), "its first line is no sentence"

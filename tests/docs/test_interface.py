"""The Python reference: every public name is in it and says what it is."""

import inspect
import pydoc
import re
import runpy
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


def place(name: str) -> tuple[str, str]:
    """The module that a public name is shown in, and the name there."""
    first, _, rest = name.partition(".")
    if first in HOMES:
        return HOMES[first], name
    module, _, member = name.rpartition(".")
    return (module, member) if rest and not inspect.ismodule(pydoc.locate(name)) else (name, "")


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    pages = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    shown = set(re.findall(r'id="([\w.-]+)"', pages))
    homes = {"headway.Trace": "headway.models.trace.Trace"}
    wanted = [homes.get(name) or ".".join(filter(None, place(name))) for name in NAMES]
    assert [name for name in wanted if name not in shown and f"module-{name}" not in shown] == []


def fault(name):
    """What is missing of what a name says of itself; "" where nothing has to be said."""
    module, member = place(name)
    value = pydoc.locate(f"{module}.{member}" if member else module)
    has_to_say = (inspect.isroutine(value), inspect.isclass(value), inspect.ismodule(value))
    if not any(has_to_say) and not isinstance(value, property | cached_property):
        return ""
    said = (inspect.getdoc(value) or "").splitlines()
    if not said:
        return "it has no docstring"
    return "" if re.search(r"[.:;?]$", said[0]) else "its first line is no sentence"


def test_every_public_name_says_what_it_is():
    assert len(NAMES) > 400
    assert {name: found for name in NAMES if (found := fault(name))} == {}

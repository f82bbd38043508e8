"""Every architecture that docs/architectures.md says is traced: its attentions return what their traces say."""

import re
import runpy
from pathlib import Path

import pytest
import transformers

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "architectures.md").read_text()
SCRIPT = runpy.run_path(str(DOCS / "architectures.py"))
KINDS = dict(SCRIPT["types"]())


def listed(title):
    """The types under a title of the page."""
    (part,) = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if re.match(rf"\d+ {title}", part))
    return re.findall(r"^\| `([^`]+)`", part, re.MULTILINE) or re.findall(r"`([^`]+)`", part)


def known(name):
    if name not in KINDS:
        pytest.skip(f"this transformers has no {name}")
    return KINDS[name]


@pytest.mark.parametrize("name", listed("agree"))
def test_it_agrees(name):
    what, more = SCRIPT["outcome"](name, known(name))
    assert what == "agrees", more
    assert int(more) > 0


@pytest.mark.parametrize("name", listed("are refused"))
def test_it_is_refused_with_a_sentence(name):
    what, more = SCRIPT["outcome"](name, known(name))
    assert what == "refused", (what, more)
    assert more


def test_there_are_many_and_no_type_is_left_out():
    assert len(listed("agree")) >= 51
    if f"transformers {transformers.__version__}," not in PAGE:
        pytest.skip("the page is of another transformers")
    said = {*listed("agree"), *listed("are refused"), *listed("were not drawn")}
    assert said == set(KINDS)

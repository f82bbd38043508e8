"""No picture in docs is older than what draws it: `make pictures` photographs the pages anew."""

import json
import runpy
from hashlib import sha256
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "pictures.py"))
STORED = json.loads((DOCS / "pictures.json").read_text(encoding="utf-8"))
digest = SCRIPT["digest"]


def test_every_picture_is_the_one_that_was_photographed():
    assert STORED.keys() == SCRIPT["PICTURES"].keys()
    for name, digests in STORED.items():
        assert sha256((DOCS / f"{name}.png").read_bytes()).hexdigest() == digests["picture"], "type `make pictures`"


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPT["PICTURES"])
def test_a_picture_shows_what_its_page_shows_now(name):
    make, _ = SCRIPT["PICTURES"][name]
    assert digest(*make()) == STORED[name]["drawn"], f"docs/{name}.png is older than its page; type `make pictures`"


PAGE = "<p>1 head: 0.95 (8.8e−4)</p><script>1</script><style>p { width: 3px }</style>"


@pytest.mark.parametrize(
    ("page", "is_same"),
    [
        (PAGE, True),
        (PAGE.replace("0.95", "0.951").replace("8.8e−4", "1.2e−5"), True),
        (PAGE.replace("<script>1</script>", "<script>data</script>"), True),
        (PAGE.replace("head", "heads"), False),
        (PAGE.replace("width", "height"), False),
    ],
)
def test_numbers_and_data_do_not_age_a_picture_and_words_do(page, is_same):
    assert (digest(page, []) == digest(PAGE, [])) is is_same


@pytest.mark.parametrize(
    ("spec", "is_same"),
    [
        ({"mark": "bar", "data": {"values": [2.5]}}, True),
        ({"mark": "bar", "data": {"name": "other"}, "datasets": {"other": []}}, True),
        ({"mark": "line", "data": {"values": [1.5]}}, False),
    ],
)
def test_a_figure_ages_by_its_drawing_and_not_by_its_data(spec, is_same):
    drawn = {"mark": "bar", "data": {"values": [1.5]}}
    assert (digest(PAGE, [spec]) == digest(PAGE, [drawn])) is is_same

"""The pages of the documentation: their generated parts are those of the source, and what they name is there."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FOLDERS = ("", "src/headway")
"""Where paths begin."""
PARTS = r"[\w.-]+"


def names(page: Path) -> list[str]:
    """What stands in backticks and looks like a path of the source."""
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    words = [word for span in spans for word in span.split()]
    rooms = "|".join(path.parent.name for path in (ROOT / "src/headway").glob("*/__init__.py"))
    file = rf"(?:{PARTS}/)*{PARTS}\.(?:py|cpp|hpp|j2|md|toml|ipynb)|(?:{PARTS}/)+{PARTS}\.(?:yaml|json|txt)"
    folder = rf"(?:src|tests|docs|benchmarks|experiments|{rooms})/(?:{PARTS}/)*"
    own = re.compile(rf"(?:{file}|{folder})")
    return [word for word in words if own.fullmatch(word) and word != "mine.py"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_looks_like_a_path_of_the_source_is_one(page):
    missing = [name for name in names(page) if not any((ROOT / folder / name).exists() for folder in FOLDERS)]
    assert not missing


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "house.md"], ids=lambda page: page.name)
def test_no_line_sends_a_reader_to_one_file_twice(page):
    for line in page.read_text().splitlines():
        files = re.findall(r"`([\w/]+\.py)`", line)
        assert len(files) == len(set(files)), line


def test_paths_are_found_in_pages():
    assert len(names(ROOT / "CONTRIBUTING.md")) > 30
    assert len(names(ROOT / "docs" / "house.md")) > 50
    assert "src/headway/icl/step.cpp" in names(ROOT / "docs" / "speed.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(((?!http)[^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_generated_parts_of_the_house_are_up_to_date():
    page = (ROOT / "docs" / "house.md").read_text()
    assert runpy.run_path(str(ROOT / "docs" / "house.py"))["written"](page) == page, "run `make docs`"

"""The documentation site is built without a warning, and needs no network."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_every_page_of_docs_is_there_and_needs_no_network(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"index", "start", "log", "command-line", "python"}
    assert pages <= {page.stem for page in site.glob("*.html")}
    for page in (site / f"{name}.html" for name in pages):
        loaded = re.findall(r"<(?:script|img|link)[^>]* (?:src|href)=\"(https?:[^\"]*)\"", page.read_text())
        assert loaded == [], page.name
    assert not (site / ".doctrees").exists()


def test_every_picture_and_every_link_within_the_site_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        for link in re.findall(r"(?:src|href)=\"([^\"#?]+)", page.read_text()):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / unquote(link)).exists(), (page.relative_to(site), link)


def test_the_front_page_has_a_picture_an_install_line_and_a_place_to_start(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert "make demo" in page
    assert "Start here" in page
    assert re.search(r"<img[^>]*report\.png", page)


def test_a_notebook_is_a_page_with_its_outputs(site: Path) -> None:
    page = (site / "from-a-file-to-a-head.html").read_text()
    assert page.count("nats per token") > 6
    assert re.search(r"<img[^>]*from-a-file-to-a-head-\d+\.png", page)


def test_search_finds_functions(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    assert all(f'"{name}"' in index for name in ("ablate", "xray", "patch", "head_metric"))


def test_the_reference_has_every_verb_and_every_metric(site: Path) -> None:
    from headway.config.head_metrics import HEAD_METRICS

    metrics = (site / "head-metrics.html").read_text()
    assert all(name in metrics for name in HEAD_METRICS)
    verbs = (site / "command-line.html").read_text()
    assert all(f"headway-{verb}" in verbs for verb in ("run", "xray", "ablate", "patch", "worker"))
    assert "--until" in verbs

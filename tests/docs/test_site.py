"""The documentation site is built without a warning, and needs no network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = [sys.executable, str(ROOT / "docs/site.py"), str(folder)]
    done = subprocess.run(made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_page_of_docs_is_there_and_needs_no_network(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"index", "start", "log", "command-line", "python"}
    assert pages <= {page.stem for page in site.glob("*.html")}
    for page in (site / f"{name}.html" for name in pages):
        loaded = re.findall(r"<(?:script|img|link)[^>]* (?:src|href)=\"(https?:[^\"]*)\"", page.read_text())
        assert loaded == [], page.name


@pytest.mark.slow
def test_the_reference_has_every_verb_and_every_metric(site: Path) -> None:
    from headway.config.head_metrics import HEAD_METRICS

    metrics = (site / "head-metrics.html").read_text()
    assert all(name in metrics for name in HEAD_METRICS)
    verbs = (site / "command-line.html").read_text()
    assert all(f"headway-{verb}" in verbs for verb in ("run", "xray", "ablate", "patch", "worker"))
    assert "--until" in verbs

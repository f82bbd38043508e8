"""Docs: the pictures of pages, photographed by a browser: `make pictures` writes them, and what each was drawn from.

The x-ray and the look are of a model whose two heads are planted by hand, so the right answer is known and no input has
to be stored. The report is of a small results directory, which stands in `pictures/`. `pictures.json` holds a digest of
what each picture was drawn from: the page without its numbers, whose last digits depend on the processor, and the
templates. A test compares it with what is drawn now.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIGESTS = ROOT / "docs" / "pictures.json"
STORED = ROOT / "docs" / "pictures" / "icl-heads"
"""`headway run icl-heads --seeds 3` with fewer steps and records: the results that the picture of a report is of."""
TEMPLATES = ROOT / "src/headway/report/templates"
WIDTH = 1200
SEED = 4
_SCRIPTS = re.compile(r"<script.*?</script>|content=\"default-src[^\"]*\"", re.DOTALL)
_NUMBERS = re.compile(r"[−-]?(?:\d[\d,]*)?\.?\d+(?:e[−-]?\d+)?")


def xray() -> tuple[str, list[Any]]:
    """Return the page of the x-ray, and the specifications of its figures."""
    import headway
    from headway.report.models.xray import xray_page

    model, tokens = _planted()
    page = xray_page(replace(headway.xray(model, tokens=tokens, draws=16), name="A model with two planted heads"))
    return page.html("headway xray MODEL"), [figure.spec for figure in page.figures]


def look() -> tuple[str, list[Any]]:
    """Return the page of the look, which has no figures but its own scripts."""
    import headway
    from headway.report.models.look import look_page

    model, tokens = _planted()
    view = headway.look(model, tokens=tokens, sequences=len(tokens), draws=16)
    return look_page([view], "headway look MODEL", title="A model with two planted heads").html, []


def report() -> tuple[str, list[Any]]:
    """Return the page of the report on the stored results, and the specifications of its figures."""
    from headway.report.experiment.data import gather
    from headway.report.experiment.page import figures, page
    from headway.stats.results import build
    from headway.store.directory import Store

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the page names the directory
        store = Store.open(shutil.copytree(STORED, "icl-heads"))
        material = gather(store, build(store))
        drawn = list(figures(material))
        return page(material, drawn), [figure.spec for figure in drawn]


PICTURES: dict[str, tuple[Callable[[], tuple[str, list[Any]]], int]] = {
    "xray": (xray, 900),
    "look": (look, 1000),
    "report": (report, 900),
}
"""The pictures by name: what makes the page, and how many pixels of it are shown."""


def _planted() -> tuple[Any, Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    from support.planted import planted, texts

    return planted(SEED)[0], texts(SEED)[0].numpy()


def digest(html: str, specs: list[Any]) -> str:
    """Return the digest of a page without its data, and of the templates that draw it."""
    seen = _NUMBERS.sub("#", _SCRIPTS.sub("", html))
    figures = _NUMBERS.sub("#", json.dumps([_without_data(spec) for spec in specs], sort_keys=True))
    templates = "".join(file.read_text(encoding="utf-8") for file in sorted(TEMPLATES.glob("*.j2")))
    return sha256("\n".join((seen, figures, templates)).encode()).hexdigest()


def _without_data(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_data(inner) for key, inner in value.items() if key not in ("data", "datasets", "domain")}
    return [_without_data(inner) for inner in value] if isinstance(value, list) else value


def photograph(html: str, path: Path, height: int) -> None:
    """Write a picture of the beginning of a page with the browser of the tests."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.browser_driver import COMMAND

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        options = ("--hide-scrollbars", "--virtual-time-budget=8000", f"--window-size={WIDTH},{height}")
        subprocess.run([*COMMAND, *options, f"--screenshot={path}", page.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Write every picture and the digests."""
    digests = {}
    for name, (make, height) in PICTURES.items():
        html, specs = make()
        photograph(html, ROOT / "docs" / f"{name}.png", height)
        picture = sha256((ROOT / "docs" / f"{name}.png").read_bytes()).hexdigest()
        digests[name] = {"drawn": digest(html, specs), "picture": picture}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Docs: the documentation site, built by Sphinx without a network: `make docs-site` writes it into build/site."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from headway.config.head_metrics import HEAD_METRICS

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PAGES = {
    "Start": ("start", "experiments", "results", "answers/README", "faq", "glossary"),
    "How to": ("how-to", "machines", "heads", "your-own", "toy-models", "commands"),
    "Reference": ("command-line", "experiment-keys", "head-metrics", "architectures", "python"),
    "How it works": ("running", "gpu", "speed", "house", "log", "history/2026-11-22", "changelog", "contributing"),
}
"""The pages of the site by caption. Most stand in docs; `generated` writes the others."""
SETTINGS = f"""
project, author, version = "Headway", "The authors of Headway", "{VERSION}"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme, html_title = "furo", "Headway {VERSION}"
html_show_sourcelink = html_show_copyright = False
html_extra_path = ["extra"]
"""


_INTERFACE = "<a href='headway.html'>Every public name</a>, from the docstrings."


def generated() -> dict[str, str]:
    """Return the text of each page that is written from the code, or stands outside docs, by its file."""
    readme = (ROOT / "README.md").read_text()
    part = {
        title: f"## {title}{text}" for title, text in re.findall(r"^## ([^\n]+)(.*?)(?=^## |\Z)", readme, re.M | re.S)
    }
    beginning = readme.partition("## ")[0].replace("# Headway", "# The first run", 1)
    start = [beginning, *(part[name] for name in ("Install", "Three things to do first", "A question is a file"))]
    trees = (
        "```{toctree}\n:caption: " + caption + "\n:maxdepth: 1\n\n" + "\n".join(present(pages)) + "\n```"
        for caption, pages in PAGES.items()
    )
    return {
        "index.md": "\n\n".join(["# Headway", *beginning.split("\n\n")[1:2], *trees]),
        "start.md": "".join(start).replace("](docs/", "]("),
        "command-line.md": command_line(),
        "head-metrics.md": head_metrics(),
        "python.md": f"# Python interface\n\n{_INTERFACE}\n\n{part['From Python']}",
        **{f"{name.lower()}.md": (ROOT / f"{name}.md").read_text() for name in ("LOG", "CHANGELOG", "CONTRIBUTING")},
    }


def present(pages: tuple[str, ...]) -> list[str]:
    """Return the pages, with those of the answers after their list."""
    answers = sorted(f"answers/{page.stem}" for page in (ROOT / "docs/answers").glob("*.md") if page.stem != "README")
    return [each for page in pages for each in (page, *(answers if page == "answers/README" else ()))]


def command_line() -> str:
    """Return the help of each verb, with all its options."""
    asked = [sys.executable, "-m", "typer", "headway.cli", "utils", "docs", "--name", "headway"]
    text = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return text.replace("# `headway`", "# The command line", 1)


def head_metrics() -> str:
    """Return the metrics of heads: formula, unit, null, and what a high value means."""
    told = (
        f"## `{metric.name}`\n\nFor each {metric.of}: {metric.sentence}. Unit or range: {metric.unit}. "
        f"Null: {metric.null.sentence}." + (f" A high value means {metric.high}." if metric.high else "")
        for metric in HEAD_METRICS.values()
    )
    return "# Metrics of heads\n\nA null is the value of a head that does nothing in particular.\n\n" + "\n\n".join(
        told
    )


def write_source(source: Path) -> None:
    """Write the pages, with links that lead from page to page of the site."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, source)
    for name, text in generated().items():
        (source / name).write_text(text)
    (source / "conf.py").write_text(SETTINGS)
    for page in source.rglob("*.md"):
        page.write_text(linked(page.read_text()))


def linked(text: str) -> str:
    """Return a page with links to the site's own names for README, LOG, CHANGELOG, CONTRIBUTING and files."""
    text = re.sub(r"\]\((?:\.\./|docs/)", "](", text)
    text = re.sub(r"\]\(README\.md", "](index.md", text)
    return re.sub(r"\]\((LOG|CHANGELOG|CONTRIBUTING)\.md", lambda found: f"]({found[1].lower()}.md", text)


def main(folder: Path) -> None:
    """Build the site; a warning of Sphinx, such as a link that leads nowhere, is an error."""
    source, site = folder / "source", folder / "html"
    write_source(source)
    subprocess.run([sys.executable, "-W", "error", ROOT / "docs/reference.py", source / "extra"], check=True)
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", source, site], check=True)
    print(f"the site: {site / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Docs: the documentation site, built by Sphinx without a network: `make docs-site` writes it into build/site/html."""

import base64
import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headway.config.head_metrics import HEAD_METRICS

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
REFERENCE = runpy.run_path(str(ROOT / "docs/reference.py"))
ANSWERS = sorted(page.stem for page in (ROOT / "docs/answers").glob("*.md") if page.stem != "README")
NOTEBOOKS = sorted(page.stem for page in (ROOT / "docs").glob("*.ipynb"))
PAGES = {
    "Start": ("start", "experiments", "results", "Gallery of answers <answers/README>", "faq", "glossary"),
    "Guides": ("how-to", "heads", "command", "judge", "gate", "machines", "your-own", "toy-models"),
    "Notebooks": tuple(NOTEBOOKS),
    "Reference": ("command-line", "experiment-keys", "head-metrics", "architectures", "python"),
    "How it works": ("running", "gpu", "speed", "house", "log", "history/2026-11-22", "changelog", "contributing"),
}
"""The pages of the site by caption. Most stand in docs; `generated` writes the others."""
BELOW = {"answers/README.md": ANSWERS, "python.md": [f"reference/{name}" for name in REFERENCE["PAGES"]]}
"""Pages that stand below another in the list of pages."""
SETTINGS = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT / "src")!r})
project, author, version = "Headway", "The authors of Headway", "{VERSION}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
html_theme, html_title = "furo", "Headway {VERSION}"
html_show_sourcelink = html_show_copyright = False
setup = runpy.run_path({str(ROOT / "docs/reference.py")!r})["configure"]
"""
START_HERE = """
## Start here

| you want to | read |
|---|---|
| run a first experiment | [The first run](start.md) |
| see what the heads of a model do | [Heads](heads.md), with ablation and activation patching |
| write an experiment | [Experiment keys](experiment-keys.md), and [examples](experiments.md) |
| understand a verdict | [Answers and results](results.md), and the [glossary](glossary.md) |
| use a cluster or a GPU | [Running experiments](machines.md) |
| use Headway from Python | [Python](python.md), and a notebook, [from a file to a head](from-a-file-to-a-head.md) |
| add a task or a metric | [Plug-ins](your-own.md) |
| train with your own code | [Run your own trainer](command.md), and [keep or discard a change](gate.md) |
| compare runs that you have | [Judge runs](judge.md) |
| solve a problem | [How to](how-to.md), and [questions and answers](faq.md) |
"""
PYTHON = """
| page | content |
|---|---|
| [Functions](reference/functions.rst) | `headway.run`, `open`, `xray`, `ablate`, `patch` and the others |
| [Experiments](reference/experiments.rst) | an experiment that was read from a file, and its arms |
| [Results](reference/results.rst) | results directories, runs and verdicts |
| [Models](reference/models.rst) | transformers and their traces |
| [Analyses](reference/analyses.rst) | results of x-rays, ablation and patching |
| [Plug-ins](reference/plug-ins.rst) | decorators for parts of your own |
| [In-context regression](reference/in-context.rst) | models, estimators and theory |
| [Errors](reference/errors.rst) | exceptions |
"""


def generated() -> dict[str, str]:
    """Return the text of each page that is written from the code, or stands outside docs, by its file."""
    readme = (ROOT / "README.md").read_text()
    part = {
        title: f"## {title}{text}" for title, text in re.findall(r"^## ([^\n]+)(.*?)(?=^## |\Z)", readme, re.M | re.S)
    }
    beginning = readme.partition("## ")[0].replace("# Headway", "# The first run", 1)
    start = [beginning, *(part[name] for name in ("Install", "Four things to do first", "An experiment is a file"))]
    sentences, install = beginning.split("\n\n")[1:3]
    picture = "![A report: its answer in a sentence, and each comparison with its verdict](report.png)"
    trees = (toctree(pages, f":caption: {caption}") for caption, pages in PAGES.items())
    return {
        "index.md": "\n\n".join(["# Headway", sentences, install, START_HERE, picture, *trees]),
        "start.md": "".join(start).replace("](docs/", "]("),
        "command-line.md": command_line(),
        "head-metrics.md": head_metrics(),
        "python.md": f"# Python\n{PYTHON}\n{part['From Python']}",
        **{f"{name.lower()}.md": (ROOT / f"{name}.md").read_text() for name in ("LOG", "CHANGELOG", "CONTRIBUTING")},
        **REFERENCE["pages"](),
    }


def toctree(pages: Iterable[str], *options: str) -> str:
    """Return an entry for each page in the list of pages."""
    return "\n".join(["```{toctree}", ":hidden:", ":maxdepth: 1", *options, "", *pages, "```"])


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


def write_notebook(notebook: Path, source: Path) -> None:
    """Write a notebook as a page: its texts, its code, and what the code printed and drew."""
    parts = []
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            parts += _output(output, source / f"{notebook.stem}-{number}.png")
    parts.append(f"This page is a notebook: {{download}}`{notebook.name}`.")
    (source / f"{notebook.stem}.md").write_text("\n\n".join(parts) + "\n")


def _output(output: dict[str, Any], picture: Path) -> Iterator[str]:
    data = output.get("data", {})
    text = "".join(output.get("text", data.get("text/plain", "")))
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        yield f"![What the cell above draws]({picture.name})"
    elif text.strip():
        yield f"```text\n{text.rstrip()}\n```"


def write_source(source: Path) -> None:
    """Write the pages, with links that lead from page to page of the site."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("LICENSE", "CITATION.cff"):
        shutil.copy(ROOT / name, source)
    for name, text in generated().items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)
    for notebook in NOTEBOOKS:
        write_notebook(ROOT / f"docs/{notebook}.ipynb", source)
    for name, pages in BELOW.items():
        (source / name).write_text(f"{(source / name).read_text()}\n\n{toctree(pages)}\n")
    (source / "conf.py").write_text(SETTINGS)
    for page in source.rglob("*.md"):
        page.write_text(linked(page.read_text()))


def linked(text: str) -> str:
    """Return a page with links to the site's own names for README, LOG, CHANGELOG, CONTRIBUTING and notebooks."""
    text = re.sub(r"\]\((?:\.\./|docs/)", "](", text)
    text = re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text)
    text = re.sub(r"\]\(README\.md", "](index.md", text)
    text = re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", text)
    return re.sub(r"\]\((LOG|CHANGELOG|CONTRIBUTING)\.md", lambda found: f"]({found[1].lower()}.md", text)


def main(folder: Path) -> None:
    """Build the site; a warning of Sphinx, such as a link that leads nowhere, is an error."""
    source, site, trees = folder / "source", folder / "html", folder / "doctrees"
    write_source(source)
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", trees, source, site], check=True)
    print(f"the site: {site / 'index.html'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

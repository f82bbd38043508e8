"""The page of a finished model on a text, and the files beside it: those of an x-ray, an ablation or a patching."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headway.base.files import derived, kept_json, write_json
from headway.config.metrics import metric_name
from headway.heads.results import ModelOnText
from headway.heads.scores import HeadScores, to_arrays
from headway.report.charts.figure import Figure
from headway.report.charts.page import Row, Table, render, write_figures, write_whole

if TYPE_CHECKING:
    import rich.table


OPENING = "The answer"
"""The part of the figure that stands with the answer; all other parts are folded."""


@dataclass(frozen=True, kw_only=True)
class ModelPage:
    """The content of a page of a finished model.

    Attributes:
        verb: the verb, after which the files are named.
        title: the title of the page.
        headline: the answer in a sentence or two.
        second: a further sentence below it; empty without one.
        read: the text that was read, in words.
        found: the measurements of the model.
        overview: a table on top.
        heads: a table with a row for each head.
        figures: the figures, in their order.
        look: the command that makes the page of the heads (`look`); None if there is none.
    """

    verb: str
    title: str
    headline: str
    second: str = ""
    read: str
    found: ModelOnText
    overview: Table
    heads: Table
    figures: Sequence[Figure]
    look: str | None = None

    def write(self, folder: Path, checkpoint: Path, command: str) -> Path:
        """Write `VERB.html`, `VERB.json`, `heads.safetensors` (every metric in full) and the figures; the page's path.

        Other files in the folder are left alone.

        Args:
            folder: the folder of the files, which is made.
            checkpoint: the checkpoint that the user named.
            command: the command that repeats the page.

        Raises:
            ResultsError: when a file cannot be written.
        """
        from safetensors.numpy import save

        write_whole(folder / "heads.safetensors", save(to_arrays(self.found.scores.values())))
        written = [path.relative_to(folder).as_posix() for path in write_figures(folder / "figures", self.figures)]
        file = folder / f"{self.verb}.json"
        with derived(file):
            write_json(file, {**self.found.to_json(), "checkpoint": _whole(checkpoint), "figures": written})
        return write_whole(folder / f"{self.verb}.html", self.html(command, self._look_beside(folder)).encode())

    def _look_beside(self, folder: Path) -> str | None:
        """Return the link to the model's `headway look` page, in a folder or where that verb writes it."""
        places = ("look.html", f"../look-{self.found.name}.html")
        return next((quote(place) for place in places if self.look and (folder / place).is_file()), None)

    def html(self, command: str, look: str | None = None) -> str:
        """The page as HTML.

        Args:
            command: the command that repeats the page.
            look: the link to the page of the heads (`look`); None if it is not made yet.
        """
        return render(
            "model.html.j2",
            self.figures,
            title=self.title,
            headline=self.headline,
            second=self.second,
            read=self.read,
            found=self.found,
            overview=self.overview,
            heads=self.heads,
            meaning=_meaning(self.found.scores.values()),
            command=command,
            look=look,
            to_look=self.look,
        )


def folder_of(verb: str, found: ModelOnText, checkpoint: Path) -> Path:
    """Return the default folder for the results: one of the model's name that holds no other checkpoint's results."""
    places = (Path("results") / f"{verb}-{found.name}{'' if n == 1 else f'-{n}'}" for n in count(1))
    mine = _whole(checkpoint)
    return next(place for place in places if _former(place / f"{verb}.json").get("checkpoint", mine) == mine)


def terminal_table(found: Table) -> "rich.table.Table":
    """A table for a terminal."""
    from rich.table import Table as Terminal

    drawn = Terminal(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for at, column in enumerate(found.columns):
        drawn.add_column(column, justify="right" if at else "left", min_width=max(map(len, column.split()), default=0))
    for row in found.rows:
        drawn.add_row(*row.cells)
    return drawn


def _former(file: Path) -> dict[str, Any]:
    """Return the content that was written to a file before."""
    content = kept_json(file)
    return content if isinstance(content, dict) else {}


def _whole(checkpoint: Path) -> str:
    return str(checkpoint.resolve())


def _meaning(scores: Iterable[HeadScores]) -> Table:
    """The sentence, unit and null of every metric that was measured."""
    rows = [
        Row(cells=(metric_name(metric.name), metric.sentence, metric.unit, metric.null.sentence))
        for metric in (score.declared for score in scores)
    ]
    return Table(columns=("metric", "definition", "unit", "null value"), rows=rows)

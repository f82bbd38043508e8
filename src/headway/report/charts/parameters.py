"""The parameters of models by part, as a figure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.errors import UserError
from headway.report.charts.figure import WIDTH, Figure, alt, colours_of_column, hints, inline
from headway.report.charts.lines import Axis
from headway.report.charts.page import FORMATS, convert, render, svg_of, write_whole

PART_COLOURS = {
    "embedding": "#2f6db3",
    "positions": "#17a2b8",
    "Q/K/V": "#e4572e",
    "output": "#d4a017",
    "MLP": "#2a9d5c",
    "norms": "#5f6b7a",
    "read-out": "#8e44ad",
    "Q": "#e4572e",
    "K": "#c2185b",
    "V": "#d4a017",
    "O": "#8e44ad",
    "final map": "#2a9d5c",
    "biases": "#5f6b7a",
}
"""A part keeps its colour wherever it is drawn."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Models and the numbers that each of their parts trains."""

    counts: Mapping[str, Mapping[str, int]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parts, each model's in its order."""
        return tuple(dict.fromkeys(part for parts in self.counts.values() for part in parts))

    def figure(self, title: str) -> Figure:
        """Return the bars as a figure."""
        named = {f"{model} ({compact(sum(parts.values()))})": parts for model, parts in self.counts.items()}
        chart = replace(self, counts=named).bars()
        caption = "Trained parameters of each part, counted from the model's specification."
        return Figure(name="parameters", part="Outcome", title=title, caption=caption, chart=chart)

    def bars(self) -> Any:
        """A stacked bar per model."""
        rows = [
            {"model": model, "part": part, "parameters": n, "share": n / sum(parts.values()), "order": at}
            for model, parts in self.counts.items()
            for at, (part, n) in enumerate(parts.items())
            if n
        ]
        chart = alt.Chart(inline(rows), width=WIDTH, height=26 * len(self.counts)).mark_bar(height=22)
        return chart.encode(
            x=alt.X("parameters:Q", stack="zero", title="parameters", axis={"format": "~s", "tickCount": 8}),
            y=Axis("model", order=list(self.counts), ticks={"labelLimit": 400}).encoded("y"),
            color=colours_of_column("part", {part: PART_COLOURS[part] for part in self.names}, "square"),
            order="order:Q",
            tooltip=hints(["model:N", "part:N", ("parameters:Q", ","), ("share:Q", ".1%")]),
        )


def write_picture(path: Path, figure: Figure) -> Path:
    """Write a figure to a file of its own, in the format that its name ends in; its path.

    Raises:
        UserError: if the ending is not png, svg, pdf or html.
        ResultsError: when the file cannot be written.
    """
    kind = path.suffix.removeprefix(".")
    if kind not in (*FORMATS, "html"):
        raise UserError(f"--out {path}: give a file name that ends in {', '.join(FORMATS)} or html")
    if kind == "html":
        about = {"title": figure.title, "name": figure.name, "caption": figure.caption}
        return write_whole(path, render("picture.html.j2", [figure], **about).encode())
    return write_whole(path, convert(svg_of(figure.spec), kind))


def compact(number: float) -> str:
    """A count to three digits.

    Examples:
        >>> compact(512), compact(65536), compact(38_597_376), compact(6.66e9)
        ('512', '65.5K', '38.6M', '6.66B')
    """
    rounded = float(f"{number:.3g}")
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if rounded >= size:
            return f"{rounded / size:#.3g}".rstrip(".") + letter
    return f"{number:.0f}"

"""What every figure of every report keeps to, and what a figure shows."""

from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

import pytest
import vl_convert

from headway.report.charts.figure import Figure
from headway.report.charts.page import svg_of


class Elements(HTMLParser):
    """What a browser would make of a page: tags with attributes, and the texts that follow each tag."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts[self.tags[-1][0]][-1] += data


def rows_of(figure: Figure) -> list[dict[str, Any]]:
    """All rows of its data."""
    return [row for data in figure.spec["datasets"].values() for row in data]


def have_words_and_warn_of_nothing(figures: Iterable[Figure], capfd: pytest.CaptureFixture[str]) -> None:
    """Each has words, draws offline, and the drawing library warns of none."""
    for figure in figures:
        assert figure.title, figure.name
        assert figure.caption.endswith("."), figure.name
        assert ".." not in figure.caption, figure.name
        assert "http" not in str(figure.spec), figure.name
        assert svg_of(figure.spec).startswith("<svg"), figure.name
        vl_convert.vegalite_to_vega(figure.spec, show_warnings=True)
    assert "WARN" not in "".join(capfd.readouterr())

"""The console of tables and progress."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from headway.base.text import printable


class Terminal(Console):
    """A console for tables, in which no character of a file's content can steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The pieces of a picture; those that steer are Rich's own."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(printable(piece.text), piece.style)

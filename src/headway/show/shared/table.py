"""Show: a table of a page, as text in rows; its cells are ready to be read."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Row:
    """Cells, of which the first names the row; `colour` marks an arm or a head, `quiet` a row to compare with."""

    cells: tuple[str, ...]
    colour: str | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption; `hints` explains a column."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)

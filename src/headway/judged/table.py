"""A table of results, and the texts that hold one: separated text, JSON, JSON lines.

Cells keep what the text says: an empty cell is None, every other cell stays a text, and `number_of` reads a number from
it.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.base.words import say
from headway.errors import UserError

Row = dict[str, Any]
"""A row of a table; a cell that is empty or not there is None or missing."""

SEPARATORS = ",;\t|"


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """A table of results.

    Attributes:
        source: the name of the file or folder, for messages.
        rows: the rows, in the order of the source.
        columns: the names of the columns, in the order in which they first occur.
        decimal_comma: True if numbers such as 3,14 have a decimal comma.
        notes: sentences on what was left out or read in one of several ways.
    """

    source: str
    rows: Sequence[Row]
    columns: tuple[str, ...]
    decimal_comma: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls, rows: Iterable[Row], source: str, *, decimal_comma: bool = False, notes: Iterable[str] = ()
    ) -> "RunTable":
        """Make a table of rows.

        Raises:
            UserError: if there is no row.
        """
        kept = tuple(rows)
        if not kept:
            raise UserError(
                f"{source}: it has no rows; give a table with a row for each run, or for each step of a run"
            )
        columns = tuple(dict.fromkeys(column for row in kept for column in row))
        return cls(source=source, rows=kept, columns=columns, decimal_comma=decimal_comma, notes=tuple(notes))

    def with_rows(self, rows: Iterable[Row], *notes: str) -> "RunTable":
        """Return the table with other rows, and more notes.

        Raises:
            UserError: if there is no row.
        """
        return self.of_rows(rows, self.source, decimal_comma=self.decimal_comma, notes=(*self.notes, *notes))

    def number(self, cell: Any) -> float | None:
        """Return the number in a cell; None if there is none."""
        return number_of(cell, decimal_comma=self.decimal_comma)

    def measurement(self, cell: Any) -> float | None:
        """Return the number in a cell, 1 and 0 for yes and no; None if there is none."""
        truth = {"true": 1.0, "false": 0.0}.get(str(cell).strip().lower())
        return self.number(cell) if truth is None else truth

    def values(self, column: str) -> list[Any]:
        """Return the cells of a column that are not empty."""
        return [cell for row in self.rows if (cell := row.get(column)) is not None]

    def n_distinct(self, column: str) -> int:
        """Return the number of different cells of a column that are not empty."""
        return len(set(map(str, self.values(column))))

    def is_numeric(self, column: str) -> bool:
        """Return whether every cell of a column that is not empty is a number, or yes or no."""
        cells = self.values(column)
        return bool(cells) and all(self.measurement(cell) is not None for cell in cells)


_THOUSANDS = re.compile(r"[+-]?\d{1,3}((,\d{3})+\.\d*|(,\d{3}){2,})")
"""Numbers with commas between thousands; 2,000 alone might be 2 with three decimals, and is read as neither."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


def number_of(cell: Any, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell, NaN and infinity included; None if it is a text, a list or a truth value.

    Examples:
        >>> number_of("3.25"), number_of("3,25", decimal_comma=True), number_of("1,024.5"), number_of("-inf")
        (3.25, 3.25, 1024.5, -inf)
        >>> number_of("none"), number_of([1]), number_of("12 %")
        (None, None, None)
    """
    if isinstance(cell, str):
        text = cell.strip()
        if decimal_comma:
            text = text.replace(".", "").replace(",", ".") if "," in text else text
        elif _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        if "_" in text:  # Python's own form of a number
            return None
        try:
            return float(text)
        except ValueError:
            return None
    if isinstance(cell, bool) or not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)
    except OverflowError:
        return math.inf


def table_of(values: Any, source: str = "the table") -> RunTable:
    """Make a table of a DataFrame, of rows as mappings, or of a mapping of columns.

    Raises:
        UserError: if it is none of these.
    """
    rows: list[Any] = []
    if hasattr(values, "to_dict") and hasattr(values, "columns"):
        frame = values.reset_index() if getattr(values.index, "names", [None]) != [None] else values
        rows = frame.to_dict("records")
    elif isinstance(values, Mapping) and all(isinstance(column, Sequence) for column in values.values()):
        lengths = {len(column) for column in values.values()}
        if len(lengths) > 1:
            raise UserError(
                f"{source}: its columns have {', '.join(map(str, sorted(lengths)))} values; they must be equally many"
            )
        rows = [dict(zip(values, cells, strict=True)) for cells in zip(*values.values(), strict=True)]
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        rows = [flat(row) if isinstance(row, Mapping) else None for row in values]
    else:
        rows = [None]
    if None in rows:
        raise UserError(
            f"{source}: give a path, a DataFrame, a mapping of columns, or rows as mappings of column to value"
        )
    return RunTable.of_rows(({str(key): _plain(cell) for key, cell in row.items()} for row in rows), source)


def _plain(cell: Any) -> Any:
    """Return a cell with pandas' and numpy's marks of a missing value, NaN among them, as None."""
    if hasattr(cell, "item") and not hasattr(cell, "__len__"):
        cell = cell.item()
    is_missing = cell is None or type(cell).__name__ in ("NAType", "NaTType")
    return None if is_missing or (isinstance(cell, float) and math.isnan(cell)) else cell


def flat(content: Mapping[str, Any], prefix: str = "") -> Row:
    """Return nested mappings as one, with dots between names; `{"value": x}`, as W&B writes it, is x.

    Examples:
        >>> flat({"loss": 2, "config": {"lr": {"value": 0.1}, "dims": [1, 2]}})
        {'loss': 2, 'config.lr': 0.1, 'config.dims': [1, 2]}
    """
    row: Row = {}
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and set(value) - {"desc"} == {"value"}:
            value = value["value"]
        if isinstance(value, Mapping):
            row |= flat(value, f"{name}.")
        else:
            row[name] = value
    return row


def decoded(content: bytes, source: str) -> str:
    """Return a file's text: UTF-8, or UTF-16 by its byte-order mark.

    Raises:
        UserError: if it is neither.
    """
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}: byte {error.start:,} is not {encoding.removesuffix('-sig').upper()}; save it as UTF-8 text, or "
            "unpack it first"
        ) from None
    if "\0" in text:
        raise UserError(f"{source}: it holds zero bytes, so it is not a text; give CSV, JSON lines or Parquet")
    return text


def json_rows(text: str, source: str) -> Iterator[Row]:
    """Return the rows of a JSON list, or of JSON lines.

    Raises:
        UserError: if a line is no JSON object.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _json_lines(text, source)
    listed = whole.get("log_history", [whole]) if isinstance(whole, Mapping) else whole
    if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
        raise UserError(f"{source}: it holds values that are not objects; give a list of objects, one per row")
    return map(flat, listed)


def _json_lines(text: str, source: str) -> Iterator[Row]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for number, line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == lines[-1][0] and len(lines) > 1:
                return  # the line that is being written
            raise UserError(f"{source}, line {number}: not JSON ({error}); give one object per line") from None
        if not isinstance(row, Mapping):
            raise UserError(f"{source}, line {number}: a {type(row).__name__}; give one object per line")
        yield flat(row)


_MOST_LINES = 3
"""Lines of a cell, above which its quotes were left open."""


def separated_rows(text: str, source: str) -> tuple[list[Row], bool, list[str]]:
    """Return the rows of separated text, whether its numbers have a decimal comma, and notes.

    Raises:
        UserError: if there is no header, a name occurs twice, or a row has another number of cells.
    """
    lines = text.splitlines(keepends=True)
    n_comments = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    header_line = lines[n_comments] if n_comments < len(lines) else ""
    separator = max(SEPARATORS, key=lambda mark: len(next(csv.reader([header_line], delimiter=mark), [])))
    csv.field_size_limit(10**9)
    reader = csv.reader(
        io.StringIO("".join(lines[n_comments:]), newline=""), delimiter=separator, skipinitialspace=True
    )
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, source)
        rows = []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = reader.line_num + n_comments
            if any(cell.count("\n") > _MOST_LINES for cell in cells):
                raise UserError(f"{source}, line {line}: a cell has many lines; close its quotes")
            if len(cells) != len(header):
                raise UserError(
                    f"{source}, line {line}: {len(cells)} cells under {len(header)} columns; give each row a "
                    f"cell per column, and put quotes around cells that hold {separator!r}"
                )
            rows.append({name: cell.strip() or None for name, cell in zip(header, cells, strict=True)})
    except csv.Error as error:
        raise UserError(f"{source}, line {reader.line_num + n_comments}: {error}") from None
    decimal_comma = separator != "," and _has_decimal_commas(rows)
    notes = [say("decimal_comma")] if decimal_comma else []
    return rows, decimal_comma, notes


def _check_header(header: Sequence[str], source: str) -> None:
    if not header:
        raise UserError(f"{source}: it has no rows; give a table with a row for each run or step")
    if all(number_of(name) is not None for name in header):
        raise UserError(f"{source}: its first line names no columns; write their names there, such as arm,seed,loss")
    twice = [name for name, times in Counter(header).items() if name and times > 1]
    if twice:
        raise UserError(f"{source}: two columns are named {twice[0]}; rename one of them")


def _has_decimal_commas(rows: Sequence[Row]) -> bool:
    """Return whether numbers have decimal commas: there are some, and no commas between thousands before a point."""
    cells = [cell for row in rows for cell in row.values() if cell is not None and "," in cell]
    return any(map(_DECIMAL_COMMA.fullmatch, cells)) and not any(map(_THOUSANDS.fullmatch, cells))

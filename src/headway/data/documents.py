"""Documents in text files and in JSON lines, plain or zipped, read in pieces and never whole.

White space around a document is dropped, and so are empty documents.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from headway.data.tokenizer import END_OF_TEXT
from headway.errors import UserError

TEXT, JSON = (".txt",), (".jsonl", ".json")
FIELDS = ("text", "story")
"""The fields of a JSON line that may hold the text if no field is named, in the order of search."""
PIECE = 1 << 16
"""The most characters of a piece of a long document."""

_LONGEST_LINE = 1 << 20
"""The most bytes of a line of text in memory at once, if the line has a space."""
_LAST_SEAM = re.compile(r".*\S(?=\s)", re.DOTALL)


def kind_of(path: Path) -> str:
    """Return the ending that says how a file is read, without the ending of a zipped file."""
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def read(path: Path, field: str | None = None) -> Iterator[tuple[str, bool]]:
    """Yield the documents of a file in pieces, each with whether its document ends there.

    Args:
        path: a text file, or a file of JSON lines.
        field: the field of a JSON line that holds its text; None: the first of `FIELDS` that it has.

    Raises:
        UserError: where it cannot be read, is not a text, or a line is no JSON object with such a text.
    """
    return pieces(_json_texts(path, field) if kind_of(path) in JSON else _lines(path, _LONGEST_LINE))


def lines_of(path: Path) -> Iterator[str]:
    """Yield the text of every line of a file, or of every JSON line, without white space around it; some are empty.

    Raises:
        UserError: if the file cannot be read, or is not a text.
    """
    for line in _json_texts(path, None) if kind_of(path) in JSON else _lines(path):
        yield line.strip().removesuffix(END_OF_TEXT)


def pieces(lines: Iterable[str], size: int = PIECE) -> Iterator[tuple[str, bool]]:
    """Yield the documents in lines of text in pieces of limited length, each with whether it is the last.

    A long document is parted before white space that follows something else. No tokenizer of whole words has a token
    across such a place, so the pieces' tokens are those of the document.
    """
    kept: list[str] = []
    length, begun = 0, False

    def ended() -> Iterator[tuple[str, bool]]:
        text = "".join(kept).rstrip()
        text = text if begun else text.lstrip()
        if text or begun:
            yield text, True

    for line in lines:
        *ends, rest = line.split(END_OF_TEXT)
        for end in ends:
            kept.append(end)
            yield from ended()
            kept, length, begun = [], 0, False
        kept.append(rest)
        length += len(rest)
        if length > size:
            text = "".join(kept) if begun else "".join(kept).lstrip()
            while len(text) > size and not text.isspace():
                seam = _LAST_SEAM.match(text, 0, size + 1)
                at = seam.end() if seam else size
                yield text[:at], False
                text, begun = text[at:], True
            kept, length = [text], len(text)
    yield from ended()


def _lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """Yield the lines of a text file, each ending with one newline character whatever the file has.

    Args:
        path: the path of the file.
        longest: the number of bytes from which a line is split into parts, each but the last ending before a space.

    Raises:
        UserError: where it is not a text, with the line and the offset.
    """
    offset = 0
    with _opened(path) as file:
        for number, line in _parts(file, longest):
            if (nul := line.find(b"\0")) >= 0:
                raise _no_text(path, number, offset + nul, "a NUL byte")
            try:
                text = line.decode("utf-8-sig" if not offset else "utf-8")
            except UnicodeDecodeError as error:
                raise _no_text(path, number, offset + error.start, "bytes that are not UTF-8") from error
            offset += len(line)
            yield text.replace("\r\n", "\n")


def _parts(file: io.BufferedIOBase, longest: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers; a long line in parts, none of which ends within a character or a word."""
    if longest is None:
        yield from enumerate(file, 1)
        return
    number, kept = 1, b""
    while part := file.readline(longest):
        kept += part
        if part.endswith(b"\n"):
            yield number, kept
            number, kept = number + 1, b""
        elif (at := kept.rfind(b" ")) > 0:
            yield number, kept[:at]
            kept = kept[at:]
    if kept:
        yield number, kept


def _json_texts(path: Path, field: str | None) -> Iterator[str]:
    looked_for = f"field {field}" if field else f"fields {' and '.join(FIELDS)}"
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: not JSON ({error}); give one JSON object per line") from error
        fields = (field,) if field else FIELDS
        text = next((record[f] for f in fields if f in record), None) if isinstance(record, dict) else None
        if not isinstance(text, str):
            has = f"an object with {', '.join(record) or 'nothing'}" if isinstance(record, dict) else "no object"
            raise UserError(
                f"{path}, line {number}: {has}, but Headway reads the {looked_for}; give one JSON object with a text a "
                f"line, or name the field of the text as in {path.name}:FIELD"
            )
        yield text + END_OF_TEXT


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedIOBase]:
    try:
        with cast(io.BufferedIOBase, gzip.open(path) if path.suffix == ".gz" else open(path, "rb")) as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a complete gzip file ({error}); zip it again, or give it unzipped") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; check its permissions, or give another") from error


def _no_text(path: Path, line: int, offset: int, what: str) -> UserError:
    return UserError(
        f"{path} is not a text: {what} at offset {offset:,} (line {line:,}); give UTF-8 text, or convert it"
    )

"""Data: the documents of a corpus, one after the other, never all in memory.

A corpus is a text file whose documents end with `<|endoftext|>`, a file of JSON lines, a folder of such files, stories
from the hub, or Headway's own stories. White space around a document is dropped, and so are empty ones.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from headway import streams
from headway.data.tokens import hub
from headway.data.tokens.cache import content_hash
from headway.data.tokens.stories import LANGUAGE, story
from headway.data.tokens.tokenizer import END_OF_TEXT
from headway.errors import UserError

OWN_STORIES = 20_000
"""Stories of the grammar that are taken where the task does not say."""
STORIES_KEY = streams.key(0, "stories")
_FIELDS = ("text", "story")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Documents that can be read again and again, known by their content."""

    name: str
    digest: str
    documents: Callable[[], Iterator[str]]
    nats: Callable[[int], float] | None = None
    """For a grammar's stories: minus the log probability of the story of a number."""


def find_corpus(name: str, *, limit: int | None, asked: str) -> Corpus:
    """Find a corpus: `stories`, `tinystories`, or a path.

    Args:
        name: what the task names.
        limit: documents that are taken, from the beginning; None: all.
        asked: the key that names it, for messages.

    Raises:
        UserError: when there is no such corpus.
    """
    if name == "stories":
        count = limit or OWN_STORIES
        return Corpus(
            name=name,
            digest=f"{LANGUAGE.digest}-{count}",
            documents=lambda: (story(STORIES_KEY, index).text for index in range(count)),
            nats=lambda index: story(STORIES_KEY, index).nats,
        )
    paths = [hub.tinystories(limit)] if name == "tinystories" else _paths(Path(name).expanduser(), asked)
    try:
        hashes = [content_hash(path) for path in paths]
    except OSError as error:
        raise UserError(f"{asked} {name}: it cannot be read: {error.strerror}; check its permissions") from error
    return Corpus(
        name=name,
        digest="-".join([*hashes, str(limit)]),
        documents=lambda: _taken(paths, limit, f"{asked} {name}"),
    )


def _paths(path: Path, asked: str) -> list[Path]:
    if path.is_dir():
        if any((path / name).is_file() for name in ("run.json", "experiment.yaml")):
            raise UserError(
                f"{asked} {path}: it holds what Headway recorded, and no text; name a text or a folder of them"
            )
        visible = (p for p in path.rglob("*") if not any(part.startswith(".") for part in p.relative_to(path).parts))
        found = sorted(p for p in visible if p.is_file() and p.suffix in (".txt", ".jsonl", ".json"))
        if not found:
            raise UserError(f"{asked} {path}: the folder has no .txt, .jsonl or .json file; name one that has")
        return found
    if not path.is_file():
        raise UserError(
            f"{asked} {path}: there is no such file or folder (from {Path.cwd()}); give the path of a text file, of a "
            "file of JSON lines or of a folder of them, or choose from: stories, tinystories"
        )
    return [path]


def _taken(paths: list[Path], limit: int | None, asked: str) -> Iterator[str]:
    count = 0
    for document in islice((document for path in paths for document in _read(path)), limit):
        yield document
        count += 1
    if not count:
        raise UserError(f"{asked}: there is no text in it; give another corpus")
    if limit and count < limit:
        raise UserError(
            f"{asked}: it has {count:,} documents, but task.stories asks for {limit:,}; lower task.stories, or leave "
            "it out to take all"
        )


def _read(path: Path) -> Iterator[str]:
    return split_documents(_json_texts(path) if path.suffix in (".jsonl", ".json") else _lines(path))


def split_documents(lines: Iterable[str]) -> Iterator[str]:
    """The documents in lines of text; `<|endoftext|>` ends one wherever it stands."""
    document: list[str] = []
    for line in lines:
        *ends, rest = line.split(END_OF_TEXT)
        for end in ends:
            if text := "".join([*document, end]).strip():
                yield text
            document.clear()
        document.append(rest)
    if text := "".join(document).strip():
        yield text


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file, each ending with one newline character whatever the file has.

    Raises:
        UserError: where it is no text, with the offset.
    """
    offset = 0
    with _opened(path) as file:
        for line in file:
            if (nul := line.find(b"\0")) >= 0:
                raise _no_text(path, offset + nul, "a NUL byte")
            try:
                text = line.decode("utf-8-sig" if not offset else "utf-8")
            except UnicodeDecodeError as error:
                raise _no_text(path, offset + error.start, "bytes that are no UTF-8") from error
            offset += len(line)
            yield text.replace("\r\n", "\n")


def _json_texts(path: Path) -> Iterator[str]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: no JSON ({error}); give one JSON object a line") from error
        text = next((record[f] for f in _FIELDS if f in record), None) if isinstance(record, dict) else None
        if not isinstance(text, str):
            has = f"an object with {', '.join(record) or 'nothing'}" if isinstance(record, dict) else "no object"
            raise UserError(
                f"{path}, line {number}: {has}, where a text is looked for in the fields {' and '.join(_FIELDS)}; "
                "give one JSON object with such a text a line"
            )
        yield text + END_OF_TEXT


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; check its permissions, or give another") from error


def _no_text(path: Path, offset: int, what: str) -> UserError:
    return UserError(f"{path} is no text: {what} at offset {offset:,}; give UTF-8 text, or convert it")

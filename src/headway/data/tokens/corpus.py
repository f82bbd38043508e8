"""Data: the documents of a corpus, one after the other, never all in memory.

A corpus is a text file whose documents end with `<|endoftext|>`, a file of JSON lines, a folder of such files, a numpy
file of token ids, stories from the hub, or Headway's own stories.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from headway import streams
from headway.data.tokens import hub
from headway.data.tokens.documents import JSON, TEXT, joined, kind_of, read
from headway.data.tokens.ids import read_ids
from headway.data.tokens.own_corpus import OwnDocuments
from headway.data.tokens.stories import LANGUAGE, story
from headway.data.tokens.token_cache import content_hash
from headway.declare.tokens.text import OWN_CORPORA, holds_ids
from headway.errors import UserError

_OWN_STORY_BYTES = 400
"""Of the tokens of one, 728 characters in the mean, by a tokenizer of few tokens: about the least that it takes."""
OWN_STORIES = 20_000
"""Stories of the grammar that are taken where the task does not say."""
STORIES_KEY = streams.key(0, "stories")

D = TypeVar("D", str, np.ndarray)
"""What a document is made of: characters, or ids."""


@dataclass(frozen=True, kw_only=True)
class Corpus(Generic[D]):
    """Documents that can be read again and again, known by their content."""

    name: str
    digest: str
    pieces: Callable[[], Iterator[tuple[D, bool]]]
    """The documents in pieces that fit into memory, and of each whether its document ends with it."""
    documents: Callable[[], Iterator[D]]
    """The documents, each whole."""
    nats: Callable[[int], float] | None = None
    """For a grammar's stories: minus the log probability of the story of a number."""

    least_bytes: int = 0
    """What its tokens take at least, where that is known before it is read."""

    def count(self) -> int:
        """How many documents it has.

        Raises:
            UserError: for whatever is wrong in it.
        """
        return sum(ended for _, ended in self.pieces())


def find_corpus(name: str, *, limit: int | None, asked: str) -> Corpus[str]:
    """Find a corpus of text: `stories`, `tinystories`, or a path; `FILE.jsonl:FIELD` names the field of its texts.

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
            pieces=lambda: ((story(STORIES_KEY, index).text, True) for index in range(count)),
            documents=lambda: (story(STORIES_KEY, index).text for index in range(count)),
            nats=lambda index: story(STORIES_KEY, index).nats,
            least_bytes=count * _OWN_STORY_BYTES,
        )
    if holds_ids(name):
        raise UserError(f"{asked} {name}: it holds token ids, where text is asked for; give the text")
    field = None
    if name == "tinystories":
        paths = [hub.tinystories(limit)]
    else:
        path, field = _with_field(name)
        paths = _paths(path, asked)
    said = f"{asked} {name}"

    def pieces() -> Iterator[tuple[str, bool]]:
        return _taken(chain.from_iterable(read(path, field) for path in paths), limit, said)

    return Corpus(
        name=name,
        digest="-".join([*_hashes(paths, said), *([f"field {field}"] if field else []), str(limit)]),
        pieces=pieces,
        documents=lambda: joined(pieces()),
    )


def find_ids(name: str, *, limit: int | None, asked: str, vocab_size: int, end_of_text: int) -> Corpus[np.ndarray]:
    """Find a corpus of token ids.

    Args:
        name: the path of a numpy file, or a corpus that a plugin registers.
        limit: documents that are taken, from the beginning; None: all.
        asked: the key that names it, for messages.
        vocab_size: tokens that there are.
        end_of_text: the token that ends a document.

    Raises:
        UserError: when there is no such file.
    """
    said = f"{asked} {name}"
    if name in OWN_CORPORA:
        own = OwnDocuments(name=name, vocab_size=vocab_size, asked=said)
        return Corpus(
            name=name,
            digest=f"{own.digest}-own-{limit}",
            pieces=lambda: _taken(((document, True) for document in own), limit, said),
            documents=lambda: (document for document, _ in _taken(((d, True) for d in own), limit, said)),
        )
    path = Path(name).expanduser()
    if not path.is_file():
        raise UserError(f"{asked} {path}: there is no such file (from {Path.cwd()}); give the path of a numpy file")

    def pieces() -> Iterator[tuple[np.ndarray, bool]]:
        return _taken(read_ids(path, vocab_size, end_of_text), limit, said)

    def documents() -> Iterator[np.ndarray]:
        parts: list[np.ndarray] = []
        for part, ended in pieces():
            parts.append(part)
            if ended:
                yield np.concatenate(parts) if len(parts) > 1 else part
                parts = []

    return Corpus(
        name=name, digest="-".join([*_hashes([path], said), "ids", str(limit)]), pieces=pieces, documents=documents
    )


def _hashes(paths: list[Path], said: str) -> list[str]:
    try:
        return [content_hash(path) for path in paths]
    except OSError as error:
        raise UserError(f"{said}: it cannot be read: {error.strerror}; check its permissions") from error


def _with_field(name: str) -> tuple[Path, str | None]:
    """A path, and the field that is named after it; what is there under the whole name is meant first."""
    path = Path(name).expanduser()
    named = re.fullmatch(r"(.*\.jsonl?(?:\.gz)?):([^/\\:]+)", name)
    return (path, None) if named is None or path.exists() else (Path(named[1]).expanduser(), named[2])


def _paths(path: Path, asked: str) -> list[Path]:
    if path.is_dir():
        if any((path / name).is_file() for name in ("run.json", "experiment.yaml")):
            raise UserError(
                f"{asked} {path}: it holds what Headway recorded, and no text; name a text or a folder of them"
            )
        visible = (p for p in path.rglob("*") if not any(part.startswith(".") for part in p.relative_to(path).parts))
        found = sorted(p for p in visible if p.is_file() and kind_of(p) in (*TEXT, *JSON))
        # Beside plain files, zipped ones are taken for copies of them.
        plain = [p for p in found if p.suffix != ".gz"]
        if not found:
            raise UserError(
                f"{asked} {path}: the folder has no .txt, .jsonl or .json file, nor such a file as .gz; name one that "
                "has"
            )
        return plain or found
    if not path.is_file():
        none = "it is no ordinary file" if path.exists() else f"there is no such file or folder (from {Path.cwd()})"
        raise UserError(
            f"{asked} {path}: {none}; give the path of a text file, of a "
            "file of JSON lines or of a folder of them, or choose from: stories, tinystories"
        )
    return [path]


def _taken(pieces: Iterator[tuple[D, bool]], limit: int | None, said: str) -> Iterator[tuple[D, bool]]:
    count = 0
    for piece, ended in pieces:
        yield piece, ended
        count += ended
        if count == limit:
            return
    if not count:
        raise UserError(f"{said}: there is no text in it; give another corpus")
    if limit:
        raise UserError(
            f"{said}: it has {count:,} documents, but task.stories asks for {limit:,}; lower task.stories, or leave "
            "it out to take all"
        )

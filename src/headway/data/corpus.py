"""Documents of a corpus, one after the other, and the split of a corpus that is one document.

A corpus is a text file whose documents end with `<|endoftext|>`, a file of JSON lines, a folder of such files, a numpy
file of token ids, stories from the hub, arrays of token ids from a plugin's function, or Headway's own stories. It is
never held in memory whole.

Stories from the hub are fetched once into the cache as JSON lines. TinyStories-GPT4 is the part of TinyStories that
GPT-4 wrote, in the version that the published experiments used: 2,745,100 stories in the field `story`. A limit takes
the first stories. Paper: Eldan and Li 2023, arXiv 2305.07759.

A file of token ids is a numpy file with one row of whole numbers, made by another program. The token that ends a text
separates its documents; empty documents are dropped. The file is mapped, never read whole.

A corpus of one document, such as a book, is split by position. Its last share is held out, from the nearest paragraph
on, else from the nearest line, else from the nearest space.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Integer

from headway.base import rng
from headway.base.files import beginnings, cache_folder, located
from headway.config.lm.text import OWN_CORPORA, holds_ids
from headway.data.cache import cached, content_hash
from headway.data.documents import JSON, TEXT, kind_of, read
from headway.errors import UserError

TINYSTORIES = "skeskinen/TinyStories-GPT4"
_FIELD = "story"


def is_fetched(limit: int | None) -> bool:
    """Return whether the first `limit` stories are in the cache."""
    return (cache_folder() / _name(limit)).is_dir()


def tinystories(limit: int | None) -> Path:
    """Return a file of JSON lines with the first `limit` stories, None for all; fetch it if the cache has none.

    Raises:
        UserError: when `datasets` is not installed, or the hub cannot be reached.
    """

    def fetch(folder: Path) -> None:
        stories = islice(_streamed(), limit)
        with open(folder / "stories.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in stories)

    return cached(_name(limit), fetch) / "stories.jsonl"


def _name(limit: int | None) -> str:
    return f"tinystories-{limit or 'all'}"


def _streamed() -> Iterator[str]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise UserError(
            "task.corpus tinystories comes from the hub through the package datasets, which is not installed; "
            "pip install '.[hf]', or give the path of a text file in task.corpus"
        ) from None
    try:
        rows: Any = load_dataset(TINYSTORIES, split="train", streaming=True)
        for row in rows:
            yield row[_FIELD]
    except Exception as error:  # the hub's client has many kinds of failures
        raise UserError(
            f"task.corpus tinystories: {TINYSTORIES} cannot be read from the hub ({type(error).__name__}: {error}); "
            "check the network, or give the path of a text file in task.corpus"
        ) from error


AT_ONCE = 1 << 20
"""The ids that are processed at once, which is also the length of a piece of a long document."""


def read_ids(path: Path, vocab_size: int, end_of_text: int) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield the documents of a file in pieces, each with whether its document ends there.

    Raises:
        UserError: where it is no row of whole numbers, or holds one that is no token.
    """
    array = _mapped(path)
    begun = False
    for first in range(0, len(array), AT_ONCE):
        block = array[first : first + AT_ONCE]
        _check(path, block, first, vocab_size)
        start = 0
        for end in np.flatnonzero(block == end_of_text).tolist():
            if end > start or begun:
                yield block[start:end], True
            start, begun = end + 1, False
        if start < len(block):
            begun = True
            yield block[start:], False
    if begun:
        yield array[:0], True


def _mapped(path: Path) -> Integer[np.ndarray, " token"]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not a numpy file of numbers ({error}); write one with numpy.save") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
        has = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "several arrays"
        raise UserError(
            f"{path}: it holds {has}, but token ids are a one-dimensional array of whole numbers; convert it, as with "
            "array.astype('uint16').ravel()"
        )
    return array


def _check(path: Path, block: Integer[np.ndarray, " token"], first: int, vocab_size: int) -> None:
    wrong = np.flatnonzero((block < 0) | (block >= vocab_size))
    if len(wrong):
        raise UserError(
            f"{path}: id {block[wrong[0]]} at position {first + int(wrong[0]):,}, but task.tokenizer has the ids 0 to "
            f"{vocab_size - 1:,}; name the tokenizer of these ids, or ids-N with N above the largest id"
        )


def _of_plugin(name: str, vocab_size: int, asked: str) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield the documents of a plugin's function, each checked when it is given.

    Args:
        name: the name of the corpus.
        vocab_size: the number of ids; the last id ends a document, and occurs in none.
        asked: the key that names the corpus, for messages.
    """
    for number, document in enumerate(OWN_CORPORA[name]()):
        ids = np.asarray(document)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise UserError(
                f"{asked}: document {number} is {ids.dtype} of shape {ids.shape}, not a row of whole "
                "numbers; give an array of token ids for each document"
            )
        if len(wrong := ids[(ids < 0) | (ids >= vocab_size - 1)]):
            raise UserError(
                f"{asked}: document {number} holds id {wrong[0]}, but task.tokenizer has the ids 0 to "
                f"{vocab_size - 2:,} and an end of document; give ids-N with N = the largest id + 2"
            )
        if len(ids):
            yield ids.astype(np.int64), True


def _hash(documents: Iterator[tuple[np.ndarray, bool]]) -> str:
    hashed = hashlib.sha256()
    for ids, _ in documents:
        hashed.update(len(ids).to_bytes(8, "little") + ids.tobytes())
    return hashed.hexdigest()[:32]


_OWN_STORY_BYTES = 400
"""A lower bound of the bytes of a story's tokens: 728 characters in the mean, by a tokenizer of few tokens."""
DEFAULT_STORIES = 20_000
"""The number of the grammar's stories that are taken if the task gives none."""
STORIES_KEY = rng.key(0, "stories")

D = TypeVar("D", str, np.ndarray)
"""The type of a document's content: characters, or ids."""


@dataclass(frozen=True, kw_only=True)
class Corpus(Generic[D]):
    """Documents that can be read again and again, known by their content."""

    name: str
    digest: str
    pieces: Callable[[], Iterator[tuple[D, bool]]]
    """Yields the documents in pieces that fit into memory, each with whether its document ends there."""
    nats: Callable[[int], float] | None = None
    """For a grammar's stories: minus the log probability of the story of a number."""

    least_bytes: int = 0
    """The least bytes of its tokens, if a bound is known before reading."""

    def documents(self) -> Iterator[D]:
        """Yield the documents, each whole."""
        return joined(self.pieces())

    def count(self) -> int:
        """Return the number of documents.

        Raises:
            UserError: if a document is invalid.
        """
        return sum(ended for _, ended in self.pieces())


def joined(pieces: Iterator[tuple[D, bool]]) -> Iterator[D]:
    """Yield complete documents joined from their pieces."""
    parts: list[Any] = []
    for piece, ended in pieces:
        parts.append(piece)
        if ended:
            yield piece if len(parts) == 1 else "".join(parts) if isinstance(piece, str) else np.concatenate(parts)
            parts = []


def find_corpus(name: str, *, limit: int | None, asked: str) -> Corpus[str]:
    """Find a corpus of text: `stories`, `tinystories`, or a path; `FILE.jsonl:FIELD` names the field of its texts.

    Args:
        name: the name in the task.
        limit: the number of documents, from the beginning; None: all.
        asked: the key that names it, for messages.

    Raises:
        UserError: when there is no such corpus.
    """
    if name == "stories":
        from headway.data.grammar import LANGUAGE, story

        count = limit or DEFAULT_STORIES
        return Corpus(
            name=name,
            digest=f"{LANGUAGE.digest}-{count}",
            pieces=lambda: ((story(STORIES_KEY, index).text, True) for index in range(count)),
            nats=lambda index: story(STORIES_KEY, index).nats,
            least_bytes=count * _OWN_STORY_BYTES,
        )
    if holds_ids(name):
        raise UserError(f"{asked} {name}: it holds token ids, but a text is needed; give the text")
    field = None
    if name == "tinystories":
        paths = [tinystories(limit)]
    else:
        path, field = _with_field(name)
        paths = _paths(path, asked)
    named = f"{asked} {name}"

    return Corpus(
        name=name,
        digest="-".join([*_hashes(paths, named), *([f"field {field}"] if field else []), str(limit)]),
        pieces=lambda: _taken(chain.from_iterable(read(path, field) for path in paths), limit, named),
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
    named = f"{asked} {name}"
    if name in OWN_CORPORA:
        documents = partial(_of_plugin, name, vocab_size, named)
        first, again = _hash(documents()), _hash(documents())  # the function may read files that change
        if first != again:
            raise UserError(
                f"{named}: it gave different documents when it was read again; give the same documents in the "
                "same order, without a global random generator"
            )
        return Corpus(name=name, digest=f"{first}-own-{limit}", pieces=lambda: _taken(documents(), limit, named))
    path = located(name)
    if not path.is_file():
        raise UserError(f"{asked} {path}: there is no such file (from {beginnings()}); give the path of a numpy file")

    return Corpus(
        name=name,
        digest="-".join([*_hashes([path], named), "ids", str(limit)]),
        pieces=lambda: _taken(read_ids(path, vocab_size, end_of_text), limit, named),
    )


def _hashes(paths: list[Path], said: str) -> list[str]:
    try:
        return [content_hash(path) for path in paths]
    except OSError as error:
        raise UserError(f"{said}: it cannot be read: {error.strerror}; check its permissions") from error


def _with_field(name: str) -> tuple[Path, str | None]:
    """Return a path, and the field that is named after it; a file with the whole name comes first."""
    path = located(name)
    named = re.fullmatch(r"(.*\.jsonl?(?:\.gz)?):([^/\\:]+)", name)
    return (path, None) if named is None or path.exists() else (located(named[1]), named[2])


def _paths(path: Path, asked: str) -> list[Path]:
    if path.is_dir():
        if any((path / name).is_file() for name in ("run.json", "experiment.yaml")):
            raise UserError(f"{asked} {path}: it is a results directory, not a text; name a text or a folder of texts")
        visible = (p for p in path.rglob("*") if not any(part.startswith(".") for part in p.relative_to(path).parts))
        texts = sorted(p for p in visible if p.is_file() and kind_of(p) in (*TEXT, *JSON))
        # Beside plain files, zipped ones are taken for copies of them.
        plain = [p for p in texts if p.suffix != ".gz"]
        if not texts:
            raise UserError(
                f"{asked} {path}: the folder has no .txt, .jsonl or .json file, plain or as .gz; give a folder that "
                "has one"
            )
        return plain or texts
    if not path.is_file():
        none = (
            "it is not an ordinary file" if path.exists() else f"there is no such file or folder (from {beginnings()})"
        )
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


REACH = 10_000
"""The most characters around the position of the share in which a better position is searched."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """The position where the only document of a corpus is split; white space between the two ends is dropped."""

    end_of_training: int
    start_of_held_out: int
    length: int
    unit: str
    """The unit of positions: characters, or ids."""

    def sentence(self, corpus: str) -> str:
        """Return a sentence that tells the user about the split."""
        held = self.length - self.start_of_held_out
        end = "the id that ends a text" if self.unit == "ids" else "<|endoftext|>"
        return (
            f"task.corpus {corpus} is one document, which is split by position: the last {held:,} of its "
            f"{self.length:,} {self.unit} are held out; put {end} between documents to hold out some of them"
        )


def cut_of(corpus: Corpus[D], share: float) -> Cut:
    """Return the position where the held-out last share of the only document begins.

    Raises:
        UserError: when there is too little of it.
    """
    length, unit = 0, "characters"
    for piece, _ in corpus.pieces():
        length += len(piece)
        unit = "characters" if isinstance(piece, str) else "ids"
    if length < 2:
        raise UserError(f"task.corpus {corpus.name}: it has fewer than 2 {unit}, so none can be held out; give more")
    at = min(max(1, length - math.ceil(share * length)), length - 1)
    ends = (at, at)
    if unit == "characters":
        reach = min(REACH, length - at)
        first = max(0, at - reach)
        window = "".join(str(part) for part in between(corpus.pieces(), first, at + reach))
        end, start = nearest_break(window, at - first, reach // 4)
        ends = (first + end, first + start)
    return Cut(end_of_training=ends[0], start_of_held_out=ends[1], length=length, unit=unit)


def nearest_break(text: str, at: int, near: int) -> tuple[int, int]:
    r"""Return the white space at which a text is best split: where it begins and ends; (at, at) if there is none.

    Args:
        text: the text to split; its own ends are no places.
        at: the approximate place.
        near: the largest distance at which a paragraph or a line is better than a nearer space.

    Examples:
        >>> nearest_break("one two\n\nthree", 5, 3), nearest_break("one two\n\nthree", 5, 1)
        ((7, 9), (3, 4))
        >>> nearest_break("word", 2, 9)
        (2, 2)
    """
    places = [m for m in re.finditer(r"\s+", text) if m.start() > 0 and m.end() < len(text)]

    def merit(place: re.Match[str]) -> tuple[int, int]:
        away = abs(place.start() - at)
        return (-min(2, place[0].count("\n")) if away <= near else 0, away)

    best = min(places, key=merit, default=None)
    return (at, at) if best is None else best.span()


def between(pieces: Iterator[tuple[D, bool]], first: int, last: int) -> Iterator[D]:
    """Yield the text from one position to another, in pieces."""
    position = 0
    for piece, _ in pieces:
        part = piece[max(0, first - position) : max(0, last - position)]
        position += len(piece)
        if len(part):
            yield part
        if position >= last:
            return

"""Tokens of a text task: made from a corpus, kept in the cache, and checked against the text they stand for.

A corpus is read three times and never held in memory. First its documents are counted, to choose the held-out ones.
Then a tokenizer is trained on the others, if the task asks for one. Last all documents are written as tokens. A corpus
of one document is split by position instead.

Tokens may lose unknown words, spaces and capitals. Bits per byte count bytes of the original text, so the share of the
text that survives the tokens is measured.
"""

import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Bool, Int64, Integer

from headway.base import files
from headway.base.files import cache_folder
from headway.base.identity import digest
from headway.base.text import counted
from headway.config.lm.text import TextTask, holds_ids
from headway.data import ngrams
from headway.data.cache import cached, content_hash
from headway.data.corpus import Corpus, Cut, between, cut_of, find_corpus, find_ids
from headway.data.tokenizer import Tokenizer, open_tokenizer
from headway.errors import UserError

_MOST = 1 << 22
"""The most characters that are compared."""


@dataclass(kw_only=True)
class RoundtripShare:
    """The share of a text that its tokens give back, added up document by document."""

    tokenizer: Tokenizer
    _kept: int = 0
    _of: int = 0

    def look(self, document: Any, ids: np.ndarray) -> None:
        """Compare a text with its tokens; tokens without a text are checked for the unknown token alone."""
        if self._of >= _MOST:
            return
        if not isinstance(document, str):
            kept = ids if self.tokenizer.unknown is None else ids[ids != self.tokenizer.unknown]
            self._kept, self._of = self._kept + len(kept), self._of + len(ids)
            return
        given_back = self.tokenizer.text_of(ids)
        self._kept += (Counter(document) & Counter(given_back)).total()
        # Added spaces would make bytes cheap, too.
        self._of += max(len(document), len(given_back))

    @property
    def share(self) -> float:
        """The share of characters that survive."""
        return self._kept / self._of if self._of else 1.0


SPLIT_SEED = 42
_FORMAT = 2
_DOCUMENTS_AT_ONCE = 1_000
_LENGTH_AT_ONCE = 1 << 22


def held_out_documents(n: int, share: float) -> Bool[np.ndarray, " document"]:
    """Return a mask of the held-out documents among n."""
    held = np.zeros(n, bool)
    # The seed is the published split's, used as the package datasets uses it, not a stream of ours.
    held[np.random.default_rng(SPLIT_SEED).permutation(n)[: math.ceil(share * n)]] = True
    return held


def check_split(task: TextTask, n: int) -> None:
    """Raise UserError if a corpus of n documents cannot be split.

    Raises:
        UserError: when no document would be left to train on.
    """
    if task.validation is not None or not held_out_documents(n, task.held_out).all():
        return
    documents = f"task.corpus {task.corpus}: it has {counted(n, 'document')}"
    if n > 1:
        raise UserError(
            f"{documents}, and {n} of them would be held out; lower task.held_out, or name another text in "
            "task.validation"
        )
    if task.stories == 1:
        raise UserError(f"{documents}, since task.stories is 1; raise it, or leave it out to take all")
    if task.padding == "published":
        raise UserError(
            f"{documents}, and with published padding a sequence is a document, so it cannot be split by position; put "
            "lines <|endoftext|> between its documents, or use packed padding"
        )


def dtype_of(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    """Return the integer type in which tokens are stored."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The corpora, files and tokenizer that the tokens of a task are made from."""

    task: TextTask
    corpus: Corpus[Any]
    validation: Corpus[Any] | None

    @classmethod
    def of(cls, task: TextTask) -> "Sources":
        """Find the corpora of a task.

        Raises:
            UserError: when one is missing, both are the same, or the disk has no room for their tokens.
        """
        corpus = _find(task, task.corpus, task.stories, "task.corpus")
        validation = None if task.validation is None else _find(task, task.validation, None, "task.validation")
        if validation and validation.digest.rpartition("-")[0] == corpus.digest.rpartition("-")[0]:
            raise UserError(
                f"task.validation {task.validation}: it is the corpus itself; name another, or leave it out to hold "
                "out a share of the corpus"
            )
        sources = cls(task=task, corpus=corpus, validation=validation)
        sources._check_room()
        return sources

    @property
    def digest(self) -> str:
        """A hash that is known before anything is made."""
        name = self.task.tokenizer
        if name.startswith("bpe-"):
            name += f" of tokenizers {tokenizers.__version__}"
        elif self.task.tokenizer_folder is not None:
            name = Tokenizer.load(self.task.tokenizer_folder).digest
        held = self.validation.digest if self.validation else self.task.held_out
        return digest([_FORMAT, self.corpus.digest, held, name])

    @property
    def folder(self) -> str:
        """The name of the tokens in the cache."""
        return f"tokens-{self.digest}"

    def _check_room(self) -> None:
        """Raise UserError if the disk has too little room for the tokens, as far as their size is known."""
        cache, least = cache_folder(), self.corpus.least_bytes
        there = next(folder for folder in (cache, *cache.parents) if folder.exists())
        if least > (free := shutil.disk_usage(there).free) and not (cache / self.folder).is_dir():
            raise UserError(
                f"task.stories {self.task.stories:,}: their tokens take {least / 1e9:,.0f} GB or more, and "
                f"{free / 1e9:,.0f} GB are free in {cache}; take fewer"
            )

    def write(self, folder: Path) -> None:
        """Write the tokens and all that is known about them."""
        n = self.corpus.count()
        check_split(self.task, n)
        cut = cut_of(self.corpus, self.task.held_out) if n == 1 and self.validation is None else None
        held = held_out_documents(n, 0.0 if self.validation else self.task.held_out)

        def training() -> Iterator[Any]:
            return between(self.corpus.pieces(), 0, cut.end_of_training) if cut else self._chosen(~held)

        def judging() -> Iterator[Any]:
            if self.validation is not None:
                return self.validation.documents()
            return between(self.corpus.pieces(), cut.start_of_held_out, cut.length) if cut else self._chosen(held)

        tokenizer = open_tokenizer(self.task.tokenizer, training)
        tokenizer.save(folder)
        np.save(folder / "counts.npy", _write_tokens(folder, "train", training(), tokenizer, whole=cut is None))
        text = RoundtripShare(tokenizer=tokenizer)
        counts = _write_tokens(folder, "held_out", judging(), tokenizer, whole=cut is None, text=text)
        source, judged = (self.validation, None) if self.validation else (self.corpus, held)
        facts = {
            "entropy_nats": _entropy(source, judged, int(counts.sum())),
            "cut": asdict(cut) if cut else None,
            "text_kept": 0.0 if self.task.tokenizer.startswith("ids-") else text.share,  # ids have no text
        }
        files.write_json(folder / "facts.json", facts)

    def _chosen(self, chosen: Bool[np.ndarray, " document"]) -> Iterator[Any]:
        return (text for text, taken in zip(self.corpus.documents(), chosen, strict=True) if taken)


def _find(task: TextTask, name: str, limit: int | None, asked: str) -> Corpus[Any]:
    if not holds_ids(name):
        return find_corpus(name, limit=limit, asked=asked)
    tokenizer = open_tokenizer(task.tokenizer, tuple)
    return find_ids(name, limit=limit, asked=asked, vocab_size=tokenizer.vocab_size, end_of_text=tokenizer.end_of_text)


def _entropy(source: Corpus[Any], judged: Bool[np.ndarray, " document"] | None, n_tokens: int) -> float | None:
    if source.nats is None:
        return None
    numbers: Iterable[int] = range(source.count()) if judged is None else np.flatnonzero(judged)
    return math.fsum(source.nats(int(number)) for number in numbers) / n_tokens


def _write_tokens(
    folder: Path,
    name: str,
    documents: Iterator[Any],
    tokenizer: Tokenizer,
    *,
    whole: bool,
    text: RoundtripShare | None = None,
) -> Int64[np.ndarray, " vocab"]:
    """Write documents as tokens, so many at once; how often each token was written comes back.

    `whole`: whether they are documents, each of which is ended, or pieces of one. `text` looks at what is written.
    """
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    lengths: list[np.ndarray] = []
    end = np.array([tokenizer.end_of_text])
    kept_as = dtype_of(tokenizer.vocab_size)
    with open(folder / f"{name}.bin", "wb") as file:

        def write(tokens: np.ndarray) -> None:
            counts[:] += np.bincount(tokens, minlength=tokenizer.vocab_size)
            file.write(tokens.astype(kept_as).tobytes())

        for some in _at_once(documents):
            rows = tokenizer.encode_many(some) if isinstance(some[0], str) else some
            encoded = [np.asarray(ids, np.int64) for ids in rows]
            write(np.concatenate([part for ids in encoded for part in ((ids, end) if whole else (ids,))]))
            lengths.append(np.array([len(ids) + whole for ids in encoded], np.int64))
            if text is not None:
                for document, ids in zip(some, encoded, strict=True):
                    text.look(document, ids)
        if not whole:
            write(end)
            lengths = [np.concatenate(lengths).sum(keepdims=True) + 1]
    np.save(folder / f"{name}_ends.npy", np.cumsum(np.concatenate(lengths)))
    return counts


def _at_once(documents: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield documents in groups that are neither many nor long."""
    some: list[Any] = []
    length = 0
    for document in documents:
        some.append(document)
        length += len(document)
        if len(some) == _DOCUMENTS_AT_ONCE or length >= _LENGTH_AT_ONCE:
            yield some
            some, length = [], 0
    if some:
        yield some


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of a task, and what is known about them; the arrays are mapped from the cache, not read."""

    train: Integer[np.ndarray, " train_token"] = field(repr=False)
    """Training documents one after the other, each ended by the end-of-text token; uint16, or uint32 above 65,536."""
    held_out: Integer[np.ndarray, " held_out_token"] = field(repr=False)
    """The documents that are never trained on, in the same form."""
    train_ends: Int64[np.ndarray, " train_document"] = field(repr=False)
    """The position after the end-of-text token of each training document."""
    held_out_ends: Int64[np.ndarray, " held_out_document"] = field(repr=False)
    """The position after the end-of-text token of each held-out document."""
    counts: Int64[np.ndarray, " vocab"] = field(repr=False)
    """The count of each token in the training documents."""
    tokenizer: Tokenizer
    digest: str
    """A hash of the tokens and of the tokenizer."""
    unigram_loss_nats: float
    """The unigram loss on evaluation tokens, counted on training tokens; see `ngrams`."""
    bigram_loss_nats: float
    entropy_nats: float | None
    """For stories of the grammar: the mean of -log p of the held-out stories per held-out token, the floor under the
    loss of any model. None for other corpora, and for published padding, where ends and first tokens are no targets."""
    roundtrip_share: float
    """The share of the held-out text that its tokens give back; 0 for ids without known text."""
    note: str = ""
    """A sentence about treatments of the corpus that a user may not expect."""

    @property
    def end_of_text(self) -> int:
        """The token that ends a document."""
        return self.tokenizer.end_of_text

    @property
    def unused(self) -> Bool[np.ndarray, " vocab"]:
        """The tokens that never occur in the training documents."""
        return self.counts == 0


def open_corpus(task: TextTask) -> Tokens:
    """Return the tokens of a task, and make them if the cache has none.

    The first `task.stories` documents of the corpus are taken. Of n documents, ceil(held_out n) are held out: the first
    ones of a permutation with seed 42. They are the same for every seed of a run, and the ones that
    `train_test_split(test_size=held_out, seed=42)` of the package datasets takes, as the published experiments did. Of
    a single document the end is held out. Cached tokens are read completely before use, since models are trained on
    them.

    Raises:
        UserError: when the corpus or the tokenizer is missing or not fit, or the cache cannot be written.
    """
    return kept_tokens(task, Sources.of(task), reread=True)


def kept_tokens(task: TextTask, sources: Sources, *, reread: bool = False) -> Tokens:
    """Return the tokens of a task whose corpora are open already, mapped from the cache or made."""
    folder = cached(sources.folder, sources.write, reread=reread)
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    cut = Cut(**facts["cut"]) if facts.get("cut") else None  # None: between documents
    if cut is not None:
        check_split(task, 1)  # tokens made for another task may not suit this one
    tokenizer = Tokenizer.load(folder)
    dtype = dtype_of(tokenizer.vocab_size)
    published = task.padding == "published"
    arrays = {name: np.memmap(folder / f"{name}.bin", dtype, mode="r") for name in ("train", "held_out")}
    ends = {name: np.load(folder / f"{name}_ends.npy", mmap_mode="r") for name in arrays}
    unigram, bigram = _baselines(folder, arrays, ends, tokenizer.vocab_size, task.n_ctx if published else None)
    return Tokens(
        **arrays,
        train_ends=ends["train"],
        held_out_ends=ends["held_out"],
        counts=np.load(folder / "counts.npy"),
        tokenizer=tokenizer,
        digest=digest([content_hash(folder / name) for name in ("train.bin", "held_out.bin", "tokenizer.json")]),
        unigram_loss_nats=unigram,
        bigram_loss_nats=bigram,
        entropy_nats=None if published else facts["entropy_nats"],
        roundtrip_share=facts["text_kept"],
        note=cut.sentence(task.corpus) if cut else "",
    )


def _baselines(
    folder: Path, arrays: dict[str, np.memmap], ends: dict[str, np.ndarray], vocab_size: int, longest: int | None
) -> tuple[float, float]:
    def write(into: Path) -> None:
        train, held_out = (ngrams.neighbours(arrays[name], ends[name], longest) for name in ("train", "held_out"))
        unigram, bigram = ngrams.losses_nats(ngrams.count(train, vocab_size), held_out)
        files.write_json(into / "losses.json", {"unigram_nats": unigram, "bigram_nats": bigram})

    kept = cached(f"{folder.name}-ngrams-{longest or 'packed'}", write) / "losses.json"
    losses = json.loads(kept.read_text(encoding="utf-8"))
    return losses["unigram_nats"], losses["bigram_nats"]

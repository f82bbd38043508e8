"""Data: the tokens of a text task: made once, kept in the cache, and mapped into memory.

A corpus is read three times and never held in memory: its documents are counted, so that the held-out ones can be
chosen; a tokenizer is trained on the others where the task asks for one; then all are written as tokens.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import tokenizers
from jaxtyping import Bool, Int64, Integer

from headway import files
from headway.data.tokens import ngrams, packing
from headway.data.tokens.cache import cached, content_hash
from headway.data.tokens.corpus import Corpus, find_corpus
from headway.data.tokens.examples import Batch, Examples
from headway.data.tokens.tokenizer import Tokenizer, open_tokenizer
from headway.declare.tokens.text import TextTask
from headway.errors import UserError
from headway.identity import digest

SPLIT_SEED = 42
_FORMAT = 1
_DOCUMENTS_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of a task, and what is known about them; the arrays are mapped from the cache, not read."""

    train: Integer[np.ndarray, " train_token"] = field(repr=False)
    """Training documents one after the other, each ended by the end-of-text token; uint16, or uint32 above 65,536."""
    held_out: Integer[np.ndarray, " held_out_token"] = field(repr=False)
    """The documents that are never trained on, likewise."""
    train_ends: Int64[np.ndarray, " train_document"] = field(repr=False)
    """For each training document the position after its end-of-text token."""
    held_out_ends: Int64[np.ndarray, " held_out_document"] = field(repr=False)
    """For each held-out document, likewise."""
    counts: Int64[np.ndarray, " vocab"] = field(repr=False)
    """How often each token occurs in the training documents."""
    tokenizer: Tokenizer
    digest: str
    """A hash of the tokens and of the tokenizer."""
    unigram_loss_nats: float
    """On the tokens that a model is judged on, counted on those it is trained on; see `ngrams`."""
    bigram_loss_nats: float
    entropy_nats: float | None
    """For stories of the grammar: the mean of -log p of the held-out stories per held-out token, the floor under the
    loss of any model. None for other corpora, and for published padding, where ends and first tokens are no targets."""

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return self.tokenizer.vocab_size

    @property
    def end_of_text(self) -> int:
        """The token that ends a document."""
        return self.tokenizer.end_of_text

    @property
    def n_train_tokens(self) -> int:
        """Training tokens, ends of text among them."""
        return len(self.train)

    @property
    def train_documents(self) -> int:
        """Training documents."""
        return len(self.train_ends)

    @property
    def held_out_documents(self) -> int:
        """Held-out documents."""
        return len(self.held_out_ends)

    @property
    def unused(self) -> Bool[np.ndarray, " vocab"]:
        """The tokens that never occur in the training documents."""
        return self.counts == 0


def open_corpus(task: TextTask) -> Tokens:
    """The tokens of a task; they are made where the cache has none.

    The first `task.stories` documents of the corpus are taken. Of n documents, ceil(held_out n) are held out: the
    first ones of a permutation with seed 42, so the same ones whatever the seed of a run (and the same ones as
    `train_test_split(test_size=held_out, seed=42)` of the package datasets takes, as the published experiments did).

    Raises:
        UserError: when the corpus or the tokenizer is missing or not fit, or the cache cannot be written.
    """
    corpus = find_corpus(task.corpus, limit=task.stories, asked="task.corpus")
    validation = task.validation and find_corpus(task.validation, limit=None, asked="task.validation")
    if validation and validation.digest.rpartition("-")[0] == corpus.digest.rpartition("-")[0]:
        raise UserError(
            f"task.validation {task.validation}: it is the corpus itself; name another, or leave it out to hold out "
            "a share of the corpus"
        )
    sources = _Sources(task=task, corpus=corpus, validation=validation or None)
    folder = cached(f"tokens-{sources.digest}", sources.write)
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(folder)
    dtype = _dtype(tokenizer.vocab_size)
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
    )


class TextExamples(Examples):
    """The text of a task, in sequences; the law of which token stands where is that of `packing`."""

    def __init__(self, task: TextTask, tokens: Tokens):
        self.task, self.tokens = task, tokens
        self.tokenizer = tokens.tokenizer
        self.files = {"tokenizer.json": tokens.tokenizer.inner.to_str()}

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return self.tokens.vocab_size

    @property
    def digest(self) -> str:
        """A hash of the tokens and of the tokenizer."""
        return self.tokens.digest

    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """As `packing.training_batch`."""
        return packing.training_batch(self.tokens, self.task, seed, step, batch_size)

    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """As `packing.evaluation_batches`."""
        return packing.evaluation_batches(self.tokens, self.task, sequences, batch_size)

    def steps_per_epoch(self, batch_size: int) -> float:
        """As `packing.steps_per_epoch`."""
        return packing.steps_per_epoch(self.tokens, self.task, batch_size)

    def targets_per_step(self, batch_size: int) -> float:
        """Every position; with padding the mean over the documents."""
        if self.task.padding == "packed":
            return float(batch_size * self.task.n_ctx)
        lengths = np.diff(self.tokens.train_ends, prepend=0) - 1
        return batch_size * float((np.minimum(lengths, self.task.n_ctx) - 1).clip(0).mean())


def open_examples(task: TextTask) -> TextExamples:
    """The text of a task; its tokens are made where the cache has none.

    Raises:
        UserError: as `open_corpus`.
    """
    return TextExamples(task, open_corpus(task))


def held_out_documents(n: int, share: float) -> Bool[np.ndarray, " document"]:
    """Which of n documents are held out."""
    held = np.zeros(n, bool)
    # The seed is the published split's, used as the package datasets uses it, not a stream of ours.
    held[np.random.default_rng(SPLIT_SEED).permutation(n)[: math.ceil(share * n)]] = True
    return held


def _dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """What the tokens of a task are made from."""

    task: TextTask
    corpus: Corpus
    validation: Corpus | None

    @property
    def digest(self) -> str:
        """Known before anything is made."""
        name = self.task.tokenizer
        if name.startswith("bpe-"):
            name += f" of tokenizers {tokenizers.__version__}"
        elif name not in ("bytes", "gpt2"):
            name = Tokenizer.load(Path(name).expanduser()).digest
        held = self.validation.digest if self.validation else self.task.held_out
        return digest([_FORMAT, self.corpus.digest, held, name])

    def write(self, folder: Path) -> None:
        """Write the tokens and all that is known about them."""
        n = sum(1 for _ in self.corpus.documents())
        held = np.zeros(n, bool) if self.validation else held_out_documents(n, self.task.held_out)
        if held.all():
            raise UserError(
                f"task.corpus {self.task.corpus}: it has {n} document{'s' * (n > 1)}, and {held.sum()} of them would "
                "be held out; put lines <|endoftext|> between its documents, or name another text in task.validation"
            )
        tokenizer = open_tokenizer(self.task.tokenizer, lambda: self._chosen(~held))
        tokenizer.save(folder)
        train = _write_tokens(folder, "train", self._chosen(~held), tokenizer)
        np.save(folder / "counts.npy", train)
        source, judged = (self.validation, None) if self.validation else (self.corpus, held)
        held_out = self.validation.documents() if self.validation else self._chosen(held)
        n_tokens = int(_write_tokens(folder, "held_out", held_out, tokenizer).sum())
        files.write_json(folder / "facts.json", {"entropy_nats": _entropy(source, judged, n_tokens)})

    def _chosen(self, chosen: Bool[np.ndarray, " document"]) -> Iterator[str]:
        return (text for text, taken in zip(self.corpus.documents(), chosen, strict=True) if taken)


def _entropy(source: Corpus, judged: Bool[np.ndarray, " document"] | None, n_tokens: int) -> float | None:
    if source.nats is None:
        return None
    numbers: Iterable[int] = range(sum(1 for _ in source.documents())) if judged is None else np.flatnonzero(judged)
    return math.fsum(source.nats(int(number)) for number in numbers) / n_tokens


def _write_tokens(
    folder: Path, name: str, documents: Iterator[str], tokenizer: Tokenizer
) -> Int64[np.ndarray, " vocab"]:
    """Write documents as tokens, so many at once; how often each token was written comes back."""
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    lengths: list[np.ndarray] = []
    with open(folder / f"{name}.bin", "wb") as file:
        while texts := list(islice(documents, _DOCUMENTS_AT_ONCE)):
            encoded = [[*ids, tokenizer.end_of_text] for ids in tokenizer.encode_many(texts)]
            block = np.concatenate([np.asarray(ids, np.int64) for ids in encoded])
            counts += np.bincount(block, minlength=tokenizer.vocab_size)
            lengths.append(np.array([len(ids) for ids in encoded], np.int64))
            file.write(block.astype(_dtype(tokenizer.vocab_size)).tobytes())
    np.save(folder / f"{name}_ends.npy", np.cumsum(np.concatenate(lengths)))
    return counts


def _baselines(
    folder: Path,
    arrays: dict[str, np.memmap],
    ends: dict[str, np.ndarray],
    vocab_size: int,
    longest: int | None,
) -> tuple[float, float]:
    def write(into: Path) -> None:
        train, held_out = (ngrams.neighbours(arrays[name], ends[name], longest) for name in ("train", "held_out"))
        unigram, bigram = ngrams.losses_nats(ngrams.count(train, vocab_size), held_out)
        files.write_json(into / "losses.json", {"unigram_nats": unigram, "bigram_nats": bigram})

    kept = cached(f"{folder.name}-ngrams-{longest or 'packed'}", write) / "losses.json"
    losses = json.loads(kept.read_text(encoding="utf-8"))
    return losses["unigram_nats"], losses["bigram_nats"]

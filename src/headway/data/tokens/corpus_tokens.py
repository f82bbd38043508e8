"""Data: the tokens of a corpus: mapped from the cache, and made where it has none."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int64, Integer

from headway import files
from headway.data.tokens import ngrams
from headway.data.tokens.building import Sources, check_split, cut_in, dtype_of
from headway.data.tokens.token_cache import cached, content_hash
from headway.data.tokens.tokenizer import Tokenizer
from headway.declare.tokens.text import TextTask
from headway.identity import digest


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
    text_kept: float
    """The share of the held-out text that its tokens give back; 0 for ids of which no text is known."""
    note: str = ""
    """What was done with the corpus that one may not expect, in a sentence."""

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
    Of a single document the end is held out. What the cache has is read whole first, since models are trained on it.

    Raises:
        UserError: when the corpus or the tokenizer is missing or not fit, or the cache cannot be written.
    """
    return kept_tokens(task, Sources.of(task), reread=True)


def kept_tokens(task: TextTask, sources: Sources, *, reread: bool = False) -> Tokens:
    """The tokens of a task whose corpora were found already; see `open_corpus`."""
    folder = cached(sources.folder, sources.write, reread=reread)
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    cut = cut_in(facts)
    if cut is not None:
        check_split(task, 1)  # what was made for another task may be no good for this one
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
        text_kept=facts["text_kept"],
        note=cut.sentence(task.corpus) if cut else "",
    )


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

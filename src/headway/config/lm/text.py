"""Language modelling: the task of predicting the next token of a corpus."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from headway.base.files import located, read_bytes
from headway.config.lm.task import TokensTask
from headway.config.spec import check_path
from headway.errors import DeclarationError, near

CORPORA = ("stories", "tinystories")
"""Corpora that are known by name."""

OWN_CORPORA: dict[str, Callable[[], Iterable[Any]]] = {}
"""Corpora of token ids that plugins register, by name; each call gives the documents, in order."""

MOST_MERGED = 1_000_000
"""The most tokens of a BPE that is trained here: four times the largest in use."""
_SIZES = {"bytes": 257, "gpt2": 50257}
TOKENIZERS = (*_SIZES, "bpe-N", "ids-N")
"""Tokenizers that are known by name, N a size of the vocabulary."""

LARGEST_VOCABULARY = 200_000_000
"""Bytes of a vocabulary's file; those of 250,000 tokens with their merges have 20 MB."""

MOST_TOKENS = 2**31

_FIELD = r"(\.jsonl?(?:\.gz)?):[^/\\:]+$"
"""The name of a field, written after a file of JSON lines."""

TOKENS_PER_TINY_STORY = 206
"""The mean number of GPT-2 tokens of a story."""


class TextTask(TokensTask):
    """The task of predicting the next token of a corpus."""

    primary: ClassVar[str] = "eval_loss_nats"
    examples: ClassVar[str] = "headway.data.text.text_examples"
    preflight: ClassVar[str] = "headway.data.text.preflight"
    judge: ClassVar[str] = "headway.train.lm.evaluate.TextJudge"
    baselines: ClassVar[str] = "headway.stats.lm.summary.text_baselines"

    n_ctx: PositiveInt = Field(description="tokens of a training sequence")
    kind: Literal["text"]
    corpus: str = Field(
        description="`stories` (Headway's own grammar), `tinystories` (from the hub), or a path relative to the "
        "working directory: a `.txt` (`<|endoftext|>` ends a document), a `.jsonl` (a text per line, in its "
        "field `text` or `story`; `FILE.jsonl:FIELD` names another), either of them as `.gz`, a folder of such files, "
        "or a `.npy` (one row of token ids)"
    )
    validation: str | None = Field(None, description="the corpus of held-out text; null: `held_out` of the corpus")
    held_out: float = Field(
        0.01,
        gt=0,
        lt=1,
        description="share of the documents to hold out; of a single document, the last part",
    )
    stories: PositiveInt | None = Field(
        None, description="documents to read, held-out ones included; null: all (20,000 of `stories`)"
    )
    tokenizer: str = Field(
        "bytes",
        description="`bytes`, `bpe-4096` (trained on the corpus), `gpt2` (from the hub), or a folder with "
        "tokenizer.json, or with vocab.json and merges.txt; `ids-50257` for a `.npy` of the ids 0 to 50256 (the last "
        "id ends a document)",
    )
    padding: Literal["packed", "published"] = Field(
        "packed",
        description="packed: documents are joined; published: documents are padded, and the model never learns to stop",
    )

    @model_validator(mode="after")
    def _names_known(self) -> "TextTask":
        for key in ("corpus", "validation", "tokenizer"):
            check_path(getattr(self, key) or "", key)
        kind, size = self._named_tokenizer
        if kind == "bpe" and not 258 <= size <= MOST_MERGED:
            raise ValueError(
                f"tokenizer {self.tokenizer}: a byte-level BPE needs 258 tokens or more (256 bytes, the end of a "
                f"text, a merge), and may have {MOST_MERGED:,}; `bytes` takes 257"
            )
        if kind == "ids" and size < 2:
            raise ValueError(f"tokenizer {self.tokenizer}: give 2 ids or more; the last of them ends a document")
        if not kind and not _is_path(self.tokenizer):
            raise ValueError(
                f"tokenizer {self.tokenizer!r} is not known; {near(self.tokenizer, TOKENIZERS)}; a folder is given by "
                f"a path with a slash, such as ./{self.tokenizer or 'gpt2'}"
            )
        for key, corpus in zip(("corpus", "validation"), self.corpora, strict=False):
            names = (*CORPORA, *OWN_CORPORA)
            if corpus not in names and not _is_path(corpus) and "." not in corpus:
                raise ValueError(
                    f"{key} {corpus!r} is not known; {near(corpus, names)}; a folder is given by a path with a "
                    f"slash, such as ./{corpus or 'texts'}"
                )
            if kind == "ids" and not holds_ids(corpus):
                raise ValueError(
                    f"tokenizer {self.tokenizer} is for token ids, and {key} {corpus} is text; give a .npy file, or "
                    "a tokenizer of text"
                )
            if kind == "bpe" and holds_ids(corpus):
                raise ValueError(
                    f"tokenizer {self.tokenizer} is trained on text, and {key} {corpus} holds ids; give the tokenizer "
                    "that made them, or ids-N"
                )
        if self.validation is not None and self.held_out != type(self).model_fields["held_out"].default:
            raise ValueError(
                f"held_out {self.held_out} would change nothing, since validation {self.validation} is held out "
                "already; give one of them"
            )
        return self

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary.

        Raises:
            DeclarationError: when the tokenizer's folder cannot be read.
        """
        kind, size = self._named_tokenizer
        return size if kind else _vocab_size(self.tokenizer)

    @property
    def tokenizer_folder(self) -> Path | None:
        """The folder of the tokenizer; None for a tokenizer that is known by name."""
        return None if self._named_tokenizer[0] else located(self.tokenizer)

    @property
    def _named_tokenizer(self) -> tuple[str, int]:
        """The kind of a tokenizer that is known by name, and its tokens; an empty kind for a folder."""
        if self.tokenizer in _SIZES:
            return self.tokenizer, _SIZES[self.tokenizer]
        match = re.fullmatch(r"(bpe)-([0-9]{1,9})|(ids)-([0-9]{1,7})", self.tokenizer)
        return (match[1] or match[3], int(match[2] or match[4])) if match else ("", 0)

    def why_not_prompt(self, prompt: str) -> str | None:
        """Return why a tokenizer of ids cannot take a text as prompt: ids without known text are written as numbers."""
        kind, size = self._named_tokenizer
        if kind != "ids" or all(re.fullmatch(r"0|[1-9][0-9]*", w) and int(w) < size - 1 for w in prompt.split()):
            return None
        return (
            f"with tokenizer {self.tokenizer} it is ids, such as '17 4', or '' for the end of a text; or set samples "
            "to null"
        )

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpus, and the validation corpus if there is another."""
        return (self.corpus,) if self.validation is None else (self.corpus, self.validation)

    @property
    def read_files(self) -> tuple[Path, ...]:
        """The texts and the tokenizer that are given by a path."""
        texts = [re.sub(_FIELD, r"\1", corpus) for corpus in self.corpora if corpus not in CORPORA]
        return (*map(located, texts), *([] if self.tokenizer_folder is None else [self.tokenizer_folder]))

    @property
    def expected_sequences(self) -> float | None:
        """The approximate number of sequences of an epoch, known for TinyStories alone."""
        if self.corpus != "tinystories" or self.tokenizer != "gpt2" or self.stories is None:
            return None
        stories = self.stories * (1 if self.validation else 1 - self.held_out)
        return stories if self.padding == "published" else stories * TOKENS_PER_TINY_STORY / self.n_ctx


def holds_ids(corpus: str) -> bool:
    """Return whether a corpus consists of token ids: a file of ids, or a corpus that a plugin registers."""
    return corpus.endswith(".npy") or corpus in OWN_CORPORA


def _is_path(text: str) -> bool:
    # Not by looking whether it is there: what a stored run says must mean the same in every directory.
    return "/" in text or "\\" in text


def _vocab_size(named: str) -> int:
    try:
        folder = located(named)
        if (folder / "tokenizer.json").is_file():
            content = _json(folder / "tokenizer.json")
            ids = [*content["model"]["vocab"].values(), *(token["id"] for token in content.get("added_tokens", ()))]
        else:
            ids = list(_json(folder / "vocab.json").values())
        if not all(isinstance(token, int) and 0 <= token < MOST_TOKENS for token in ids):
            raise ValueError(f"a token's number is none from 0 to {MOST_TOKENS:,}")
        return max(ids) + 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        raise DeclarationError(
            f"task.tokenizer: {named!r} is neither bytes, bpe-N, gpt2, nor a folder with a vocab.json and a "
            "merges.txt, or a tokenizer.json"
        ) from None


def _json(path: Path) -> Any:
    if not path.is_file() or path.stat().st_size > LARGEST_VOCABULARY:
        raise ValueError(f"{path} is not a file, or larger than {LARGEST_VOCABULARY:,} bytes")
    return json.loads(read_bytes(path, links=True))

"""Tokenizers: text to tokens and back.

Every tokenizer here is one of the library `tokenizers` and is kept as one `tokenizer.json`. `bytes` is a byte-level BPE
without merges whose token ids are the bytes, and 256 the end of a text. A tokenizer without an end-of-text token can be
used to read a text, but not to train or to generate.

Tokenizer files may come from strangers. A tokenizer is a small program: its steps may replace a character by many,
again and again, until a short text fills the memory. So Headway first bounds how many characters they make of a text.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import tokenizers
from jaxtyping import Integer
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from headway.base.files import kept_json, located, read_bytes
from headway.base.identity import digest
from headway.errors import UserError, explained, shortened

END_OF_TEXT = "<|endoftext|>"
_ENDS = (END_OF_TEXT, "</s>", "<|end_of_text|>", "<eos>", "[EOS]")
_HUB = "openai-community/gpt2"


@dataclass(frozen=True, kw_only=True)
class _Encoding:
    """A tokenizer of the library, with its errors explained."""

    inner: tokenizers.Tokenizer = field(repr=False)
    vocab_size: int

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; `<|endoftext|>` in it becomes the one token."""
        return self._ids(lambda: [self.inner.encode(text, add_special_tokens=False)])[0]

    def encode_as_written(self, text: str) -> list[int]:
        """Return the ids of a text with the tokens that the tokenizer puts around it, such as Llama's first token."""
        return self._ids(lambda: [self.inner.encode(text)])[0]

    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        """Return the text of tokens; bytes that are no UTF-8 become the replacement character."""
        ids = [int(token) for token in tokens]
        with explained("the tokenizer has no text for its tokens", "give another"):
            return str(self.inner.decode(ids, skip_special_tokens=False))

    def _ids(self, encode: Callable[[], Iterable[tokenizers.Encoding]]) -> list[list[int]]:
        advice = "give another, or a tokenizer with a token for what it does not know"
        with explained("the tokenizer has no token for a part of the text", advice):
            try:
                return [found.ids for found in encode()]
            except TypeError:
                raise UserError("the text has characters that UTF-8 cannot hold; give it in that encoding") from None


@dataclass(frozen=True, kw_only=True)
class Tokenizer(_Encoding):
    """A tokenizer and its token for the end of a text, which every document ends with."""

    end_of_text: int

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer, name: str, end: str | None = None) -> "Tokenizer":
        """Find the end of a text among the tokens.

        Args:
            inner: the library's tokenizer.
            name: the name of the tokenizer, for messages.
            end: the token that ends a text if none of the usual tokens exists; None: unknown.

        Raises:
            NoEndOfText: when there is none.
        """
        vocabulary = inner.get_vocab(with_added_tokens=True)
        end = next((token for token in (*_ENDS, end) if token in vocabulary), None)
        if end is None:
            problem = f"it has no token for the end of a text ({', '.join(_ENDS)}); add one to it"
            raise NoEndOfText(f"tokenizer {name}: {problem}")
        inner.no_truncation()
        inner.no_padding()
        # Added as a token, it is found in a text as a whole; its id stays.
        inner.add_special_tokens([AddedToken(end, normalized=False, special=True)])
        return cls(inner=inner, end_of_text=vocabulary[end], vocab_size=max(vocabulary.values()) + 1)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read a folder with a tokenizer.json, or a vocab.json and a merges.txt.

        Raises:
            UserError: when it has neither, or they are none, far larger than one, or make too much of a text.
        """
        name = str(folder)
        whole, vocabulary, merges = folder / "tokenizer.json", folder / "vocab.json", folder / "merges.txt"
        check_tokenizer(folder)
        with explained(f"tokenizer {name}: its files are not those of a tokenizer", "give others"):
            if whole.is_file():
                inner = tokenizers.Tokenizer.from_file(str(whole))
                check_growth(inner, name)
                return cls.of(inner, name, named_end(folder))
            if vocabulary.is_file() and merges.is_file():
                return cls.of(_byte_level(models.BPE.from_file(str(vocabulary), str(merges))), name)
        raise UserError(
            f"tokenizer {name}: it is neither bytes, bpe-N, gpt2, nor a folder with a vocab.json and a "
            "merges.txt, or a tokenizer.json"
        )

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` into a folder."""
        (folder / "tokenizer.json").write_text(self.inner.to_str(), encoding="utf-8")

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, using all cores."""
        return self._ids(lambda: self.inner.encode_batch_fast(list(texts), add_special_tokens=False))

    def n_bytes(self, tokens: Integer[np.ndarray, " token"]) -> int:
        """Return the bytes of the text that tokens stand for; the end of a text and unknown tokens count as none.

        Examples:
            >>> bytes_tokenizer().n_bytes(np.array([104, 105, 256]))
            2
        """
        if not isinstance(self.inner.decoder, decoders.ByteLevel):
            return len(self.text_of(tokens).encode())
        written = tokens[tokens != self.end_of_text]
        # A character of a byte-level token is a byte, so that none is lost where a text is cut within a character.
        ids, counts = np.unique(written, return_counts=True)
        return int(np.dot(counts, [len(self.inner.id_to_token(int(token)) or "") for token in ids])) if len(ids) else 0

    def text_of(self, tokens: Integer[np.ndarray, " token"]) -> str:
        """Return the text of tokens without unknown tokens and ends."""
        return self.decode(tokens[(tokens != self.end_of_text) & (tokens != self.unknown)])

    @cached_property
    def unknown(self) -> int | None:
        """The token for unknown text, if the tokenizer has one."""
        model = json.loads(self.inner.to_str())["model"]
        if model["type"] == "Unigram":
            return None if model["unk_id"] is None else int(model["unk_id"])
        return self.inner.token_to_id(model.get("unk_token") or "")

    @property
    def digest(self) -> str:
        """A hash of everything the tokenizer does."""
        return digest(self.inner.to_str())


def open_tokenizer(name: str, training_documents: Callable[[], Iterable[str]]) -> Tokenizer:
    """Return the tokenizer that a task names; only `bpe-N` reads the training documents.

    Raises:
        UserError: when it cannot be had, it has no token for some texts, or the documents are too few for N tokens.
    """
    if name == "bytes":
        return bytes_tokenizer()
    if bpe := re.fullmatch(r"bpe-(\d+)", name):
        return trained_bpe(training_documents(), int(bpe[1]))
    if ids := re.fullmatch(r"ids-(\d+)", name):
        return ids_tokenizer(int(ids[1]))
    tokenizer = _gpt2() if name == "gpt2" else Tokenizer.load(located(name))
    _check_encodes_everything(tokenizer.inner, name)
    return tokenizer


def bytes_tokenizer() -> Tokenizer:
    """Return the tokenizer with a token for each byte, and 256 for the end of a text.

    Examples:
        >>> bytes_tokenizer().encode("hi<|endoftext|>")
        [104, 105, 256]
    """
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())} | {END_OF_TEXT: 256}
    return Tokenizer.of(_byte_level(models.BPE(vocab=vocabulary, merges=[])), "bytes")


def ids_tokenizer(vocab_size: int) -> Tokenizer:
    """Return a tokenizer for ids without known text: each id is written as its number, the last ends a text.

    Encoding a text keeps only the numbers in it that are ids.

    Examples:
        >>> ids_tokenizer(50_257).decode([464, 3290, 50_256])
        '464 3290 <|endoftext|>'
    """
    vocabulary = {str(number): number for number in range(vocab_size - 1)} | {END_OF_TEXT: vocab_size - 1}
    inner = tokenizers.Tokenizer(models.WordLevel(vocabulary))
    # The model raises an error for any other word.
    words = tokenizers.Regex(rf"(?<!\S)(?:{_numbers_to(vocab_size - 2)})(?!\S)")
    inner.pre_tokenizer = pre_tokenizers.Split(words, behavior="removed", invert=True)
    return Tokenizer.of(inner, f"ids-{vocab_size}")


def _numbers_to(last: int) -> str:
    """Return a pattern of the whole numbers from 0 to a given one.

    Examples:
        >>> [number for number in range(2_000) if re.fullmatch(_numbers_to(1_305), str(number))] == list(range(1_306))
        True
    """
    digits = str(last)
    shorter = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    smaller = [
        f"{digits[:at]}[{int(at == 0)}-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}"
        for at, digit in enumerate(digits)
        if int(digit) > int(at == 0)
    ]
    return "|".join(dict.fromkeys(["0", digits, *shorter, *smaller]))


def trained_bpe(documents: Iterable[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE: the end of a text (id 0), 256 bytes, and merges of pairs seen twice or more.

    Raises:
        UserError: when the documents do not give that many merges.
    """
    inner = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(documents, trainer)
    if (size := inner.get_vocab_size()) != vocab_size:
        raise UserError(
            f"tokenizer bpe-{vocab_size}: the training documents have {size - 257} merges, so {size} tokens at "
            f"most; ask for bpe-{size} or smaller, or give a larger corpus"
        )
    return Tokenizer.of(inner, f"bpe-{vocab_size}")


def _check_encodes_everything(inner: tokenizers.Tokenizer, name: str) -> None:
    """Raise UserError unless every text has tokens, through an unknown token or a token for every byte.

    A BPE without either drops unknown parts silently, and other models raise in the middle of a corpus.

    Raises:
        UserError: saying what is missing.
    """
    content, vocabulary = json.loads(inner.to_str()), inner.get_vocab(with_added_tokens=True)
    model = content["model"]
    kind, unknown = model["type"], model.get("unk_token")
    if (model["unk_id"] is not None) if kind == "Unigram" else unknown in vocabulary:
        return
    steps = json.dumps([content["normalizer"], content["pre_tokenizer"]])
    affixes = [model.get(key) or "" for key in ("continuing_subword_prefix", "end_of_word_suffix")]
    if kind in ("BPE", "Unigram") and '"ByteLevel"' in steps and not any(affixes):
        needed = set(byte_characters())
    elif kind == "BPE" and model["byte_fallback"]:
        needed = {f"<0x{byte:02X}>" for byte in range(256)}
    else:
        needed = None
    if needed is not None and needed <= vocabulary.keys():
        return
    lacks = f"its unk_token {unknown!r} is not in its vocabulary" if unknown else "it names no unknown token"
    raise UserError(
        f"tokenizer {name}: its {kind} model could lose parts of a text ({lacks}, and not every byte has a token); "
        "add a token such as <unk> and name it as the model's unknown token, or give a byte-level tokenizer"
    )


def _byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def byte_characters() -> list[str]:
    """Return the printable character that stands for each byte in a byte-level vocabulary."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _gpt2() -> Tokenizer:
    try:
        return Tokenizer.of(tokenizers.Tokenizer.from_pretrained(_HUB), "gpt2")
    except UserError:
        raise
    except Exception as error:  # the hub's client has many kinds of failures, and the library its own
        raise UserError(
            f"tokenizer gpt2: {_HUB} cannot be read from the hub ({type(error).__name__}); with no network, give "
            "a folder with GPT-2's vocab.json and merges.txt"
        ) from error


@dataclass(frozen=True, kw_only=True)
class NoEosTokenizer(_Encoding):
    """A tokenizer without a token for the end of a text: documents cannot be separated."""

    end_of_text: None = None

    @classmethod
    def load(cls, folder: Path) -> "NoEosTokenizer":
        """Read a folder with a tokenizer.json that `Tokenizer.load` refused for that alone."""
        inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        inner.no_truncation()
        inner.no_padding()
        return cls(inner=inner, vocab_size=max(inner.get_vocab(with_added_tokens=True).values()) + 1)


_LARGEST = {"tokenizer.json": 40_000_000, "vocab.json": 16_000_000, "merges.txt": 16_000_000}
"""The most bytes of each file; the largest known tokenizer.json has 34 MB."""
_MOST_GROWTH = 1_000
"""The most characters that the steps of a tokenizer may make of one."""
_LARGEST_ID = 10_000_000
"""The largest id: ten times the largest vocabulary. The library keeps 4 bytes for every smaller id without a token."""
_LONGEST_WORD = 10_000
"""The longest word that WordPiece searches for pieces, in a time that grows with the square."""


class NoEndOfText(UserError):
    """An error: a tokenizer has no token for the end of a text."""


def check_tokenizer(folder: Path) -> None:
    """Raise UserError if a tokenizer's files or ids are larger than those of real tokenizers.

    Raises:
        UserError: saying what is wrong with them.
    """
    for name, largest in _LARGEST.items():
        if (folder / name).is_file() and (size := (folder / name).stat().st_size) > largest:
            raise UserError(
                f"tokenizer {folder}: {name} has {size / 1e6:,.0f} MB, and no tokenizer has more than "
                f"{largest / 1e6:g} MB; give another"
            )
    # The library walks through all ids below the largest.
    for name in ("tokenizer.json", "vocab.json"):
        # The library, which reads the file next, reports invalid JSON or an invalid tokenizer.
        content = kept_json(folder / name, links=True)
        largest = max((id for id in _ids(content) if isinstance(id, int)), default=0)
        if largest > _LARGEST_ID:
            raise UserError(
                f"tokenizer {folder}: a token of {name} has the id {shortened(str(largest))}, and {_LARGEST_ID:,} is "
                "the largest that is allowed; give another"
            )


def _ids(content: Any) -> Iterator[Any]:
    """Yield the entries that stand for ids in a tokenizer.json or a vocab.json."""
    if not isinstance(content, dict):
        return
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else content
    yield from vocabulary.values() if isinstance(vocabulary, dict) else ()
    yield from (token.get("id") for token in added if isinstance(token, dict)) if isinstance(added, list) else ()


def check_growth(inner: tokenizers.Tokenizer, name: str) -> None:
    """Raise UserError if a tokenizer makes many characters of one or searches words of unbounded length.

    Raises:
        UserError: saying what it would do.
    """
    growth = max(_growth(_state(inner.normalizer)), _growth(_state(inner.decoder)))
    if growth > _MOST_GROWTH:
        raise UserError(
            f"tokenizer {name}: its steps would turn a character into {growth:,.0f}, but only {_MOST_GROWTH:,} are "
            "allowed; give another"
        )
    longest = getattr(inner.model, "max_input_chars_per_word", 0)
    if longest > _LONGEST_WORD:
        raise UserError(
            f"tokenizer {name}: its max_input_chars_per_word is {longest:,}, and {_LONGEST_WORD:,} are allowed; give "
            "another"
        )


def _state(step: Any) -> Any:
    """Return what a tokenizer's step does, as its file states it; empty without a step."""
    return {} if step is None else json.loads(step.__getstate__())


def _growth(step: Any) -> float:
    """Return about how many characters a step makes of one, at most."""
    inner = [each for key in ("normalizers", "decoders") for each in step.get(key, ())]
    growth = 1.0
    for each in inner:
        growth *= _growth(each)
    if step.get("type") == "Replace":
        pattern, content = step["pattern"], len(step["content"])
        replaced = len(pattern.get("String", "")) or 1
        growth *= max(1.0, content / replaced) if pattern.get("String") else 1.0 + content
    if step.get("type") == "Prepend":
        growth *= 1.0 + len(step["prepend"]) / 100
    if step.get("type") == "Precompiled":
        growth *= 20.0 if len(step["precompiled_charsmap"]) < 4_000_000 else 1e6
    return growth


def named_end(folder: Path) -> str | None:
    """Return the token that tokenizer_config.json names as the end of a text; None if it names none."""
    try:
        content = json.loads(read_bytes(folder / "tokenizer_config.json", links=True))
    except (OSError, ValueError, RecursionError):
        return None  # such a file is not a part of a tokenizer
    token = content.get("eos_token") if isinstance(content, dict) else None
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None

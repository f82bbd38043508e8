"""Door: a finished model, whoever wrote it, ready to be given a text and traced."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import UserError
from headway.finished.checkpoints import check_tokenizer, named_tokenizer, open_model

if TYPE_CHECKING:
    import torch

    from headway.data.tokens.tokenizer import Tokenizer
    from headway.model.trace import Trace
    from headway.model.transformer import Transformer

_ENOUGH = 64
"""Characters of a document that are read for each token that is wanted: more than any tokenizer takes for one."""
_GIVE = "give the tokenizer that the model was trained with: --tokenizer FOLDER, bytes or gpt2"


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """How a tokenizer makes tokens of a text.

    Attributes:
        encode: the tokens of a text alone.
        before: what it puts before a text, such as a Llama's first token.
        after: what it puts after a text.
        end: the token for the end of a text; None where there is none.
    """

    encode: Callable[[str], Sequence[int]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int | None

    @classmethod
    def of(cls, tokenizer: "Tokenizer") -> "Encoder":
        """Of Headway's tokenizer."""
        return cls._of(tokenizer.encode, tokenizer.inner.encode("a").ids, tokenizer.end_of_text)

    @classmethod
    def of_transformers(cls, tokenizer: Any) -> "Encoder":
        """Of a tokenizer of the library transformers."""

        def encode(text: str) -> Sequence[int]:
            return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

        return cls._of(encode, tokenizer("a")["input_ids"], tokenizer.eos_token_id)

    @classmethod
    def _of(cls, encode: Callable[[str], Sequence[int]], whole: Sequence[int], end: int | None) -> "Encoder":
        plain = list(encode("a"))
        at = next((at for at in range(len(whole)) if list(whole[at : at + len(plain)]) == plain), 0)
        return cls(encode=encode, before=tuple(whole[:at]), after=tuple(whole[at + len(plain) :]), end=end)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A model and what one must know to give it a text.

    Attributes:
        name: of its folder, or of its results directory, arm and seed.
        facts: what it is, by kind of fact.
        module: what holds the weights.
        ours: the same where it is one of Headway's models, else None.
        run: what every head does with (batch, pos) tokens.
        causal: whether every position sees what was before it and nothing else.
        encoder: None where it has no tokenizer.
        vocab_size: tokens below it are the model's.
        n_ctx: tokens of the longest text that it was made for; None where nothing bounds it.
        longest: tokens of the longest text that it can read, likewise.
    """

    name: str
    facts: Mapping[str, Any]
    module: "torch.nn.Module"
    ours: "Transformer | None"
    run: "Callable[[torch.Tensor], Trace]"
    causal: bool
    encoder: Encoder | None
    vocab_size: int
    n_ctx: int | None
    longest: int | None

    def trace(self, tokens: np.ndarray) -> "Trace":
        """What every head does with (batch, pos) tokens; a decoder over an encoder reads them one later."""
        import torch

        return self.run(torch.from_numpy(tokens).to(next(self.module.parameters()).device))

    def sequences(self, documents: Iterable[str], *, n: int, length: int) -> np.ndarray:
        """Documents as (sequence, pos) tokens, one text after the other, cut into pieces of the same length.

        Each begins and ends with the tokens that the tokenizer puts around a text; between the documents of a causal
        model stands the end-of-text token, as in training. A text that is too short for one piece gives a shorter one.

        Raises:
            UserError: for no tokenizer, fewer than two tokens, or tokens outside the model's vocabulary.
        """
        if self.encoder is None:
            raise UserError(f"{self.name} has no tokenizer; {_GIVE}")
        before, after = self.encoder.before, self.encoder.after
        room = length - len(before) - len(after)
        if room < 1:
            raise UserError(
                f"--length {length}: the tokenizer puts {len(before) + len(after)} tokens around a text; give more"
            )
        between = [self.encoder.end] if self.causal and self.encoder.end is not None else []
        stream: list[int] = []
        for document in documents:
            stream += [*self.encoder.encode(document[: _ENOUGH * n * room]), *between]
            if len(stream) >= n * room:
                break
        found = min(n, len(stream) // room)
        pieces = [stream[room * at : room * (at + 1)] for at in range(max(1, found))]
        tokens = np.array([[*before, *piece, *after] for piece in pieces], np.int64)
        self._check(tokens)
        return tokens

    def _check(self, tokens: np.ndarray) -> None:
        if tokens.shape[1] < 2:
            raise UserError(
                f"the text gives a sequence of {tokens.shape[1]} token, and no metric of attention can be measured on "
                "fewer than 2; give a longer text, or a larger --length"
            )
        outside = np.unique(tokens[tokens >= self.vocab_size])
        if len(outside):
            raise UserError(
                f"the tokenizer gives token {outside[0]}, but the model {self.name} has tokens 0 to "
                f"{self.vocab_size - 1}; {_GIVE}"
            )


def open_finished(path: str | Path, tokenizer: str | None = None) -> Finished:
    """The model behind a path, with its tokenizer, checked: it can be traced, and its weights are numbers.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.

    Raises:
        UserError: for a path that holds no language model, one that cannot be traced, weights that are NaN or
            infinite (by layer), or a tokenizer of another vocabulary.
    """
    path = Path(path)
    found = _of_hugging_face(path, tokenizer) if _foreign(path) else _of_headway(path, tokenizer)
    _check_weights(found)
    return found


def _foreign(path: Path) -> bool:
    """Whether it is a folder of Hugging Face that Headway's own model cannot be."""
    from headway.hf.architectures import ARCHITECTURES
    from headway.hf.folder import config_of

    if (path / "run.json").is_file() or not (path / "config.json").is_file():
        return False
    return config_of(path).get("model_type") not in ARCHITECTURES


def _of_headway(path: Path, tokenizer: str | None) -> Finished:
    opened = open_model(path, tokenizer)
    model, declared = opened.model, opened.model.model
    if not declared.layout.total:
        raise UserError(f"{path} has no attention heads: there is nothing to measure")
    family = declared.model_dump()["family"]
    return Finished(
        name=_name(path),
        facts={"architecture": family, "heads": str(declared.layout), "d_model": declared.d_model},
        module=model,
        ours=model,
        run=model.trace,
        causal=declared.attends == "past",
        encoder=None if opened.tokenizer is None else Encoder.of(opened.tokenizer),
        vocab_size=model.vocab_size,
        n_ctx=opened.n_ctx,
        longest=declared.n_positions,
    )


def _of_hugging_face(path: Path, tokenizer: str | None) -> Finished:
    from headway import hf

    opened = hf.open_pretrained(path)
    hf.traceable(opened.model)
    encoder = None if opened.tokenizer is None else Encoder.of_transformers(opened.tokenizer)
    if tokenizer is not None:
        other = named_tokenizer(tokenizer)
        check_tokenizer(other, opened.vocab_size, f"--tokenizer {tokenizer}")
        encoder = Encoder.of(other)
    return Finished(
        name=_name(path),
        facts={"architecture": type(opened.model).__name__, "kind": opened.kind},
        module=opened.model,
        ours=None,
        run=lambda tokens: hf.trace(opened.model, tokens),
        causal=opened.kind == "causal",
        encoder=encoder,
        vocab_size=opened.vocab_size,
        n_ctx=opened.n_ctx,
        longest=opened.n_ctx,
    )


def _name(path: Path) -> str:
    """Of a run DIR-ARM-seed-N, of any other folder its own name."""
    whole = path.resolve()
    whole = whole.parent if whole.name == "checkpoint" else whole
    found = re.fullmatch(r".*/([^/]+)/runs/([^/]+)/(seed-\d+)", whole.as_posix())
    return "-".join(found.groups()) if found else whole.name


def _check_weights(found: Finished) -> None:
    """Weights that are NaN or infinite are an error that names their layers."""
    broken: dict[str, list[str]] = {}
    for name, weight in chain(found.module.named_parameters(), found.module.named_buffers()):
        if weight.is_floating_point() and not weight.isfinite().all():
            layer = re.match(r".*?\.\d+(?=\.)", name)
            where, rest = (layer[0], name[layer.end() + 1 :]) if layer else ("outside of the layers", name)
            broken.setdefault(where, []).append(rest)
    if broken:
        said = "; ".join(f"{where}: {', '.join(names)}" for where, names in broken.items())
        raise UserError(
            f"{found.name}: weights are NaN or infinite, so its heads say nothing ({said}); take another checkpoint"
        )

"""A model of any origin with its tokenizer, ready to read a text.

* `Encoder`: the tokenization of a text, by any tokenizer;
* `Opened`: a model that can be traced, and that can generate text if it is Headway's own;
* `model_folder`: the kind of a path, decided once: a run, a folder of Headway's own model, or one of another model.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from headway.analysis.evaluation import evaluating, plain_torch
from headway.base.files import entries, names_in
from headway.data.tokenizer import NoEosTokenizer, Tokenizer
from headway.errors import UserError, explained

_TRIED = 100
"""Words of a vocabulary that are given to its own tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """The tokenization of a text by some tokenizer.

    Attributes:
        encode: the tokens of a text alone.
        whole: the tokens of a text with what the tokenizer puts around it.
        before: the tokens that the tokenizer puts before a text, such as a Llama's first token.
        after: the tokens that the tokenizer puts after a text.
        end: the token for the end of a text; None where there is none.
        some: the tokens of a short text, whichever it has tokens for.
    """

    encode: Callable[[str], Sequence[int]]
    whole: Callable[..., Sequence[int]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int | None
    some: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer | NoEosTokenizer | Any) -> "Encoder":
        """Make an encoder of Headway's tokenizer, or of one from the library transformers."""
        told = explained("the tokenizer has no token for a part of the text", "give another: --tokenizer")
        if isinstance(tokenizer, Tokenizer | NoEosTokenizer):
            encode, as_written, end = told(tokenizer.encode), told(tokenizer.encode_as_written), tokenizer.end_of_text
            vocabulary = partial(tokenizer.inner.get_vocab, with_added_tokens=False)
        else:
            ids = partial(_ids, tokenizer)
            encode, as_written, end = told(partial(ids, add_special_tokens=False)), told(ids), tokenizer.eos_token_id
            vocabulary = tokenizer.get_vocab
        for text in _words(vocabulary):
            with suppress(UserError):
                if plain := list(encode(text)):
                    break
        else:
            raise UserError("the tokenizer has no tokens for any of its own words; give another: --tokenizer")
        whole = list(as_written(text))
        begin = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
        before, after = tuple(whole[:begin]), tuple(whole[begin + len(plain) :])
        return cls(encode=encode, whole=as_written, before=before, after=after, end=end, some=tuple(plain))


def _ids(tokenizer: Any, text: str, name: str = "text", **options: Any) -> list[int]:
    """Return the tokens of a text by a tokenizer of transformers, where the name of a target is `text_target`."""
    return list(tokenizer(**{name: text}, verbose=False, **options)["input_ids"])


def _written_ids(text: str) -> list[int]:
    """Return the tokens of a text that consists of their numbers.

    Raises:
        UserError: if a word is no whole number.
    """
    words = text.split()
    if wrong := [word for word in words if not word.isdecimal()]:
        raise UserError(
            f"tokenizer ids: {wrong[0][:40]!r} is not a token id; write whole numbers with spaces between them"
        )
    return list(map(int, words))


def _words(vocabulary: Callable[[], Iterable[str]]) -> Iterator[str]:
    """Return a letter, and some of the vocabulary's own words if it has no token for the letter, as one of digits."""
    yield "a"
    yield from sorted(vocabulary())[:_TRIED]


if TYPE_CHECKING:
    import torch

    from headway.hf.intervene import TheirDecoder
    from headway.models.redraw import Redrawable
    from headway.models.trace import Trace
    from headway.models.transformer import Transformer

    TokenIds = torch.Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]

_TOKENS = 200
"""The default number of generated tokens."""
_ENOUGH = 64
"""Characters of a document that are read for each token that is wanted: more than any tokenizer takes for one."""
_GIVE = "tokenizer: give the model's tokenizer, as a folder, bytes or gpt2; or give ids for token ids"


@dataclass(frozen=True, kw_only=True, repr=False)
class Opened:
    """A finished model and what one must know to give it a text.

    Attributes:
        name: the name of its folder, or of its results directory, arm and seed.
        facts: the properties of the model, by kind.
        module: the module that holds the weights.
        ours: the module if it is one of Headway's models, else None.
        traced: the function that traces every head on (batch, pos) tokens on the module's device.
        read: a function like `traced`, with re-initialised heads on the same stream.
        kind: the attention's view: `causal` (earlier positions), `future` (later ones), `masked` (all; an encoder),
            `bidirectional` (all; a user's own module), or `encoder-decoder`.
        tokenizer: Headway's, or that of transformers for a model of theirs; None where the folder has none.
        vocab_size: tokens below it are the model's.
        n_ctx: tokens of the longest text that it was made for; None where nothing bounds it.
        longest: tokens of the longest text that it can read, likewise.
        brought: True for the user's own module, which reports the activations of its heads itself.
        no_text: the reason why it reads no text, as a clause with the model as its subject; empty if it reads text.
        reads_ids: True if a text holds the numbers of its tokens, instead of words.
    """

    name: str
    facts: Mapping[str, Any]
    module: "torch.nn.Module"
    ours: "Transformer | None" = None
    traced: "Callable[[torch.Tensor], Trace]"
    read: "Callable[[torch.Tensor], Redrawable]"
    kind: Literal["causal", "future", "masked", "bidirectional", "encoder-decoder"]
    tokenizer: "Tokenizer | Any | None" = None
    vocab_size: int
    n_ctx: int | None
    longest: int | None = None
    brought: bool = False
    no_text: str = ""
    reads_ids: bool = False

    def __repr__(self) -> str:
        return f"Opened({self.name}, {', '.join(f'{key}: {fact}' for key, fact in self.facts.items())})"

    def check_finite(self, so: str) -> None:
        """Raise UserError if a weight is not a finite number.

        Args:
            so: the end of the error's sentence.

        Raises:
            UserError: if some weights are not finite, naming them by layer.
        """
        broken: dict[str, list[str]] = {}
        for name, weight in chain(self.module.named_parameters(), self.module.named_buffers()):
            if weight.is_floating_point() and not weight.detach().isfinite().all():
                layer = re.match(r"(.*?\.\d+)\.(.*)", name)
                where, rest = layer.groups() if layer else ("outside of the layers", name)
                broken.setdefault(where, []).append(rest)
        if broken:
            said = "; ".join(f"{where}: {', '.join(names)}" for where, names in broken.items())
            raise UserError(f"{self.name}: weights are NaN or infinite, {so} ({said}); use another checkpoint")

    @property
    def causal(self) -> bool:
        """True if every position sees itself and the positions before it, and nothing else."""
        return self.kind == "causal"

    @property
    def reads_numbers(self) -> bool:
        """True if the model's inputs are numbers instead of tokens."""
        return self.ours is not None and self.ours.model.encoder is not None

    def described(self) -> dict[str, Any]:
        """Return the facts, with the number of parameters."""
        return {**self.facts, "parameters": f"{sum(p.numel() for p in self.module.parameters()):,}"}

    @property
    def device(self) -> "torch.device":
        """The device on which the model is."""
        return next(self.module.parameters()).device

    @cached_property
    def decoder(self) -> "Transformer | TheirDecoder":
        """The model as a decoder whose heads can be masked and patched: Headway's own, or one of transformers.

        Raises:
            UserError: if the model's heads cannot be masked; the kind of the model is named.
        """
        if self.ours is not None:
            return self.ours
        if self.brought:
            raise UserError(not_maskable(self.name))
        if self.kind != "causal":
            what = "an encoder and a decoder over it" if self.kind == "encoder-decoder" else "an encoder"
            raise UserError(
                f"{self.name} is a {self.facts['architecture']}, {what}. `headway xray` can measure its heads. "
                "Ablation and patching measure the loss of the next token, so they need a decoder"
            )
        from headway.hf.intervene import TheirDecoder

        with evaluating(self.module):
            return TheirDecoder(self.module)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that turns a text into tokens.

        Raises:
            UserError: when there is no tokenizer.
        """
        if self.reads_ids:
            return Encoder(encode=_written_ids, whole=_written_ids, before=(), after=(), end=None, some=(0,))
        if self.tokenizer is None:
            why = self.no_text or f"has no tokenizer; {_GIVE}"
            raise UserError(f"{self.name} {why}")
        return Encoder.of(self.tokenizer)

    @property
    def own(self) -> "Transformer":
        """The model as one of Headway's.

        Raises:
            UserError: when another library's code runs it.
        """
        if self.ours is None:
            raise UserError(not_ours(self.name, self.facts["architecture"]))
        return self.ours

    def trace(self, text: "str | TokenIds") -> "Trace":
        """Trace a text: return every head's activations.

        Args:
            text: a text, which its tokenizer encodes with what it puts around one; or tokens, (pos) or (batch, pos),
                in a tensor, an array or lists. A decoder over an encoder reads them one later.

        Raises:
            UserError: if there is no tokenizer, or the tokens are not the model's or too many.
        """
        tokens = tokens_of(self, text)
        with evaluating(self.module):
            return self.traced(tokens)

    def reading(self, tokens: "TokenIds") -> "Redrawable":
        """Trace tokens, with the activations of re-initialised heads on request.

        Raises:
            UserError: if `trace` would raise it.
        """
        given = self.on_device(tokens)
        with evaluating(self.module):
            return self.read(given)

    def sequences(
        self, documents: "Iterable[str] | Iterable[tuple[str, bool]]", *, n: int, length: int, predicted: bool = False
    ) -> np.ndarray:
        """Return documents as (sequence, pos) tokens, one text after the other, cut into pieces of equal length.

        Each piece begins and ends with the tokens that the tokenizer puts around a text. An end-of-text token stands
        between the documents of a causal model, as in training. A text that is too short for one piece gives a shorter
        piece.

        Args:
            documents: the text; or its pieces, each with whether its document ends with it, of which no more are read
                than are needed.
            n: the largest number of pieces.
            length: the tokens of a piece.
            predicted: True if the last token of a piece is not read, only predicted.

        Raises:
            UserError: if there is no tokenizer, the tokens are fewer than two, or a token is outside the model's
                vocabulary.
        """
        return self.pieces(documents, n=n, length=length, predicted=predicted)[0]

    def pieces(
        self,
        documents: "Iterable[str] | Iterable[tuple[str, bool]]",
        *,
        n: int,
        length: int,
        predicted: bool = False,
        each: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the pieces of `sequences`, and the document in which each begins.

        With `each`, no two documents share a piece's text: at most so many pieces are taken of a document, or of short
        documents that make up a piece together, and the rest of it is left out.
        """
        encoder = self.encoder
        room = length - len(encoder.before) - len(encoder.after)
        if room < 1:
            raise UserError(f"length {length}: the tokenizer adds {length - room} tokens to a text; give more")
        between = [encoder.end] if self.causal and encoder.end is not None else []
        stream: list[int] = []
        ends: list[int] = []
        for document in _beginnings(documents, _ENOUGH * (each or n) * room):
            stream += [*encoder.encode(document), *between]
            begun = ends[-1] if ends else 0
            if each is not None:
                del stream[begun + room * min(each, (len(stream) - begun) // room or each) :]
            if each is None or len(stream) >= begun + room:
                ends.append(len(stream))
            if len(stream) >= n * room:
                break
        found = min(n, len(stream) // room)
        pieces = [stream[room * at : room * (at + 1)] for at in range(max(1, found))]
        tokens = self.checked([[*encoder.before, *piece, *encoder.after] for piece in pieces], predicted=predicted)
        if tokens.shape[1] < 2:
            raise UserError(
                f"the text gives a sequence of {tokens.shape[1]} token, and metrics of attention need at least 2; "
                "give a longer text, or a larger length"
            )
        return tokens, np.searchsorted(ends, room * np.arange(len(tokens)), side="right")

    def write(self, prompt: str = "", *, n_tokens: int | None = None, stop: bool = True, **sampling: Any) -> str:
        """A prompt and what the model writes after it; with an empty prompt, a text from its beginning.

        Args:
            prompt: the beginning of the text.
            n_tokens: the largest number of written tokens; None: 200, or as many as fit into n_ctx.
            stop: True to end the text at the end-of-text token, which is not part of it.
            sampling: the options of `headway.models.generate`.

        Raises:
            UserError: when the model is not ours, there is no tokenizer, or the text would be longer than the model's
                longest.
        """
        from headway.models.generate import generate

        model, encoder, tokenizer = self.own, self.encoder, self.tokenizer
        assert tokenizer is not None
        assert encoder.end is not None, "a tokenizer of ours has one"
        n_ctx = self.n_ctx or model.model.n_positions
        begun = tokenizer.encode_as_written(prompt) if prompt else []
        start = begun or [encoder.end]
        wanted = n_tokens or min(_TOKENS, max(1, n_ctx - len(start)))
        written = generate(model, start, n_tokens=wanted, stop=encoder.end if stop else None, **sampling)
        if (length := len(start) + len(written)) > n_ctx:
            warnings.warn(
                f"the text has {length} tokens, but the model was trained on {n_ctx}; it never saw later positions",
                RuntimeWarning,
                stacklevel=2,
            )
        return prompt + str(tokenizer.decode([*begun, *written]))[len(tokenizer.decode(begun)) :]

    def on_device(self, tokens: "TokenIds") -> "torch.Tensor":
        """Tokens where the model is, checked; pairs (pair, pos, 2) are checked where they are read.

        Raises:
            UserError: if `checked` would raise it.
        """
        import torch

        given = array_of(tokens)
        pairs = self.kind == "encoder-decoder" and given.shape[2:] == (2,)
        with plain_torch():  # a gradient cannot keep tokens that were made in inference mode
            return torch.from_numpy(given if pairs else self.checked(given)).to(self.device)

    def checked(self, given: "TokenIds", *, predicted: bool = False) -> np.ndarray:
        """Tokens as (sequence, pos) whole numbers of the model's vocabulary.

        Args:
            given: the tokens.
            predicted: True if the last token of a sequence is not read, only predicted.

        Raises:
            UserError: if the tokens are not the model's, or more than it can read.
        """
        if self.reads_numbers:
            return self._checked_numbers(given)
        tokens = whole_numbers(given)
        outside = np.unique(tokens[(tokens < 0) | (tokens >= self.vocab_size)])
        if len(outside):
            raise UserError(
                f"token {outside[0]} was given, but the model {self.name} has tokens 0 to {self.vocab_size - 1}; "
                f"{_GIVE}"
            )
        if self.longest is not None and tokens.shape[1] > self.longest + predicted:
            raise UserError(
                f"a text of {tokens.shape[1]:,} tokens was given, but {self.name} reads {self.longest:,} at most; give "
                "a shorter one"
            )
        return tokens.astype(np.int64)

    def _checked_numbers(self, given: Any) -> np.ndarray:
        """Inputs as (sequence, pos, number)."""
        found = array_of(given)
        if found.ndim != 3 or not found.size or found.shape[2] != self.vocab_size or found.dtype.kind != "f":
            wanted = f"of shape (sequence, pos, {self.vocab_size}), but the given array has shape {found.shape}"
            raise UserError(f"{self.name} reads numbers {wanted} and type {found.dtype}")
        return found.astype(np.float32)


def tokens_of(opened: Opened, text: "str | Sequence[str] | TokenIds") -> "torch.Tensor":
    """Return the tokens of a text, or of several of one length, where the model is; tokens are only checked.

    The tokenizer puts its special tokens around each text, as it does for its own library.

    Raises:
        UserError: if there is no tokenizer, the texts differ in length, or `checked` would raise it.
    """
    if isinstance(text, str):
        return opened.on_device(opened.encoder.whole(text))
    if isinstance(text, list | tuple) and text and all(isinstance(each, str) for each in text):
        return opened.on_device([opened.encoder.whole(cast(str, each)) for each in text])
    return opened.on_device(cast("TokenIds", text))


def whole_numbers(given: "TokenIds") -> np.ndarray:
    """Tokens as (sequence, pos) whole numbers.

    Raises:
        UserError: if the tokens are anything else.
    """
    found = array_of(given)
    if found.ndim not in (1, 2) or not found.size or found.dtype.kind not in "iu":
        raise UserError(
            "give a text, or at least one token, as whole numbers of shape (pos) or (batch, pos); "
            f"you gave an array of shape {found.shape} and type {found.dtype}"
        )
    return np.atleast_2d(found)


def array_of(given: "TokenIds") -> np.ndarray:
    """Return tokens as an array; of what a tokenizer of transformers returns, its `input_ids`.

    Raises:
        UserError: if the sequences differ in length, or have padding or inputs other than tokens.
    """
    if isinstance(given, Mapping):
        return _ids_alone(given)
    try:
        return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except ValueError:
        raise UserError("sequences of different lengths were given; give sequences of one length at a time") from None


def _ids_alone(encoding: Mapping[str, Any]) -> np.ndarray:
    """Return the tokens of a BatchEncoding whose other entries say nothing more than the tokens do.

    Raises:
        UserError: if there is padding, positions do not count from 0, or there are other inputs.
    """
    if "input_ids" not in encoding:
        raise UserError(f"tokens: a mapping without input_ids was given (it has {', '.join(map(str, encoding))})")
    ids = array_of(encoding["input_ids"])
    nothing = np.zeros_like(ids)
    usual: dict[str, Any] = {"attention_mask": 1, "token_type_ids": 0, "position_ids": np.arange(ids.shape[-1])}
    if other := [str(name) for name in encoding if name != "input_ids" and name not in usual]:
        raise UserError(f"tokens: only input_ids are read, and {', '.join(other)} came with them; leave them out")
    for name, expected in usual.items():
        if name not in encoding or np.array_equal(nothing + array_of(encoding[name]), nothing + expected):
            continue
        if name == "attention_mask":
            raise UserError(
                "tokens: some are padding (their attention_mask is 0), and a head would be measured on them, too; give "
                "sequences of one length without padding"
            )
        raise UserError(f"tokens: their {name} are not the usual ones; leave them out")
    return ids


def _beginnings(documents: "Iterable[str] | Iterable[tuple[str, bool]]", most: int) -> Iterator[str]:
    """Yield the beginning of each document; the pieces of a long document are not kept beyond it."""
    begun, given = "", False
    for each in documents:
        text, ended = (each, True) if isinstance(each, str) else each
        if not given:
            begun += text[: most - len(begun)]
            given = ended or len(begun) >= most
            if given:
                yield begun
        if ended:
            begun, given = "", False


def not_ours(name: str, architecture: str) -> str:
    """Return why a model of another architecture cannot do what only Headway's own can, and what to do."""
    return (
        f"{name} is a {architecture}, which Headway cannot load as its own model. Its heads can be measured, but only "
        "Headway's own models generate text or are exported; give a run, or a folder of GPT-Neo, GPT-2, Llama, Mistral "
        "or of `headway export`"
    )


def not_maskable(module: str) -> str:
    """Return why heads of a user's own module cannot be masked, and what can be given instead."""
    return (
        f"model: give a path, a Headway model or a transformers model; a {module} was given, and its "
        "heads can only be measured (headway.xray)"
    )


def not_prunable(name: str, architecture: str) -> str:
    """Return why heads of a model cannot be removed, and what can be done with it."""
    return (
        f"{name} is a {architecture}: its heads can be measured (`headway xray`) and, in a decoder, masked (`headway "
        "ablate`) and patched (`headway patch`), but not yet removed; Headway removes heads of its own runs, of "
        "GPT-Neo, GPT-2, Llama and Mistral, and of folders of `headway export`"
    )


KINDS = "a run's folder (DIR/runs/ARM/seed-N), its checkpoint, or a folder of Hugging Face with a config.json"


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with a model in it.

    Attributes:
        asked: the path that was given.
        path: the path of the folder; for a checkpoint, the folder of its run.
        kind: a run of Headway (`run`), or a folder of Hugging Face with a model that Headway can build (`own`), or
            cannot (`other`).
    """

    asked: Path
    path: Path
    kind: Literal["run", "own", "other"]

    @property
    def name(self) -> str:
        """The model's name: DIR-ARM-seed-N of a run, else the folder's own name."""
        whole = self.path.resolve()
        found = re.fullmatch(r".*/([^/]+)/runs/([^/]+)/(seed-\d+)", whole.as_posix())
        return "-".join(found.groups()) if found else whole.name


def model_folder(asked: str | Path) -> ModelFolder:
    """Return the kind of model that a path holds.

    Raises:
        UserError: if the path holds no model, or a config.json that cannot be read; the content of the path is named.
    """
    asked = Path(asked)
    folder = asked.parent if asked.name == "checkpoint" else asked
    if (folder / "run.json").is_file():
        from headway.config.run import WORK
        from headway.store.run import stored_model

        if (folder / WORK).is_dir():
            return model_folder(stored_model(folder))
        return ModelFolder(asked=asked, path=folder, kind="run")
    if (asked / "config.json").is_file():
        from headway.hf.read import is_own  # loads torch

        return ModelFolder(asked=asked, path=asked, kind="own" if is_own(asked) else "other")
    raise UserError(f"{asked}: {_what_else(asked)}")


def _download(name: str) -> str:
    """Return how to download a model, if a name may be that of one on the hub of Hugging Face."""
    is_name = re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?", name)
    # Names on the hub have an owner, a version or a size, such as gpt2 or bert-base.
    if not is_name or not re.search(r"[/\d-]", name):
        return ""
    folder = name.rpartition("/")[2]
    return f". Headway downloads no models; if this one is on the hub: hf download {name} --local-dir {folder}"


def _what_else(path: Path) -> str:
    if not path.exists():
        return f"there is no such folder; give {KINDS}{_download(str(path))}"
    if not path.is_dir():
        return f"it is a file; give {KINDS}"
    if runs := entries(path, "runs/*/seed-*"):
        return f"it is a results directory with {len(runs)} runs; give one of them, such as {runs[0]}"
    if (path / "adapter_config.json").is_file():
        from headway.hf.read import adapter_beside  # loads torch

        return adapter_beside(path).removeprefix(f"{path}: ")
    if others := names_in(path):
        few = ", ".join(others[:4]) + ", ..." * (len(others) > 4)
        return (
            f"it holds no model that Headway reads (there is {few}); give {KINDS}. To convert another format, call "
            "save_pretrained(FOLDER) of transformers on the model and on its tokenizer"
        )
    return f"it is empty; give {KINDS}"

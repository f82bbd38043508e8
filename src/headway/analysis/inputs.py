"""The input of an analysis: a text, tokens, or the examples of a run's task.

* `TextInput`: what a user names, and the sequences and targets that a model reads of it;
* `text_input`, `own_text`: the input that a user gives, and the one that a run brings;
* `two_inputs`: a text whose loss is measured, and another one whose contexts stand in for heads;
* `LossSoFar`: the loss of a model, from forward passes that are made for another purpose.
"""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.analysis.evaluation import plain_torch
from headway.analysis.model import Opened, array_of, model_folder
from headway.base.text import counted
from headway.base.words import say
from headway.config.run import RunSpec
from headway.data.corpus import Corpus, find_corpus
from headway.errors import UserError
from headway.heads.results import AttentionHeads

if TYPE_CHECKING:
    import torch

    from headway.analysis.model import TokenIds
    from headway.models.redraw import Redrawable
    from headway.models.trace import AttentionTrace

TOKENS = 4096
"""The default number of tokens of a trace: enough for two digits, in seconds on two cores."""
LOSS_TOKENS, LOSS_LENGTH = 8192, 256
"""The default numbers of tokens, and of tokens in a sequence, of a loss: intervals are over sequences."""
DOCUMENTS = 32
"""The documents that a loss is measured on, where a text has them: effects are skewed, and few do not show it."""


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """A text, tokens, or examples of a task, on which a model is examined.

    Attributes:
        name: the name of the input in sentences.
        corpus: the documents of a text; None of tokens and examples, and of a text that has been read.
        inputs: (sequence, pos) tokens, or (sequence, pos, number) inputs of numbers; None of a text.
        targets: the answer at each position, -1 (of numbers NaN) where none is asked for; None: the next token.
        examples: True for examples of a run's task, which are read whole.
        complete: True if these examples are all inputs of the task.
        asked: the parameter that named the input, for errors.
        wanted: the requested number of sequences of a text, and the tokens of each.
        documents: the document of each sequence of a text; None where each sequence is one.
        pairs: true if `inputs` are sources and targets for a decoder over an encoder, (pair, pos, 2), -100 after ends.
    """

    name: str
    corpus: Corpus[str] | None = None
    inputs: np.ndarray | None = None
    targets: np.ndarray | None = None
    examples: bool = False
    complete: bool = False
    asked: str = "text"
    wanted: tuple[int, int] | None = None
    documents: np.ndarray | None = None
    pairs: bool = False

    @property
    def tokens(self) -> np.ndarray:
        """The sequences, after they were read."""
        assert self.inputs is not None, "a text is read first"
        return self.inputs

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def length(self) -> int:
        """The tokens, or inputs, of a sequence."""
        return int(self.tokens.shape[1])

    @property
    def size(self) -> int:
        """The tokens, or inputs, of all sequences; of pairs, those of the shorter side."""
        return min(self.sides)

    @property
    def sides(self) -> tuple[int, ...]:
        """The source tokens and the target tokens of pairs; without pairs, the tokens of all sequences."""
        if not self.pairs:
            return (len(self) * self.length,)
        return tuple((self.tokens >= 0).sum((0, 1)).tolist())

    def part(self, some: Any) -> "TextInput":
        """Return some of the sequences, or of their positions, by a slice of each."""
        inputs, targets = self.tokens[some], None if self.targets is None else self.targets[some]
        documents = None if self.documents is None else self.documents[some]
        complete = self.complete and inputs.size == self.tokens.size
        return replace(self, inputs=inputs, targets=targets, complete=complete, documents=documents)

    def halves(self) -> "tuple[TextInput, TextInput]":
        """Return the first half of the sequences, and the others, which are never more."""
        half = -(-len(self) // 2)
        return self.part(np.s_[:half]), self.part(np.s_[half:])

    def check_tokens(self, model: object, verb: str) -> None:
        """Raise UserError for examples that are no tokens.

        Raises:
            UserError: saying what cannot be done with them.
        """
        if self.examples and self.tokens.ndim != 2:
            raise UserError(
                f"{model}: its inputs and answers are numbers, not tokens, and {verb} tokens; `headway xray` "
                "measures its heads on these inputs"
            )

    def read(
        self, opened: Opened, sequences: int | None, length: int | None, *, at_most: int, least: int = 1
    ) -> "TextInput":
        """Return the sequences that a model traces.

        Args:
            opened: the model.
            sequences: the largest number; None: as many as have 4,096 tokens of a text, and all given tokens.
            length: the tokens of each; None: what the model was made for, and all of given tokens.
            at_most: the largest length where nobody asked for one.
            least: the least number of sequences where nobody asked for one.

        Raises:
            UserError: if numbers or tokens are invalid, or the length is not that of the examples.
        """
        positive(sequences, "sequences")
        if self.examples:
            if length not in (None, self.length):
                raise UserError(
                    f"length {length}: {self.name} have {self.length} tokens each, and are read whole; leave length out"
                )
            return self.part(np.s_[: sequences or max(1, TOKENS // self.length)])
        if self.corpus is None:
            some = self.part(np.s_[:sequences, : positive(length, "length")])
            return replace(some, inputs=opened.checked(some.tokens))
        wanted = length_of(opened, length, at_most)
        n = sequences or max(least, TOKENS // wanted)
        tokens = opened.sequences(self.corpus.pieces(), n=n, length=wanted)
        return replace(self, corpus=None, inputs=tokens, wanted=(n, wanted))

    def predicted(self, opened: Opened, sequences: int | None, length: int | None, *, times: int = 1) -> "TextInput":
        """Return the sequences that a model reads, and the token after each position as its target.

        Args:
            opened: the model.
            sequences: the largest number; None: as many as have 8,192 tokens, and at least 32.
            length: the tokens of each, of a text; None: what the model was made for, at most 256.
            times: read so many times as many sequences.

        Raises:
            UserError: if tokens are invalid, or the text is shorter than one sequence.
        """
        wanted = length_of(opened, length, LOSS_LENGTH)
        n = times * (positive(sequences, "sequences") or max(DOCUMENTS, LOSS_TOKENS // wanted))
        documents = None
        if self.corpus is None:
            tokens = opened.checked(self.tokens, predicted=True)[:n]
            if tokens.shape[1] < 2:
                raise UserError(f"{self.asked}: sequences of one token predict nothing; give longer sequences")
        else:
            n_documents, pieces = times * DOCUMENTS, partial(opened.pieces, n=n, length=wanted + 1, predicted=True)
            tokens, documents = pieces(self.corpus.pieces())
            if len(np.unique(documents)) < n_documents <= n:
                # Of long documents the beginnings, where that gives more documents.
                given = pieces(self.corpus.pieces(), each=n // n_documents)
                tokens, documents = given if len(given[0]) >= n else (tokens, documents)
            if tokens.shape[1] <= wanted:
                raise UserError(
                    f"{self.asked} {self.name}: it has only {tokens.size:,} tokens, fewer than one sequence of "
                    f"{wanted:,} and the token after it; give a longer text, or a smaller length"
                )
        return replace(self, corpus=None, inputs=tokens[:, :-1], targets=tokens[:, 1:], documents=documents)

    def tensors(self, opened: Opened) -> "tuple[torch.Tensor, torch.Tensor | None]":
        """Return inputs and targets where the model is."""
        import torch

        with plain_torch():
            targets = None if self.targets is None else torch.from_numpy(self.targets).to(opened.device)
            return torch.from_numpy(self.tokens).to(opened.device), targets

    def facts(self, opened: Opened) -> dict[str, Any]:
        """Return the facts about the model and its input that every result reports."""
        return {
            "name": opened.name,
            "model": opened.described(),
            "text": self.name,
            "n_tokens": sum(self.sides),
            "n_target_tokens": sum(self.sides[1:]),
            "n_sequences": len(self),
            "length": self.length,
        }


def text_input(text: "str | Path | TokenIds | TextInput", asked: str = "text") -> TextInput:
    """Return the input that a user gives: a text file or another corpus, or (sequence, pos) tokens, also as a .npy.

    Args:
        text: the input from the user.
        asked: the parameter that names it, for errors.

    Raises:
        UserError: when there is no such corpus.
    """
    if isinstance(text, TextInput):
        return text
    if isinstance(text, str | Path):
        name, file = str(text), Path(text)
        if file.suffix == ".npy" and file.is_file():
            return TextInput(name=name, inputs=_array_in(file, asked), asked=asked)
        return TextInput(name=name, corpus=find_corpus(name, limit=None, asked=asked), asked=asked)
    return TextInput(name="the given tokens", inputs=np.atleast_2d(array_of(text)), asked=asked)


def _array_in(file: Path, asked: str) -> np.ndarray:
    """Return the (sequence, pos) tokens of a numpy file.

    Raises:
        UserError: if the file is no array of numpy.
    """
    try:
        return np.atleast_2d(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{asked} {file}: it is not a numpy file of tokens ({error}); write one with numpy.save"
        ) from None


def one_input(model: object, text: Any, tokens: Any, needs: str) -> TextInput:
    """Return the text or the tokens that a user gives, or else the input that a run brings.

    Raises:
        UserError: if both are given, or neither for a model without an input; the message begins with `needs`.
    """
    if text is None and tokens is None and isinstance(model, str | Path):
        return text_input(own_text(model))
    if (text is None) == (tokens is None):
        raise UserError(f"{needs}: give either text= or tokens=")
    return text_input(text) if tokens is None else replace(text_input(tokens), name="the given tokens")


def brings_text(run: RunSpec) -> bool:
    """Return whether a run was trained on a text that can be read again without a download."""
    from headway.config.lm.text import holds_ids
    from headway.data import corpus as hub

    text = _text_of(run)
    if run.task.n_ctx is None or text is None or holds_ids(text):
        return False
    return text != "tinystories" or hub.is_fetched(None)


def no_text(run: RunSpec) -> str:
    """Return why a run reads no text, and what it reads instead, as a sentence's end; empty if it reads text."""
    if run.task.n_ctx is None or _text_of(run) is not None:
        return ""
    end = "it can neither read a text nor write one"
    if getattr(run.model, "encoder", None) is not None:
        return (
            f"was trained on {run.task.title}, whose inputs are numbers, not tokens: {end}; `headway xray` reads its "
            "own examples"
        )
    return (
        f"was trained on {run.task.title}, whose tokens are not text: {end}; `headway xray`, `look` and `ablate` read "
        "the task's own examples if you give no --text"
    )


def own_text(model: object) -> str | TextInput:
    """Return the text that a run is evaluated on, or else trained on; for a task that is not a text, its examples.

    Args:
        model: the path of the model; a model in memory brings no text.

    Raises:
        UserError: if the model has no text, or a text of ids.
    """
    if not isinstance(model, str | Path):
        raise UserError("a model in memory has no text of its own: give a text with text=")
    from headway.config.lm.text import holds_ids
    from headway.store.run import Run

    folder, text = model_folder(model), None
    if folder.kind == "run":
        spec = Run.open(folder.path).spec
        if spec.task.n_ctx is None:
            raise UserError(
                f"{folder.asked}: it is a run of the in-context laboratory, which has no tokens; give a run on a text"
            )
        text = _text_of(spec) or _examples(spec)
    if isinstance(text, TextInput):
        return text
    if text is None:
        raise UserError(f"{folder.asked}: which text should it read? Give one with --text (in Python text=)")
    if holds_ids(text):
        raise UserError(f"{folder.asked}: its text {text} holds token ids; give a text with --text")
    return str(text)


def _text_of(run: RunSpec) -> Any:
    return getattr(run.task, "validation", None) or getattr(run.task, "corpus", None)


def _examples(run: Any) -> TextInput:
    """Return as many examples as the run is evaluated on.

    Raises:
        UserError: if the examples cannot be made.
    """
    from headway.data.batch import open_examples

    # Drawn examples are drawn batch by batch, as the run's own judge has them.
    at_once = int(run.training.batch_size // run.training.grad_accumulation)
    batches = open_examples(run.task).evaluation_batches(run.evaluation.sequences, at_once)
    # Sequences of which nothing is asked fill up a last batch.
    asked = [(batch.inputs[there], batch.targets[there]) for batch in batches if (there := batch.asked.any(1)).any()]
    inputs, targets = (np.concatenate(arrays) for arrays in zip(*asked, strict=True))
    complete = getattr(run.task, "n_inputs", None) == len(inputs)
    name = f"{'all inputs' if complete else 'the evaluation examples'} of {run.task.title}"
    return TextInput(name=name, inputs=inputs, targets=targets, examples=True, complete=complete)


def two_inputs(
    opened: Opened,
    text: "str | Path | TokenIds | TextInput",
    reference: "str | Path | TokenIds | TextInput | None",
    targets: "str | Path | TokenIds | None" = None,
    *,
    sequences: int | None,
    length: int | None,
) -> tuple[TextInput, TextInput]:
    """Return a text with its targets, and another one that stands in: without one, the text's further sequences.

    The other text is the text itself if its sequences, all that there are, stand in for one another.

    Args:
        opened: the model.
        text: a text file or another corpus, (sequence, pos) tokens, or the examples of a task.
        reference: the same of the other text.
        targets: the target at each of the text's tokens, -1 for none; None: every next token.
        sequences: the largest number of sequences of each text; None: 8,192 tokens, and at least 32.
        length: the tokens of a sequence; None: the model's context, at most 256, or all given tokens.

    Raises:
        UserError: if a text cannot be read, is shorter than one sequence, or leaves no sequences as substitutes.
    """
    own = text_input(text)
    if own.examples:
        return _two_of_examples(opened, own, reference, sequences, length)
    other = None if reference is None else text_input(reference, "reference")
    if targets is not None or own.targets is not None:
        return with_targets(opened, own, own.targets if targets is None else targets, other)
    if reference is not None and _same(text, reference):
        raise UserError(
            "reference: it is the text itself, so no output of a head would change; give another text, or leave it "
            "out to use further sequences of the text"
        )
    if sequences == 1:
        raise UserError("sequences 1: intervals are over sequences; give 2 or more")
    if other is not None:
        own, other = (each.predicted(opened, sequences, length) for each in (own, other))
        others = f"{counted(len(other), 'sequence')} of {other.name}"
    else:
        both = own.predicted(opened, sequences, length, times=2)
        if len(both) < 3:
            raise UserError(
                f"{both.name}: it gives {counted(len(both), 'sequence')} of {both.length:,} tokens, but ablation needs "
                "3: two for an interval and one as replacement; give a longer text, a smaller length, or another text "
                "as reference"
            )
        own, other = both.halves()
        others = f"{counted(len(other), 'further sequence')} of {both.name}"
    if len(own) < 2:
        raise UserError(
            f"{own.name}: it gives one sequence of {own.length:,} tokens, but intervals are over sequences; give a "
            "longer text, or a smaller length"
        )
    return own, replace(other, name=others)


def _two_of_examples(
    opened: Opened, examples: TextInput, reference: object, sequences: int | None, length: int | None
) -> tuple[TextInput, TextInput]:
    """Return examples of a task and others as substitutes; if these are all examples, they replace one another.

    Raises:
        UserError: if another text or length is asked for, or the examples are too few.
    """
    if reference is not None or length not in (None, examples.length):
        raise UserError(
            f"{examples.name} are read whole ({examples.length} tokens each), and replacements come from them; leave "
            f"{'reference' if reference is not None else 'length'} out"
        )
    opened.checked(examples.tokens)
    n = positive(sequences, "sequences") or max(2, LOSS_TOKENS // examples.length)
    if examples.complete and n >= len(examples) >= 2:
        return examples, replace(examples, name="the other inputs")
    half = min(n, len(examples) // 2)
    own, others = examples.part(np.s_[:half]), examples.part(np.s_[half : 2 * half])
    there = {row.tobytes() for row in own.tokens}
    different = np.array([row for row in others.tokens if row.tobytes() not in there])
    if half < 2 or not len(different):
        raise UserError(
            f"{examples.name}: {len(examples):,} examples are too few; ablation needs 4 different ones: two for an "
            "interval and two as replacements. Raise evaluation.sequences of the run"
        )
    return own, replace(others, name=f"{counted(len(different), 'other')} of them", inputs=different)


def with_targets(opened: Opened, text: TextInput, targets: Any, other: TextInput | None) -> tuple[TextInput, TextInput]:
    """Return tokens with the targets that a user gives, which need not be every next token.

    Without other tokens, the second half of the sequences stands in for the first half.

    Raises:
        UserError: if the tokens are not the model's, the targets have another shape, or no sequences are left as
            substitutes.
    """
    if isinstance(targets, str | Path):
        targets = _array_in(Path(targets), "targets")
    if text.corpus is not None or (other is not None and other.corpus is not None):
        raise UserError(
            "targets need inputs that are tokens; give text, and reference if you use it, as tokens of shape "
            "(sequence, pos)"
        )
    inputs, wanted = opened.checked(text.tokens), np.atleast_2d(array_of(targets))
    opened.checked(np.where(wanted == -1, 0, wanted))
    if wanted.shape != inputs.shape:
        raise UserError(
            f"targets of {list(wanted.shape)} were given for tokens of {list(inputs.shape)} (sequence, position); give "
            "one target for each token, -1 for none"
        )
    own = replace(text, inputs=inputs, targets=wanted.astype(np.int64))
    if other is None:
        if len(own) < 3:
            raise UserError(f"{text.name}: it has {len(own)} sequences, but without a reference 3 are needed")
        own, other = own.halves()
    others = opened.checked(other.tokens)
    return own, replace(other, name=f"{counted(len(others), 'sequence')} of other tokens", inputs=others)


def _same(text: Any, reference: Any) -> bool:
    if isinstance(text, str | Path) and isinstance(reference, str | Path):
        return str(text) == str(reference) or Path(text).resolve() == Path(reference).resolve()
    return text is reference


def described(attention: "AttentionTrace") -> AttentionHeads:
    """Return an attention's heads, from what was traced of it."""
    return AttentionHeads(
        name=attention.name, kind=attention.kind, kv_of=tuple(attention.kv_of), d_head=attention.q.shape[3]
    )


def length_of(opened: Opened, asked: int | None, at_most: int) -> int:
    """Return the tokens of a sequence: as asked, or what the model was made for.

    Args:
        opened: the model.
        asked: the requested number of tokens; None: not requested.
        at_most: the largest default.

    Raises:
        UserError: if the number is below 1, or larger than the model's longest text.
    """
    if asked is None:
        return min(opened.n_ctx or at_most, at_most)
    if opened.longest is not None and asked > opened.longest:
        raise UserError(f"length {asked}: {opened.name} reads {opened.longest} tokens at most; give fewer")
    return positive(asked, "length") or at_most


def positive(number: int | None, what: str) -> int | None:
    """Return a number that was asked for, if it was.

    Raises:
        UserError: when it is below 1.
    """
    if number is not None and number < 1:
        raise UserError(f"{what} {number}: at least 1 is needed")
    return number


@dataclass(kw_only=True)
class LossSoFar:
    """The summed loss of the tokens after the first of each sequence, batch by batch; `why` there is none.

    Where targets are given, it is the loss of those that are asked for.

    Attributes:
        opened: the model.
        nats: the summed loss, in nats.
        tokens: the number of predicted tokens.
        why: the reason why there is no loss, in words; None: there is a loss.
    """

    opened: Opened = field(repr=False)
    nats: float = 0.0
    tokens: int = 0
    why: str | None = None

    def add(self, reading: "Redrawable", tokens: "torch.Tensor", targets: "torch.Tensor | None" = None) -> None:
        """Add the loss of one batch.

        Args:
            reading: the recorded activations of the batch.
            tokens: the tokens of the batch.
            targets: the answer at each position, -1 where none is asked for; None: the next token.
        """
        from headway.models.transformer import mean_nll

        self.why = self.why or self._why_not(given=targets is not None)
        if self.why is not None:
            return
        for at in range(len(tokens)):  # logits of one sequence at a time: a vocabulary is wide
            logits = self._logits(reading, tokens, at)
            if logits is None:
                self.why = say("loss_no_logits")
                return
            wanted = tokens[at][1:] if targets is None else targets[at][: len(logits)]
            if n := int((wanted >= 0).sum()):
                self.nats += float(mean_nll(logits[None, : len(wanted)], wanted[None])) * n
                self.tokens += n
        if not math.isfinite(self.nats):
            self.why = say("loss_not_finite")

    @property
    def mean(self) -> float | None:
        """In nats per token; None where there is none."""
        return self.nats / self.tokens if self.tokens and self.why is None else None

    def _why_not(self, *, given: bool) -> str | None:
        """Return why the loss cannot be measured, or None if it can."""
        opened = self.opened
        if opened.reads_numbers:
            return say("loss_squared")
        if given:
            return None
        if not opened.causal:
            return say("loss_not_causal", reason=_NOT_CAUSAL[opened.kind])
        readout = None if opened.ours is None else opened.ours.model.readout
        if readout is not None:
            return say("loss_of_answers", n=readout)
        return None

    def _logits(self, reading: "Redrawable", tokens: "torch.Tensor", at: int) -> "torch.Tensor | None":
        """Return the logits of one sequence (pos, vocab)."""
        import torch

        opened = self.opened
        if opened.ours is not None:
            return opened.ours.read_out(reading.trace.streams[-1][at : at + 1])[0]
        if opened.brought:
            return None
        from headway.hf.recorder import inputs_of

        given = inputs_of(tokens[at : at + 1])
        found = getattr(opened.module(**given), "logits", None)
        predicted = given.get("labels", given["input_ids"])
        if not isinstance(found, torch.Tensor) or found.ndim != 3 or found.shape[:2] != predicted.shape:
            return None
        # The vocabulary of targets may be smaller.
        return found[0] if "labels" in given or found.shape[2] >= opened.vocab_size else None


_NOT_CAUSAL = {
    "future": "it attends to later tokens",
    "bidirectional": "every position sees all others, including the token to predict",
    "masked": "a masked model predicts masked tokens, and no token is masked here",
    "encoder-decoder": "its decoder reads the text that its encoder has read; `headway xray --decoder-text` gives the "
    "decoder a text of its own",
}

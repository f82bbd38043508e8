"""The input of an analysis: a text, or the examples of the run's task, as sequences of tokens.

* `own_text` and `text_or_examples`: the default input of a run, its own text or its task's examples;
* `ToRead`: the sequences that a model is measured on;
* `check_measurable` and `length_of`: whether a model's heads can be measured, and how long the sequences are;
* `LossSoFar`: the loss of a model, from forward passes that are made for another purpose.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.analysis.model import Opened, model_folder
from headway.config.run import RunSpec
from headway.errors import UserError
from headway.heads.results import AttentionHeads

if TYPE_CHECKING:
    import torch

    from headway.models.redraw import Redrawable
    from headway.models.trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class OwnExamples:
    """Fixed examples of a task that is no text, on which its runs are evaluated.

    Attributes:
        name: what sentences call them.
        inputs: (sequence, pos) tokens, or (sequence, pos, number) inputs of numbers.
        targets: the answers, -1 where none is asked for; or NaN, where they are numbers.
        complete: whether they are all inputs that there are.
    """

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    complete: bool

    def check_tokens(self, asked: object, verb: str) -> "OwnExamples":
        """Return these examples if they are tokens, else raise UserError.

        Raises:
            UserError: saying what cannot be done with others.
        """
        if self.inputs.ndim == 2:
            return self
        raise UserError(
            f"{asked}: its inputs and answers are numbers and no tokens, and {verb} tokens; `headway xray` measures "
            "its heads on them"
        )

    def first(self, n: int) -> "OwnExamples":
        """Return the first n examples at most."""
        if n >= len(self.inputs):
            return self
        return OwnExamples(name=self.name, inputs=self.inputs[:n], targets=self.targets[:n], complete=False)


def brings_text(run: RunSpec) -> bool:
    """Return whether a run was trained on a text that can be read again without a download."""
    from headway.config.lm.text import holds_ids
    from headway.data import corpus as hub

    found = _text_of(run)
    if run.n_ctx is None or found is None or holds_ids(found):
        return False
    return found != "tinystories" or hub.is_fetched(None)


def no_text(run: RunSpec) -> str:
    """Return why a run reads no text, and what it reads instead, as a sentence's end; empty if it reads text."""
    if not _is_examples(run):
        return ""
    end = "it can neither read a text nor write one"
    if _numbers(run):
        return (
            f"was trained on {run.task.title}, whose inputs are numbers and no tokens: {end}; `headway xray` reads its "
            "own examples"
        )
    return (
        f"was trained on {run.task.title}, whose tokens are no text: {end}; `headway xray`, `look` and `ablate` read "
        "the task's own examples where no --text is given"
    )


def own_text(model: object) -> "str | OwnExamples":
    """Return the text that a run is evaluated on, or else trained on; for a task that is no text, its examples.

    Args:
        model: its path; a model in memory brings none.

    Raises:
        UserError: for a model that has none, or one of ids.
    """
    if not isinstance(model, str | Path):
        raise UserError("a model in memory brings no text to read: give one with text=")
    from headway.config.lm.text import holds_ids
    from headway.store.run import Run

    folder, found = model_folder(model), None
    if folder.kind == "run":
        spec = Run.open(folder.path).spec
        if spec.n_ctx is None:
            raise UserError(
                f"{folder.asked}: it is a run of the in-context laboratory, which has no tokens to look at; give a run "
                "of a text"
            )
        found = _text_of(spec)
        if _is_examples(spec):
            return _examples(spec)
    if found is None:
        raise UserError(f"{folder.asked}: which text should it read? Give one with --text (in Python text=)")
    if holds_ids(found):
        raise UserError(f"{folder.asked}: its text {found} holds token ids; give a text with --text")
    return str(found)


def _text_of(run: RunSpec) -> Any:
    return getattr(run.task, "validation", None) or getattr(run.task, "corpus", None)


def _is_examples(run: RunSpec) -> bool:
    return run.n_ctx is not None and _text_of(run) is None


def _numbers(run: RunSpec) -> bool:
    return run.content()["model"].get("encoder") is not None


def _examples(run: RunSpec) -> OwnExamples:
    """Return as many examples as the run is evaluated on.

    Raises:
        UserError: as what makes them.
    """
    from headway.data.batch import open_examples

    batches = open_examples(run.task).evaluation_batches(run.evaluation.sequences, _at_once(run))  # type: ignore[attr-defined, arg-type]
    inputs, targets = (np.concatenate(found) for found in zip(*_asked(batches), strict=True))
    complete = getattr(run.task, "n_inputs", None) == len(inputs)
    said = f"{'all inputs' if complete else 'the evaluation examples'} of {run.task.title}"
    return OwnExamples(name=said, inputs=inputs, targets=targets, complete=complete)


def _at_once(run: Any) -> int:
    # Drawn examples are drawn batch by batch, as the run's own judge has them.
    return int(run.training.batch_size // run.training.accumulate)


def _asked(batches: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The sequences that something is asked of: others fill up a last batch."""
    for batch in batches:
        there = batch.asked.any(1)
        if there.any():
            yield batch.inputs[there], batch.targets[there]


TOKENS = 4096
"""The default number of tokens: enough for two digits, in seconds on two cores."""


@dataclass(frozen=True, kw_only=True)
class ToRead:
    """Sequences to be read.

    Attributes:
        tokens: (sequence, pos); or (sequence, pos, number) inputs of numbers.
        text: what they are of, in words.
        length: tokens of each that were wanted.
        n: how many were wanted.
        targets: the answer at each position, -1 where none is asked for; None: the next token everywhere.
    """

    tokens: np.ndarray
    text: str
    length: int
    n: int
    targets: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Tokens, or inputs, in all."""
        return len(self.tokens) * self.tokens.shape[1]

    @classmethod
    def examples(cls, found: OwnExamples, sequences: int | None) -> "ToRead":
        """Examples of a task: so many, or as many as are usually read.

        Raises:
            UserError: for fewer than one.
        """
        if sequences is not None and sequences < 1:
            raise UserError(f"sequences {sequences}: at least 1 is needed")
        length = found.inputs.shape[1]
        some = found.first(sequences or max(1, TOKENS // length))
        return cls(tokens=some.inputs, text=some.name, length=length, n=len(some.inputs), targets=some.targets)

    def targets_on(self, opened: Opened, first: int, n: int) -> "torch.Tensor | None":
        """The targets of so many sequences from one on, where the model is; None where the next token is meant."""
        import torch

        if self.targets is None:
            return None
        return torch.from_numpy(self.targets[first : first + n]).to(next(opened.module.parameters()).device)

    def facts_of(self, opened: Opened) -> dict[str, Any]:
        """Return the facts about the model and its input that every x-ray reports."""
        parameters = f"{sum(p.numel() for p in opened.module.parameters()):,}"
        return {
            "name": opened.name,
            "model": {**opened.facts, "parameters": parameters},
            "text": self.text,
            "n_tokens": self.size,
            "n_sequences": len(self.tokens),
            "length": self.tokens.shape[1],
            "unit": "token" if self.targets is None else "answer",
        }


def text_or_examples(path: str | Path, length: int | None) -> tuple[str | None, OwnExamples | None]:
    """Return the default input of a run: its text, or the examples of its task.

    Raises:
        UserError: as `own_text`, and for examples of another length than theirs.
    """
    found = own_text(path)
    if isinstance(found, str):
        return found, None
    if length is not None and length != found.inputs.shape[1]:
        raise UserError(
            f"length {length}: {found.name} have {found.inputs.shape[1]} tokens each, and are read whole; leave it out"
        )
    return None, found


def described(attention: "AttentionTrace") -> AttentionHeads:
    """An attention, from what was traced of it."""
    return AttentionHeads(
        name=attention.name, kind=attention.kind, kv_of=tuple(attention.kv_of), d_head=attention.q.shape[3]
    )


@contextmanager
def evaluating(module: "torch.nn.Module") -> Iterator[None]:
    """Within, a module and all in it are in evaluation mode; after it each in its own."""
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.training = mode


def check_measurable(opened: Opened) -> None:
    """Raise UserError if a model has no heads to trace, or if weights are not finite numbers, naming their layers.

    Raises:
        UserError: where it is not so.
    """
    if opened.brought:
        pass  # it has a trace, or it would not be open
    elif opened.ours is None:
        from headway import hf

        hf.traceable(opened.module)
    elif not opened.ours.model.layout.total:
        raise UserError(f"{opened.name} has no attention heads: there is nothing to measure")
    opened.check_finite("so its heads say nothing")


def length_of(opened: Opened, asked: int | None, at_most: int) -> int:
    """Tokens of a sequence: as asked, or what the model was made for.

    Args:
        opened: the model.
        asked: by somebody; None: nobody did.
        at_most: where nobody did.

    Raises:
        UserError: for fewer than one, or more than the model reads.
    """
    if asked is None:
        return min(opened.n_ctx or at_most, at_most)
    if opened.longest is not None and asked > opened.longest:
        raise UserError(f"length {asked}: {opened.name} reads {opened.longest} tokens at most; give fewer")
    return positive(asked, "length") or at_most


def positive(number: int | None, what: str) -> int | None:
    """A number that was asked for, if it was.

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
        nats: summed.
        tokens: that were predicted.
        why: what stands in the way, in words; None: nothing does.
    """

    opened: Opened = field(repr=False)
    nats: float = 0.0
    tokens: int = 0
    why: str | None = None

    def add(self, reading: "Redrawable", tokens: "torch.Tensor", targets: "torch.Tensor | None" = None) -> None:
        """Add the loss of one batch.

        Args:
            reading: what was recorded.
            tokens: of the batch.
            targets: the answer at each position, -1 where none is asked for; None: the next token.
        """
        self.why = self.why or self._why_not(given=targets is not None)
        if self.why is not None:
            return
        for at in range(len(tokens)):  # logits of one sequence at a time: a vocabulary is wide
            logits = self._logits(reading, tokens, at)
            if logits is None:
                self.why = "its loss on the text is not known: it gives no logits of the next token"
                return
            if targets is None:
                self._count(logits[:-1], tokens[at][1:])
            else:
                self._count(logits, targets[at])
        if not math.isfinite(self.nats):
            self.why = "its loss on the text is not a number: its logits overflow, after heads that do not"

    @property
    def mean(self) -> float | None:
        """In nats per token; None where there is none."""
        return self.nats / self.tokens if self.tokens and self.why is None else None

    def _why_not(self, *, given: bool) -> str | None:
        """Return why the loss cannot be measured, or None if it can."""
        if self.opened.reads_numbers:
            return "its loss is a squared error and not in nats: the report of its runs tells it"
        if given:
            return None
        if not self.opened.causal:
            return f"its loss on the text is not measured: {_NOT_CAUSAL[self.opened.kind]}"
        readout = None if self.opened.ours is None else self.opened.ours.model.readout
        if readout is not None:
            return f"its loss on these tokens is not known: it gives one of {readout} answers, and not the next token"
        return None

    def _count(self, logits: "torch.Tensor", targets: "torch.Tensor") -> None:
        from headway.models.transformer import mean_nll

        if n := int((targets >= 0).sum()):
            self.nats += float(mean_nll(logits[None], targets[None])) * n
            self.tokens += n

    def _logits(self, reading: "Redrawable", tokens: "torch.Tensor", at: int) -> "torch.Tensor | None":
        """Return the logits of one sequence (pos, vocab)."""
        import torch

        opened = self.opened
        if opened.ours is not None:
            return opened.ours.read_out(reading.trace.streams[-1][at : at + 1])[0]
        if opened.brought:
            return None
        found = getattr(opened.module(tokens[at : at + 1]), "logits", None)
        if not isinstance(found, torch.Tensor) or found.ndim != 3 or found.shape[:2] != (1, tokens.shape[1]):
            return None
        return found[0] if found.shape[2] >= opened.vocab_size else None


_NOT_CAUSAL = {
    "future": "it attends to what comes later",
    "bidirectional": "every position sees every other, the one that it would predict among them",
    "masked": "a masked model predicts hidden tokens, and nothing is hidden from it here",
    "encoder-decoder": "its decoder reads the text that its encoder has read",
}

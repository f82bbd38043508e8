"""Finished: what a run is measured on where nobody gives a text: the one that it was judged on, or its examples."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.declare.run import RunSpec
from headway.errors import UserError
from headway.finished.model_folder import model_folder


@dataclass(frozen=True, kw_only=True)
class OwnExamples:
    """Examples of a task that is no text, the fixed ones that its runs are judged on.

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
        """The same, when they are tokens.

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
        """So many of them, at most."""
        if n >= len(self.inputs):
            return self
        return OwnExamples(name=self.name, inputs=self.inputs[:n], targets=self.targets[:n], complete=False)


def brings_text(run: RunSpec) -> bool:
    """Whether a run of language models was trained on a text that can be read again, and nothing fetched for it."""
    from headway.data.tokens import hub
    from headway.declare.tokens.text import holds_ids

    found = _text_of(run)
    if run.n_ctx is None or found is None or holds_ids(found):
        return False
    return found != "tinystories" or hub.is_fetched(None)


def no_text(run: RunSpec) -> str:
    """Why a run reads and writes no text, and what it reads, in a sentence's end; empty where it has one."""
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
    """The text that a run is judged on, or else trained on; of a task that is no text its examples.

    Args:
        model: its path; a model in memory brings none.

    Raises:
        UserError: for a model that has none, or one of ids.
    """
    if not isinstance(model, str | Path):
        raise UserError("a model in memory brings no text to read: give one with text=")
    from headway.declare.tokens.text import holds_ids
    from headway.runs.folder import Run

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
    """As many as the run is judged on.

    Raises:
        UserError: as what makes them.
    """
    from headway.data.tokens.examples import open_examples

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

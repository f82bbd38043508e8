"""Finished: what a model is measured on, as sequences of tokens, whoever says which."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import UserError
from headway.finished.opened import Opened
from headway.finished.own_text import OwnExamples, own_text
from headway.heads.model_on_text import AttentionHeads

if TYPE_CHECKING:
    import torch

    from headway.model.trace import AttentionTrace

TOKENS = 4096
"""What is read where nobody says: enough for two digits, and seconds on two cores."""


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
        """What every x-ray says of the model and of what it read."""
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
    """What a run is measured on where nobody says: its text, or the examples of its task.

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

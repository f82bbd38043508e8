"""Finished: the loss of a model on what it reads for something else, from the passes that are made for that."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.finished.opened import Opened

if TYPE_CHECKING:
    import torch

    from headway.model.redraw import Redrawable


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
        """Of one batch that was read.

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
        """Why the loss cannot be measured."""
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
        from headway.model.transformer import mean_nll

        if n := int((targets >= 0).sum()):
            self.nats += float(mean_nll(logits[None], targets[None])) * n
            self.tokens += n

    def _logits(self, reading: "Redrawable", tokens: "torch.Tensor", at: int) -> "torch.Tensor | None":
        """Those of a sequence, (pos, vocab)."""
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

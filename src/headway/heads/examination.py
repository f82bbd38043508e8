"""Heads: all that is measured of a model's heads: on a text that comes in batches, on repeated tokens, off the weights.

Most metrics show on any text; duplicate-token and induction heads only on random tokens that are repeated; circuits are
read off the weights of Headway's own models. Which metric needs which is asked here and nowhere else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headway.declare.head_metrics import HEAD_METRICS, REPEATED
from headway.heads.circuits import CIRCUITS, circuit_scores, readable
from headway.heads.repeated import drawn_repeats
from headway.heads.scores import HeadScores
from headway.heads.stream import HeadStream
from headway.model.trace import Trace
from headway.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """Texts that are traced at once: random tokens, repeated, each text after a period of its own."""

    tokens: Int[Tensor, "batch pos"]
    periods: Int[Tensor, " batch"]
    begins: Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Random tokens, repeated, in batches."""

    batches: tuple[Repeated, ...]

    @classmethod
    def drawn(
        cls, vocab_size: int, longest: int, *, sequences: int, at_once: int, seed: int, device: torch.device
    ) -> "Repetition":
        """Sequences of twice the longest period; see `drawn_repeats`."""
        drawn = drawn_repeats(vocab_size, longest, sequences, seed)
        parts = (torch.from_numpy(x).to(device).split(at_once) for x in (drawn.tokens, drawn.periods, drawn.begins))
        return cls(
            batches=tuple(
                Repeated(tokens=tokens, periods=periods, begins=begins)
                for tokens, periods, begins in zip(*parts, strict=True)
            )
        )


def examine(
    text: Iterable[Trace],
    metrics: Sequence[str] | None = None,
    *,
    trace: Callable[[Tensor], Trace],
    repetition: Callable[[], Repetition] | None,
    weights: Transformer | None,
) -> dict[str, HeadScores]:
    """What metrics say of every head of a model, by metric, as they are declared.

    Args:
        text: traces of a text, batch by batch. All are taken even where no metric needs one: whoever makes them may
            measure something else on the way.
        metrics: names; None: all that can be measured.
        trace: what every head does with (batch, pos) tokens.
        repetition: gives the repeated tokens, where a metric needs them; None: no metric of repetition can be measured.
        weights: one of Headway's models, for what is read off weights; None: nothing is.

    Raises:
        UserError: as `HeadStream` and `circuit_scores`.
    """
    of_weights = _some(
        CIRCUITS if weights is None or metrics else readable(weights), metrics, there=weights is not None
    )
    of_repetition = _some(REPEATED, metrics, there=repetition is not None)
    of_text = None if metrics is None else [m for m in metrics if m not in (*of_weights, *of_repetition)]
    scores = _streamed(HeadStream(of_text), text, measured=of_text is None or bool(of_text))
    if repetition is not None and of_repetition:
        stream = HeadStream(of_repetition, repeats=True)
        for batch in repetition().batches:
            stream.add(trace(batch.tokens), batch.periods, batch.begins)
        scores |= stream.scores()
    if weights is not None and of_weights:
        scores |= circuit_scores(weights, of_weights)
    return {metric: scores[metric] for metric in HEAD_METRICS if metric in scores}


def _some(of: Sequence[str], metrics: Sequence[str] | None, *, there: bool) -> list[str]:
    return [metric for metric in of if metrics is None or metric in metrics] if there else []


def _streamed(stream: HeadStream, traces: Iterable[Trace], *, measured: bool) -> dict[str, HeadScores]:
    for traced in traces:
        if measured:
            stream.add(traced)
    return stream.scores() if measured else {}

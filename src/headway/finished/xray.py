"""Door: what every head of a finished model does on a text; what `headway.xray` and the verb are.

The text is read once, in batches, and everything is measured as it passes; nothing as large as heads times queries
times keys is kept. Induction and duplicate-token heads are found on random tokens that are repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.errors import UserError
from headway.finished.opened import Finished, open_finished
from headway.heads.scores import HeadScores
from headway.show.xray.drawing import Attention, XRay

if TYPE_CHECKING:
    from headway.heads.circuits import Composition
    from headway.model.trace import AttentionTrace, Trace

TOKENS, LENGTH = 4096, 512
"""What is read where nobody says: enough for two digits, and seconds on two cores."""
_BATCH = 1024
"""Tokens that are traced at once: what a trace keeps of them is small beside the model."""
_REPEATED, _PERIOD = 4, 64
"""Sequences of repeated random tokens, and the longest period."""
_COMPOSITION_FLOPS = 3e12
"""Compositions of all pairs of heads that would take more are left out."""


def xray(
    path: str | Path,
    *,
    text: str | Path,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
) -> XRay:
    """Measure every head of a finished model on a text.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face.
        text: a text file, whose documents are parted by `<|endoftext|>`; or any other corpus that a task can name.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        sequences: how many are read, at most; None: 4,096 tokens of them.
        length: tokens of each; None: what the model was made for, at most 512.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: of the repeated random tokens.

    Raises:
        UserError: for a model or text that cannot be opened or measured, saying why, before anything runs.
    """
    import torch

    from headway.heads.stream import HeadStream
    from headway.train.device import find_device

    corpus = find_corpus(str(text), limit=None, asked="--text")
    place = find_device(device)
    found = open_finished(path, tokenizer)
    wanted = _length(found, length)
    n = _positive(sequences, "--sequences") or max(1, TOKENS // wanted)
    tokens = found.sequences(corpus.documents(), n=n, length=wanted)
    found.module.to(place)
    stream, shares, notes = HeadStream(), _OutputShares(), _Notes()
    with torch.inference_mode():
        for batch in _batches(tokens):
            traced = found.trace(batch)
            stream.add(traced)
            shares.add(traced)
        attentions = tuple(_described(attention) for attention in traced.attentions)
        _check_enough(tokens, attentions)
        scores = stream.scores()
        scores |= _on_repeated(found, min(wanted, found.longest or wanted), seed, notes)
        circuits, composition = _circuits(found, notes)
    notes.about_text(tokens, wanted, n, attentions)
    return XRay(
        name=found.name,
        model={**found.facts, "parameters": f"{sum(p.numel() for p in found.module.parameters()):,}"},
        text=str(text),
        n_tokens=tokens.size,
        n_sequences=len(tokens),
        length=tokens.shape[1],
        attentions=attentions,
        scores=_in_order({**scores, **circuits}),
        shares=shares.shares(),
        composition=composition,
        notes=tuple(notes.said),
    )


def _length(found: Finished, asked: int | None) -> int:
    if asked is None:
        return min(found.n_ctx or LENGTH, LENGTH)
    if found.longest is not None and asked > found.longest:
        raise UserError(f"--length {asked}: {found.name} reads {found.longest} tokens at most; give fewer")
    return _positive(asked, "--length") or LENGTH


def _positive(number: int | None, option: str) -> int | None:
    if number is not None and number < 1:
        raise UserError(f"{option} {number}: at least 1 is needed")
    return number


def _batches(tokens: np.ndarray) -> Iterator[np.ndarray]:
    at_once = max(1, _BATCH // tokens.shape[1])
    for start in range(0, len(tokens), at_once):
        yield tokens[start : start + at_once]


def _described(attention: "AttentionTrace") -> Attention:
    return Attention(
        name=attention.name, kind=attention.kind, kv_of=tuple(attention.kv_of), d_head=attention.q.shape[3]
    )


def _check_enough(tokens: np.ndarray, attentions: tuple[Attention, ...]) -> None:
    """On no more positions than heads are wide, any two heads span the same space."""
    widest = _widest(attentions)
    if tokens.size <= widest:
        raise UserError(
            f"the text gives {tokens.size:,} tokens; on so few positions all heads of width {widest} look alike, "
            f"whatever they do: give a text of more than {2 * widest:,} tokens, or more of it (--sequences, --length)"
        )


def _widest(attentions: tuple[Attention, ...]) -> int:
    """The d_head of the widest heads that are compared with others."""
    return max((attention.d_head for attention in attentions if attention.n_heads > 1), default=0)


def _in_order(scores: dict[str, HeadScores]) -> dict[str, HeadScores]:
    """As declared, whatever was measured first."""
    from headway.declare.head_metrics import HEAD_METRICS

    return {metric: scores[metric] for metric in HEAD_METRICS if metric in scores}


def _on_repeated(found: Finished, length: int, seed: int, notes: "_Notes") -> dict[str, HeadScores]:
    """Induction and duplicate-token scores, of causal models."""
    from headway.declare.head_metrics import REPEATED
    from headway.heads.repeated import repeated_tokens
    from headway.heads.stream import HeadStream

    period = min(_PERIOD, length // 2, found.vocab_size)
    if not found.causal:
        notes.said.append("induction and duplicate-token scores are of causal models only: here they say nothing")
        return {}
    if period < 2:
        notes.said.append(f"a length of {length} is too short for tokens that are repeated: no induction score")
        return {}
    stream = HeadStream(REPEATED, period=period)
    stream.add(found.trace(repeated_tokens(found.vocab_size, period, _REPEATED, seed)))
    return stream.scores()


def _circuits(found: Finished, notes: "_Notes") -> "tuple[dict[str, HeadScores], Composition | None]":
    """What the weights say, of models of ours."""
    from headway.heads.circuits import circuit_scores, compositions

    model = found.ours
    if model is None:
        notes.said.append(
            "circuits (effective ranks, copying, composition) are read off Headway's own models, and this is another"
        )
        return {}, None
    scores = circuit_scores(model)
    widths = [heads.n_heads * heads.d_head for heads in model.model.layout.layers]
    if 3 * model.model.d_model * sum(widths) ** 2 > _COMPOSITION_FLOPS:
        notes.said.append(f"composition is left out: {model.model.layout.total:,} heads have too many pairs")
        return scores, None
    return scores, compositions(model)


@dataclass(frozen=True, kw_only=True)
class _Notes:
    """What limits the numbers, in sentences."""

    said: list[str] = field(default_factory=list)

    def about_text(self, tokens: np.ndarray, length: int, sequences: int, attentions: tuple[Attention, ...]) -> None:
        """Whether the text was shorter than asked for, too short to say much, and which layers have one head."""
        if tokens.shape[1] < length:
            self.said.append(f"the text has only {tokens.size:,} tokens: one sequence that is shorter than {length:,}")
        elif len(tokens) < sequences:
            self.said.append(f"the text gives only {len(tokens)} of {sequences} sequences of {length:,} tokens")
        widest = _widest(attentions)
        if tokens.size < 2 * widest:
            self.said.append(
                f"on {tokens.size:,} positions heads that are {widest} wide look much alike whatever they do: "
                "give more text"
            )
        alone = sum(attention.n_heads == 1 for attention in attentions)
        if alone:
            self.said.append(
                f"{alone} of {len(attentions)} attentions have one head: a metric of pairs needs two heads"
            )


@dataclass(frozen=True, kw_only=True)
class _OutputShares:
    """The squared size of what each head adds to the stream, summed over positions."""

    sizes: dict[str, Any] = field(default_factory=dict)

    def add(self, trace: "Trace") -> None:
        """Count a trace; z W_O W_O^T z^T needs no vector of d_model."""
        for attention in trace.attentions:
            gram = (attention.W_O.float() @ attention.W_O.float().mT)[None]
            z = attention.z.float()
            size = (z @ gram * z).sum((0, 2, 3)).double().cpu().numpy()
            self.sizes[attention.name] = self.sizes.get(attention.name, 0.0) + size

    def shares(self) -> dict[str, np.ndarray]:
        """Each head's share in its attention's sum; NaN where nothing is added at all."""
        with np.errstate(invalid="ignore"):
            return {name: size / size.sum() for name, size in self.sizes.items()}

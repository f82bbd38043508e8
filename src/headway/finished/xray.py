"""Finished: what every head of a finished model does on a text; what `headway.xray` and the verb are.

The text is read once, in batches, and everything is measured as it passes; nothing as large as heads times queries
times keys is kept. Induction and duplicate-token heads are found on random tokens that are repeated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.declare.head_metrics import REPEATED
from headway.errors import UserError
from headway.finished.measurable import check_measurable, length_of, positive
from headway.finished.opened import Opened
from headway.finished.opening import open_model
from headway.heads.model_on_text import AttentionHeads
from headway.heads.names import metric_name
from headway.heads.xray import XRay
from headway.words import listed

if TYPE_CHECKING:
    import torch

    from headway.heads.examination import Repetition
    from headway.heads.scores import Composition, HeadScores
    from headway.model.redraw import Redrawable
    from headway.model.trace import AttentionTrace, Trace

TOKENS, LENGTH = 4096, 512
"""What is read where nobody says: enough for two digits, and seconds on two cores."""
_BATCH = 1024
"""Tokens that are traced at once: what a trace keeps of them is small beside the model."""
_TRACE_BYTES = 32 * 2**20
"""More are, of a model of which a trace keeps less than this."""
_REPEATED, _PERIOD = 8, 64
"""Sequences of repeated random tokens, each after a period of its own, and the longest of these."""
DRAWS = 16
"""How many times heads are drawn anew where nobody says: few chances are below what that many can tell."""
_COMPOSITION_FLOPS = 3e12
"""Compositions of all pairs of heads that would take more are left out."""


def xray(
    path: str | Path,
    *,
    text: str | Path,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> XRay:
    """Measure every head of a finished model on a text.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face.
        text: a text file, whose documents are parted by `<|endoftext|>`; or any other corpus that a task can name.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        sequences: how many are read, at most; None: 4,096 tokens of them.
        length: tokens of each; None: what the model was made for, at most 512.
        draws: how many times heads are drawn anew on the same stream, to see what stands out of untrained ones; None:
            16; 0: none, and then only what is read off weights can stand out.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: of the repeated random tokens.
        trust_code: whether code that comes with a folder of Hugging Face is run where it cannot be opened without.

    Raises:
        UserError: for a model or text that cannot be opened or measured, saying why, before anything runs.
    """
    import torch

    from headway.heads.comparison import examine_beside_untrained
    from headway.train.device import find_device

    corpus = find_corpus(str(text), limit=None, asked="text")
    place = find_device(device)
    opened = open_model(path, tokenizer, trust_code=trust_code)
    check_measurable(opened)
    wanted = length_of(opened, length, LENGTH)
    n = positive(sequences, "sequences") or max(1, TOKENS // wanted)
    tokens = opened.sequences(corpus.documents(), n=n, length=wanted)
    opened.module.to(place)
    drawn = DRAWS if draws is None else draws
    if drawn < 0:
        raise UserError(f"draws {drawn}: 0 at least, or none are drawn")
    seen, notes = _Seen(opened=opened, tokens=tokens), _Notes()
    period = _period(opened, min(wanted, opened.longest or wanted), notes)
    with torch.inference_mode():
        scores = examine_beside_untrained(
            seen.readings(),
            read=opened.read,
            repetition=None if period is None else _repetition(opened, period, seed, place),
            weights=opened.ours,
            draws=drawn,
            n_rows=tokens.size,
        )
        composition = _composition(opened, notes)
    attentions = tuple(seen.attentions)
    notes.about_text(tokens, wanted, n, attentions)
    notes.about_draws(drawn, seen, scores)
    return XRay(
        name=opened.name,
        model={**opened.facts, "parameters": f"{sum(p.numel() for p in opened.module.parameters()):,}"},
        text=str(text),
        n_tokens=tokens.size,
        n_sequences=len(tokens),
        length=tokens.shape[1],
        attentions=attentions,
        scores=scores,
        composition=composition,
        notes=tuple(notes.said),
    )


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A text under measurement; `attentions` are those that its traces have."""

    opened: Opened
    tokens: np.ndarray
    attentions: list[AttentionHeads] = field(default_factory=list)
    shuffled: set[bool] = field(default_factory=set)

    def readings(self) -> "Iterator[Redrawable]":
        """What every head does with the text, and what others would, batch by batch.

        Raises:
            UserError: at the first, when the text has too few tokens to tell heads of this width from one another.
        """
        start, at_once = 0, max(1, _BATCH // self.tokens.shape[1])
        while start < len(self.tokens):
            found = self.opened.reading(self.tokens[start : start + at_once])
            start += at_once
            if not self.attentions:
                at_once *= max(1, _TRACE_BYTES // _bytes(found.trace))
                self.attentions.extend(map(described, found.trace.attentions))
                self.shuffled.add(found.shuffled)
                self._check_enough()
            yield found

    def _check_enough(self) -> None:
        """On no more positions than heads are wide, any two heads span the same space."""
        widest = _widest(self.attentions)
        if self.tokens.size <= widest:
            raise UserError(
                f"the text gives {self.tokens.size:,} tokens; on so few positions all heads of width {widest} look "
                f"alike, whatever they do: give a text of more than {2 * widest:,} tokens, or read more of it "
                "(sequences, length)"
            )


def _bytes(trace: "Trace") -> int:
    """About what a trace keeps."""
    arrays = [x for a in trace.attentions for x in (a.q, a.k, a.v, a.z)] + list(trace.streams)
    return sum(x.numel() * x.element_size() for x in arrays)


def described(attention: "AttentionTrace") -> AttentionHeads:
    """An attention, from what was traced of it."""
    return AttentionHeads(
        name=attention.name, kind=attention.kind, kv_of=tuple(attention.kv_of), d_head=attention.q.shape[3]
    )


def _widest(attentions: Sequence[AttentionHeads]) -> int:
    """The d_head of the widest heads that are compared with others."""
    return max((attention.d_head for attention in attentions if attention.n_heads > 1), default=0)


def _period(opened: Opened, length: int, notes: "_Notes") -> int | None:
    """After how many tokens they are repeated; None where induction and duplicate-token scores say nothing."""
    period = min(_PERIOD, length // 2, opened.vocab_size)
    if not opened.causal:
        notes.said.append("induction and duplicate-token scores are of causal models only: here they say nothing")
        return None
    if period < 2:
        notes.said.append(f"a length of {length} is too short for tokens that are repeated: no induction score")
        return None
    return period


def _repetition(opened: Opened, period: int, seed: int, place: "torch.device") -> "Repetition":
    from headway.heads.examination import Repetition

    return Repetition.drawn(opened.vocab_size, period, sequences=_REPEATED, at_once=_REPEATED, seed=seed, device=place)


def _composition(opened: Opened, notes: "_Notes") -> "Composition | None":
    """How heads compose, of models of ours."""
    from headway.heads.compositions import compositions

    model = opened.ours
    if model is None:
        notes.said.append(
            "circuits (effective ranks, copying, composition) are read off Headway's own models, and this is another"
        )
        return None
    widths = [heads.n_heads * heads.d_head for heads in model.model.layout.layers]
    if 3 * model.model.d_model * sum(widths) ** 2 > _COMPOSITION_FLOPS:
        notes.said.append(f"composition is left out: {model.model.layout.total:,} heads have too many pairs")
        return None
    return compositions(model)


@dataclass(frozen=True, kw_only=True)
class _Notes:
    """What limits the numbers, in sentences."""

    said: list[str] = field(default_factory=list)

    def about_text(
        self, tokens: np.ndarray, length: int, sequences: int, attentions: tuple[AttentionHeads, ...]
    ) -> None:
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

    def about_draws(self, draws: int, seen: _Seen, scores: "Mapping[str, HeadScores]") -> None:
        """What untrained heads are like here, and where they were not drawn."""
        if not draws:
            self.said.append("no heads were drawn anew (draws 0): what stands out of untrained heads cannot be said")
            return
        if draws < 4:
            self.said.append(f"{draws} draws of untrained heads are too few to say what stands out: give 4 or more")
        if True in seen.shuffled:
            self.said.append(
                "queries, keys and values come out of one matrix here: untrained heads have the entries of each of its "
                "rows shuffled, where others' are drawn"
            )
        wide = [at.name for at in seen.attentions if at.n_heads > 1 and at.name not in scores["query_cka"].draws]
        if wide:
            self.said.append(f"pairs of {listed(wide)} are not held against untrained ones: they are too many")
        for metric in REPEATED:
            values = scores[metric].values if metric in scores else {}
            hidden = [name for name, value in values.items() if not np.isfinite(value).any()]
            if hidden:
                called = metric_name(metric)
                self.said.append(f"{called} cannot be seen in {listed(hidden)}: its window hides what is looked for")

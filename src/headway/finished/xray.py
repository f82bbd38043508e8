"""Finished: what every head of a finished model does on a text; what `headway.xray` and the verb are.

The text is read once, in batches, and everything is measured as it passes; nothing as large as heads times queries
times keys is kept. Induction and duplicate-token heads are found on random tokens that are repeated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.errors import UserError
from headway.finished.in_memory import open_in_memory
from headway.finished.measurable import check_measurable, evaluating, length_of, positive
from headway.finished.of_few import is_too_few, of_few
from headway.finished.opened import Opened, whole_numbers
from headway.finished.opening import open_model
from headway.finished.text_loss import LossSoFar
from headway.finished.to_read import TOKENS, ToRead, described, text_or_examples
from headway.finished.xray_notes import XRayNotes, widest
from headway.heads.model_on_text import AttentionHeads
from headway.heads.xray import XRay

if TYPE_CHECKING:
    import torch

    from headway.data.tokens.corpus import Corpus
    from headway.finished.opened import TokenIds
    from headway.heads.examination import Repetition
    from headway.heads.scores import Composition, HeadScores
    from headway.model.redraw import Redrawable
    from headway.model.trace import Trace

LENGTH = 512
"""Tokens of a sequence where nobody says."""
_BATCH = 1024
"""Tokens that are traced at once: what a trace keeps of them is small beside the model."""
_TRACE_BYTES = 32 * 2**20
"""More are, of a model of which a trace keeps less than this."""
_REPEATED, _PERIOD = 8, 64
"""Sequences of repeated random tokens, each after a period of its own, and the longest of these."""
DRAWS = 16
"""How many times heads are drawn anew where nobody says: few chances are below what that many can tell."""
MOST_DRAWS = 1_000
"""A spread is known to 2 % by then."""
_COMPOSITION_FLOPS = 3e12
"""Compositions of all pairs of heads that would take more are left out."""


def xray(
    path: "str | Path | torch.nn.Module | Opened",
    *,
    text: str | Path | None = None,
    tokens: "TokenIds | None" = None,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> XRay:
    """Measure every head of a finished model on a text, or on tokens.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face; or a model in memory: one of
            Headway's own, of transformers, or a module whose `trace(tokens)` says what its heads do.
        text: a text file, whose documents are parted by `<|endoftext|>`; or any other corpus that a task can name;
            None, without tokens: of a run what it was judged on.
        tokens: in place of a text, whole numbers (sequence, pos) in an array, a tensor or lists.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        sequences: how many are read, at most; None: 4,096 tokens of them; of given tokens all.
        length: tokens of each; None: what the model was made for, at most 512; of given tokens all.
        draws: how many times heads are drawn anew on the same stream, to see what stands out of untrained ones; None:
            16; 0: none, and then only what is read off weights can stand out.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`; a model in memory stays where it is.
        seed: of the repeated random tokens.
        trust_code: whether code that comes with a folder of Hugging Face is run where it cannot be opened without.

    Raises:
        UserError: for a model or text that cannot be opened or measured, saying why, before anything runs.
    """
    from headway.train.device import find_device

    examples = None
    if text is None and tokens is None and isinstance(path, str | Path):
        text, examples = text_or_examples(path, length)
    if sum(each is not None for each in (text, tokens, examples)) != 1:
        raise UserError("an x-ray reads either a text or tokens: give one of text= and tokens=")
    corpus = None if text is None else find_corpus(str(text), limit=None, asked="text")
    place, in_memory = find_device(device), not isinstance(path, str | Path)
    if isinstance(path, str | Path):
        opened = open_model(path, tokenizer, trust_code=trust_code)
    else:
        opened = open_in_memory(path, tokenizer, None if tokens is None else whole_numbers(tokens))
    check_measurable(opened)
    if examples is None:
        found, wanted, n = _tokens(opened, corpus, tokens, sequences, length)
        read = ToRead(tokens=found, text="tokens that were given" if text is None else str(text), length=wanted, n=n)
    else:
        read = ToRead.examples(examples, sequences)
    if not in_memory:
        opened.module.to(place)
    return measured(opened, read, draws, seed)


def measured(opened: Opened, read: ToRead, draws: int | None, seed: int) -> XRay:
    """The x-ray of an open model, where it is, on what it reads.

    Raises:
        UserError: as `xray`.
    """
    import torch

    from headway.heads.comparison import examine_beside_untrained

    drawn = DRAWS if draws is None else draws
    if not 0 <= drawn <= MOST_DRAWS:
        raise UserError(f"draws {drawn}: give 0, and none are drawn, to {MOST_DRAWS:,}")
    if read.targets is not None and is_too_few(opened, read):
        return of_few(opened, read)
    found, place = read.tokens, next(opened.module.parameters()).device
    seen, notes = _Seen(opened=opened, read=read, loss=LossSoFar(opened=opened)), XRayNotes()
    period = _period(opened, min(read.length, opened.longest or read.length), notes)
    with torch.inference_mode(), evaluating(opened.module):
        drawn = notes.drawable(opened, found, drawn)
        scores = examine_beside_untrained(
            seen.readings(),
            read=opened.read,
            repetition=None if period is None else _repetition(opened, period, seed, place),
            weights=opened.ours,
            draws=drawn,
            n_rows=read.size,
        )
        composition = _composition(opened, notes, scores)
    attentions = tuple(seen.attentions)
    notes.about_text(found, read.length, read.n, attentions)
    notes.about_draws(drawn, seen.attentions, scores, shuffled=True in seen.shuffled)
    if period is not None:
        notes.about_windows(attentions, scores)
    notes.said.extend([seen.loss.why] if seen.loss.why else [])
    return XRay(
        **read.facts_of(opened),
        attentions=attentions,
        scores=scores,
        composition=composition,
        loss_nats=seen.loss.mean,
        notes=tuple(notes.said),
    )


def _tokens(
    opened: Opened,
    corpus: "Corpus[str] | None",
    given: "TokenIds | None",
    sequences: int | None,
    length: int | None,
) -> tuple[np.ndarray, int, int]:
    """What is read, (sequence, pos); and how long and how many sequences were wanted."""
    if corpus is None:
        assert given is not None
        whole = opened.checked(given)
        tokens = opened.checked(whole[: positive(sequences, "sequences"), : positive(length, "length")])
        if tokens.shape[1] < 2:
            raise UserError(
                f"sequences of {tokens.shape[1]} token were given, and no metric of attention can be measured on fewer "
                "than 2; give longer ones"
            )
        return tokens, tokens.shape[1], len(tokens)
    wanted = length_of(opened, length, LENGTH)
    n = positive(sequences, "sequences") or max(1, TOKENS // wanted)
    return opened.sequences(corpus.pieces(), n=n, length=wanted), wanted, n


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A text under measurement; `attentions` are those that its traces have."""

    opened: Opened
    read: ToRead
    loss: LossSoFar
    attentions: list[AttentionHeads] = field(default_factory=list)
    shuffled: set[bool] = field(default_factory=set)

    def readings(self) -> "Iterator[Redrawable]":
        """What every head does with the text, and what others would, batch by batch.

        Raises:
            UserError: at the first, when the text has too few tokens to tell heads of this width from one another.
        """
        start, every = 0, self.read.tokens
        at_once = max(1, _BATCH // every.shape[1])
        while start < len(every):
            tokens = every[start : start + at_once]
            found = self.opened.reading(tokens)
            self.loss.add(found, self.opened.on_device(tokens), self.read.targets_on(self.opened, start, at_once))
            start += at_once
            if not self.attentions:
                at_once *= max(1, _TRACE_BYTES // _bytes(found.trace))
                self.attentions.extend(map(described, found.trace.attentions))
                self.shuffled.add(found.shuffled)
                self._check_enough()
            yield found

    def _check_enough(self) -> None:
        """On no more positions than heads are wide, any two heads span the same space."""
        wide = widest(self.attentions)
        if self.read.size <= wide:
            raise UserError(
                f"the text gives {self.read.size:,} tokens; on so few positions all heads of width {wide} look "
                f"alike, whatever they do: give a text of more than {2 * wide:,} tokens, or read more of it "
                "(sequences, length)"
            )


def _bytes(trace: "Trace") -> int:
    """About what a trace keeps."""
    arrays = [x for a in trace.attentions for x in (a.q, a.k, a.v, a.z)] + list(trace.streams)
    return sum(x.numel() * x.element_size() for x in arrays)


def _period(opened: Opened, length: int, notes: XRayNotes) -> int | None:
    """After how many tokens they are repeated; None where induction and duplicate-token scores say nothing."""
    period = min(_PERIOD, length // 2, opened.vocab_size)
    if opened.reads_numbers:
        notes.said.append("induction and duplicate-token scores are of tokens, and this model reads numbers")
        return None
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


def _composition(opened: Opened, notes: XRayNotes, scores: "Mapping[str, HeadScores]") -> "Composition | None":
    """How heads compose, of models of ours."""
    from headway.heads.compositions import compositions

    model = opened.ours
    if model is None:
        notes.about_circuits(scores)
        return None
    if not model.model.residual:
        if len([n for n in model.n_heads if n]) > 1:
            notes.said.append(
                "composition is left out: this model has no residual stream (model.residual false) that later heads "
                "would read earlier ones in"
            )
        return None
    widths = [heads.n_heads * heads.d_head for heads in model.model.layout.layers]
    if 3 * model.model.d_model * sum(widths) ** 2 > _COMPOSITION_FLOPS:
        notes.said.append(f"composition is left out: {model.model.layout.total:,} heads have too many pairs")
        return None
    return compositions(model)

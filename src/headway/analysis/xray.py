"""The x-ray: every head of a finished model, measured on a text.

`xray` is `headway.xray` and its verb. It reads the text once, in batches, and measures each batch as it passes. It
keeps nothing as large as heads times queries times keys. Induction and duplicate-token heads are found on the text's
own repeats, and on repeated tokens that are drawn from the text.

`heads/untrained.py` measures the trace of each batch, and beside it 16 traces in which the weights of every head are
drawn anew and read the same stream (`models/redraw.py`, or `hf/redraw.py` for a model of transformers). Metrics of
repetition are measured in the same way on repeated tokens, and metrics of weights on the redrawn weights.
`XRay.findings` in `heads/results.py` says what stands out: `heads/findings.py` computes the chance of each value under
the re-initialised heads.

`read_pairs` reads the sources and targets of a model with an encoder and a decoder, line by line from two files.

`short_text_xray` measures a text that is too short for an x-ray: what few tokens can tell, and a note. `XRayNotes`
collects sentences on the limits of the numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.analysis.evaluation import evaluating
from headway.analysis.inputs import TOKENS, LossSoFar, TextInput, described, length_of, one_input, positive
from headway.analysis.model import Opened
from headway.analysis.open import open_model
from headway.base.text import listed
from headway.base.words import say
from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.config.metrics import metric_name
from headway.data.documents import lines_of
from headway.errors import UserError
from headway.heads.results import AttentionHeads, XRay, labels_of
from headway.heads.scores import TEXTS

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds
    from headway.heads.scores import Composition, HeadScores
    from headway.models.redraw import Redrawable
    from headway.models.trace import Trace


def is_too_few(read: TextInput, attentions: Sequence[AttentionHeads]) -> bool:
    """Return whether the positions are too few to compare heads with untrained ones."""
    return read.size <= 2 * _widest(attentions)


def short_text_xray(opened: Opened, read: TextInput, attentions: tuple[AttentionHeads, ...]) -> XRay:
    """Patterns and circuits; of examples of a task their loss, too."""
    import torch

    from headway.heads.circuits import readable
    from headway.heads.measure import examine

    of_weights = () if opened.ours is None else readable(opened.ours)
    metrics = [
        name
        for name, declared in HEAD_METRICS.items()
        if name not in REPEATED
        and (declared.family == "patterns" or (declared.family == "circuits" and name in of_weights))
    ]
    loss = LossSoFar(opened=opened)

    def traces() -> "Iterator[Trace]":
        reading = opened.reading(read.tokens)
        if read.targets is not None:
            loss.add(reading, *read.tensors(opened))
        yield reading.trace

    with evaluating(opened.module), torch.inference_mode():
        scores = examine(traces(), metrics, trace=opened.traced, repetition=lambda: (), weights=opened.ours)
    text = "the text" if read.targets is None else read.name
    note = say("few_tokens_of_reading", text=text, n=read.size, least=2 * _widest(attentions))
    return XRay(**_facts(read, loss, [note]), attentions=attentions, scores=scores)


def _facts(read: TextInput, loss: LossSoFar, notes: Sequence[str]) -> dict[str, Any]:
    """Return what an x-ray says beside its scores: the text, and the loss or the reason why there is none."""
    return {
        **read.facts(loss.opened),
        "unit": "token" if read.targets is None or read.pairs else "answer",
        "loss_nats": loss.mean,
        "notes": tuple(filter(None, (*notes, loss.why))),
    }


def _widest(attentions: Sequence[AttentionHeads]) -> int:
    return max(attention.d_head for attention in attentions)


class XRayNotes(list[str]):
    """The sentences on the limits of an x-ray's numbers."""

    def about_text(self, read: TextInput, attentions: Sequence[AttentionHeads]) -> None:
        """Add notes on a text shorter than asked, before all others, or too short, and on layers with one head."""
        n_sequences, length = read.wanted or (len(read), read.length)
        if read.length < length:
            self.insert(0, say("short_text", n=read.size, length=length))
        elif len(read) < n_sequences:
            self.insert(0, say("few_sequences", n=len(read), asked=n_sequences, length=length))
        wide = widest(attentions)
        if read.size < 2 * wide:
            self.append(say("few_positions", n=read.size, width=wide))
        alone = sum(attention.n_heads == 1 for attention in attentions)
        if alone:
            self.append(say("single_heads", n=alone, all=len(attentions)))
        if len(read) < TEXTS:
            self.append(say("no_intervals_over_texts", n=len(read), least=TEXTS))

    def repeats_enough(self, read: TextInput) -> bool:
        """Return whether tokens of the text occur again often enough to measure what heads do then, or add a note."""
        n = read.size - sum(len(np.unique(tokens)) for tokens in read.tokens)
        if n >= _LEAST_REPEATS and len(read) > 1:
            return True
        self.append(say("few_repeats", n=n, all=read.size, sequences=len(read), least=_LEAST_REPEATS))
        return False

    def about_circuits(self, scores: "Mapping[str, HeadScores]") -> None:
        """Add notes on circuits that are unknown in another library's model."""
        n = len(scores["sink_score"].values)
        n_plain = len(scores["qk_effective_rank"].values) if "qk_effective_rank" in scores else 0
        if not n_plain:
            self.append(say("no_circuits"))
            return
        some = "" if n_plain == n else f" of {n_plain} of {n} attentions, the plain ones,"
        self.append(say("plain_circuits", some=some))

    def drawable(self, opened: Opened, tokens: np.ndarray, draws: int) -> int:
        """Return the number of draws; 0 for a model in memory without its matrices."""
        if not draws:
            self.append(say("no_draws"))
            return 0
        if not opened.brought or all(
            attention.plain is not None for attention in opened.reading(tokens[:1]).trace.attentions
        ):
            return draws
        self.append(say("no_matrices"))
        return 0

    def about_draws(
        self,
        draws: int,
        attentions: Sequence[AttentionHeads],
        scores: "Mapping[str, HeadScores]",
    ) -> None:
        """Add notes on the untrained heads of this text, and on where they were not drawn."""
        if not draws:
            return
        if draws < 4:
            self.append(say("few_draws", n=draws))
        labels, drawn = labels_of(attentions), scores["query_cka"].draws
        wide = [labels[each.name] for each in attentions if each.n_heads > 1 and each.name not in drawn]
        if wide:
            self.append(say("no_drawn_pairs", layers=listed(wide)))

    def about_windows(self, attentions: Sequence[AttentionHeads], scores: "Mapping[str, HeadScores]") -> None:
        """Add notes on windows that hide what repeated tokens could show."""
        labels = labels_of(attentions)
        for metric in REPEATED:
            seen = scores[metric].values if metric in scores else {}
            hidden = [label for name, label in labels.items() if not np.isfinite(seen.get(name, np.nan)).any()]
            if hidden:
                self.append(say("hidden_tokens", metric=metric_name(metric), layers=listed(hidden)))


def widest(attentions: Sequence[AttentionHeads]) -> int:
    """The d_head of the widest heads that are compared with others."""
    return max((attention.d_head for attention in attentions if attention.n_heads > 1), default=0)


LENGTH = 512
"""The default number of tokens in a sequence."""
_BATCH = 1024
"""Tokens that are traced at once: what a trace keeps of them is small beside the model."""
_TRACE_BYTES = 32 * 2**20
"""More are, of a model of which a trace keeps less than this."""
_LEAST_REPEATS = 100
"""The fewest tokens with an earlier occurrence from which heads are measured on the text's own repeats."""
_REPEATED, _PERIOD = 8, 64
"""Sequences of repeated random tokens, each after a period of its own, and the longest of these."""
DRAWS = 16
"""The default number of re-initialisations of heads; few chances are too small for it to resolve."""
MOST_DRAWS = 1_000
"""A spread is known to 2 % by then."""
_COMPOSITION_FLOPS = 3e12
"""Compositions of all pairs of heads that would take more are left out."""


def xray(
    path: "str | Path | torch.nn.Module | Opened",
    *,
    text: "str | Path | TokenIds | TextInput | None" = None,
    decoder_text: str | Path | None = None,
    tokens: "TokenIds | None" = None,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> XRay:
    """Measure every head of a finished model on a text, or on tokens.

    Args:
        path: a run's folder, its checkpoint, or a local Hugging Face folder; or a model in memory: Headway's own, one
            of transformers, or a module whose `trace(tokens)` returns what its heads do.
        text: a text file with `<|endoftext|>` between documents, any other corpus that a task can name, or tokens;
            None, without tokens: the evaluation data of the run.
        decoder_text: the file that a decoder over an encoder reads, whose lines are the targets of the lines of `text`;
            None: the decoder reads the text of its encoder.
        tokens: instead of a text, whole numbers (sequence, pos) in an array, a tensor or lists.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers.
        sequences: the largest number of sequences; None: as many as have 4,096 tokens, or all given tokens.
        length: the tokens of a sequence; None: the model's context, at most 512, or all given tokens.
        draws: the number of re-initialisations of heads on the same stream, the null that heads must stand out from;
            None: 16; 0: none, and then only metrics of weights can stand out.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`; a model in memory stays where it is.
        seed: the random seed of the repeated random tokens.
        trust_code: True to run code that comes with a Hugging Face folder, if the folder needs it.

    Raises:
        UserError: if the model or text cannot be opened or measured, with the reason; it is raised before any
            measurement.
    """
    source = one_input(path, text, tokens, "an x-ray reads either a text or tokens")
    opened = open_model(path, tokenizer, for_="trace", tokens=source.inputs, device=device, trust_code=trust_code)
    if decoder_text is None:
        read = source.read(opened, sequences, length, at_most=LENGTH)
    else:
        read = read_pairs(source, decoder_text, opened, sequences, length_of(opened, length, LENGTH))
    if read.length < 2:
        raise UserError(f"sequences of {read.length} token have no metric of attention; give 2 tokens or more")
    return measured(opened, read, draws, seed)


def read_pairs(
    text: TextInput, decoder_text: str | Path, opened: Opened, sequences: int | None, length: int
) -> TextInput:
    """Return pairs of a source and a target, which stand on the same line of two files.

    Args:
        text: the file of sources.
        decoder_text: the file of targets.
        opened: the model.
        sequences: the largest number of pairs; None: as many as have 4,096 tokens.
        length: the largest number of tokens of a side; longer sides are cut before the tokenizer's own last tokens.

    Raises:
        UserError: if the model has no decoder over an encoder, the sources are tokens, or a line has no text.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    if opened.kind != "encoder-decoder" or text.corpus is None:
        raise UserError(
            f"decoder_text {decoder_text}: only a T5, BART or Marian with a text file for its encoder takes it; "
            f"{opened.name} is a {opened.facts['architecture']} with {text.name}. Leave decoder_text out"
        )
    most = positive(sequences, "sequences")
    encoder, sides, n_tokens = opened.encoder, list[list[int]](), 0
    # A tokenizer of transformers may have another vocabulary for targets, as that of Marian.
    whole_target = partial(encoder.whole, name="text_target") if callable(opened.tokenizer) else encoder.whole
    files = Path(text.name), Path(decoder_text)
    for number, texts in enumerate(zip_longest(*map(lines_of, files)), 1):
        if not all(texts):
            raise UserError(
                f"{files[bool(texts[0])]} has no text on line {number}; equal lines of {files[0]} and {files[1]} are "
                "a pair, so give as many lines in both, and no empty line"
            )
        if n_tokens >= TOKENS if most is None else len(sides) == 2 * most:
            continue  # the rest of the files is read only to find lines that one of them lacks
        for whole, line in zip((encoder.whole, whole_target), texts, strict=True):
            ids, after = list(whole(line)), len(encoder.after)
            del ids[length - after : len(ids) - after]
            n_tokens += len(ids)
            sides.append(ids)
    if not sides or not all(sides):
        raise UserError(
            f"{files[0]} and {files[1]}: a line has no tokens, or a file is empty; give a source and a target per line"
        )
    padded = pad_sequence([torch.tensor(ids) for ids in sides], batch_first=True, padding_value=-100)
    inputs = padded.unflatten(0, (-1, 2)).mT.numpy()
    name = f"{files[0]} and {files[1]} (at most {length:,} tokens of a line)"
    return TextInput(name=name, inputs=inputs, targets=inputs[..., 1], pairs=True)


def measured(opened: Opened, read: TextInput, draws: int | None, seed: int) -> XRay:
    """The x-ray of an open model, where it is, on what it reads.

    Raises:
        UserError: if `xray` would raise it.
    """
    import torch

    from headway.heads.measure import in_batches, repeats_of_text
    from headway.heads.untrained import examine_beside_untrained

    drawn = DRAWS if draws is None else draws
    if not 0 <= drawn <= MOST_DRAWS:
        raise UserError(f"draws {drawn}: give a number from 0 (none) to {MOST_DRAWS:,}")
    if read.targets is not None:
        with evaluating(opened.module), torch.inference_mode():
            attentions = tuple(map(described, opened.trace(read.tokens[:1]).attentions))
        if is_too_few(read, attentions):
            return short_text_xray(opened, read, attentions)
    length = read.length if read.wanted is None else read.wanted[1]
    notes = XRayNotes()
    repeats = opened.causal and not opened.reads_numbers and notes.repeats_enough(read)
    seen = _Seen(opened=opened, read=read, loss=LossSoFar(opened=opened), repeats=repeats)
    period = _period(opened, min(length, opened.longest or length), read, notes)
    with evaluating(opened.module), torch.inference_mode():
        drawn = notes.drawable(opened, read.tokens, drawn)
        scores = examine_beside_untrained(
            seen.readings(),
            read=opened.read,
            repetition=None
            if period is None
            else in_batches(repeats_of_text(read.tokens, period, _REPEATED, seed), _REPEATED, opened.device),
            weights=opened.ours,
            draws=drawn,
            n_rows=read.size,
        )
        composition = _composition(opened, notes, scores, read, drawn)
    attentions = tuple(seen.attentions)
    notes.about_text(read, attentions)
    notes.about_draws(drawn, seen.attentions, scores)
    if period is not None:
        notes.about_windows(attentions, scores)
    return XRay(**_facts(read, seen.loss, notes), attentions=attentions, scores=scores, composition=composition)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A text under measurement; `attentions` are those that its traces have, `repeats` says that they have tokens."""

    opened: Opened
    read: TextInput
    loss: LossSoFar
    repeats: bool
    attentions: list[AttentionHeads] = field(default_factory=list)

    def readings(self) -> "Iterator[Redrawable]":
        """Yield the traces of the text batch by batch, each with the activations of other heads on request.

        Raises:
            UserError: at the first, when the text has too few tokens to tell heads of this width from one another.
        """
        import torch

        # Of two texts, one shows what positions alone give in the other.
        start, at_once = 0, 2 * max(1, _BATCH // (2 * self.read.length))
        while start < len(self.read):
            some = self.read.part(np.s_[start : start + at_once])
            found = self.opened.reading(some.tokens)
            self.loss.add(found, *some.tensors(self.opened))
            start += at_once
            if not self.attentions:
                at_once *= max(1, _TRACE_BYTES // _bytes(found.trace))
                self.attentions.extend(map(described, found.trace.attentions))
                wide = widest(self.attentions)
                # Any two heads that are as wide as the positions are many span one space.
                if self.read.size <= wide:
                    raise UserError(
                        f"the text gives {self.read.size:,} tokens, on which all heads of width {wide} look similar; "
                        f"give a text of more than {2 * wide:,} tokens, or read more of it (sequences, length)"
                    )
            if self.repeats:
                tokens = torch.from_numpy(some.tokens).to(self.opened.device)
                found = replace(found, trace=replace(found.trace, tokens=tokens))
            yield found


def _bytes(trace: "Trace") -> int:
    """About what a trace keeps."""
    arrays = [*trace.streams, *(x for each in trace.attentions for x in (each.q, each.k, each.v, each.z))]
    return sum(x.nbytes for x in arrays)


def _period(opened: Opened, length: int, read: TextInput, notes: XRayNotes) -> int | None:
    """Return the period of the repeated tokens; None if induction and duplicate-token scores have no value."""
    from headway.heads.measure import tokens_to_repeat

    if opened.reads_numbers:
        notes.append(say("numbers_only"))
        return None
    if not opened.causal:
        notes.append(say("not_causal"))
        return None
    n_tokens = len(tokens_to_repeat(read.tokens))
    period = min(_PERIOD, length // 2, n_tokens)
    if period < 2:
        notes.append(say("nothing_to_repeat" if n_tokens < 2 else "short_length", n=n_tokens, length=length))
        return None
    return period


def _composition(
    opened: Opened, notes: XRayNotes, scores: "Mapping[str, HeadScores]", read: TextInput, draws: int
) -> "Composition | None":
    """Return the composition of heads, for Headway's own models, with its paths on about the first 1,024 tokens."""
    from headway.heads.token_circuits import composed_on_text, compositions

    model = opened.ours
    if model is None:
        notes.about_circuits(scores)
        return None
    if not model.model.residual:
        if np.count_nonzero(model.n_heads) > 1:
            notes.append(say("no_stream"))
        return None
    d_model, layout = model.model.d_model, model.model.layout
    width = sum(heads.q_width for heads in layout.layers)
    if 3 * d_model * width**2 > _COMPOSITION_FLOPS:
        notes.append(say("many_heads", n=layout.total))
        return None
    some = read.part(np.s_[: max(1, _BATCH // read.length)])
    found, reading = compositions(model), opened.reading(some.tokens)
    per_draw = 4 * d_model * some.size * layout.total**2
    return composed_on_text(model, reading, found, draws if draws * per_draw <= _COMPOSITION_FLOPS else 0)

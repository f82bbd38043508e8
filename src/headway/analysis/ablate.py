"""Ablation of a finished model's heads: the effect on the loss of a text.

`ablate` is `headway.ablate` and its verb. It reads the text in batches. For each batch it measures the exact effect of
every head in all three kinds of ablation, then the estimates, from the same sequences.

`circuit` is `headway.circuit`: the share of the loss that some heads explain alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.analysis.inputs import OwnExamples, described, own_text
from headway.analysis.interventions import batched_text, open_to_intervene
from headway.analysis.model import Opened
from headway.analysis.text_pairs import TwoTexts, of_examples, two_texts, with_targets
from headway.base.text import counted
from headway.causal.ablation_result import Ablation, PairEffects, effect_scores
from headway.causal.effects import KINDS, ExactEffects, Head, Kind
from headway.errors import UserError, near

if TYPE_CHECKING:
    from headway.analysis.model import TokenIds
    from headway.causal.ablation import BatchedText
    from headway.causal.ablation_result import Faithfulness
    from headway.heads.scores import HeadScores
    from headway.models.intervene import Intervenable
    from headway.models.trace import AttentionTrace
    from headway.models.transformer import Transformer


def circuit(
    model: "str | Path | Transformer",
    heads: Sequence[str],
    *,
    text: "str | Path | TokenIds",
    reference: "str | Path | TokenIds | None" = None,
    targets: "TokenIds | None" = None,
    kind: Kind = "mean",
    mean: str = "positions",
    draws: int = 50,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
) -> "Faithfulness":
    """Ablate everything outside some heads, and measure the share of the loss that they keep, next to random heads.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or one of Headway's models.
        heads: the heads that stay, such as `["L0H3", "L1H0"]`.
        text: as of `headway.ablate`, like `reference`, `targets`, `tokenizer`, `sequences`, `length` and `device`.
        reference: see there.
        targets: see there.
        kind: the ablation of the other heads: `mean`, `zero` or `resample`.
        mean: the positions of their mean, as of `headway.ablate`.
        draws: the number of different random circuits of as many heads, or all that exist.
        tokenizer: see there.
        sequences: see there.
        length: see there.
        device: see there.
        seed: of the random circuits, and of which sequences stand in for which.

    Raises:
        UserError: as `headway.ablate`; for heads that are not there, or all of them.
    """
    from headway.causal.substitutes import check_mean_over

    over = check_mean_over(mean)
    if kind not in KINDS:
        raise UserError(f"kind {kind!r} is no way to take heads away; {near(str(kind), KINDS)}")
    opened, own = open_to_intervene(model, tokenizer, device)
    chosen = circuit_of(own, heads, draws)
    if targets is None:
        texts = two_texts(opened, text, reference, sequences=sequences, length=length)
    else:
        texts = with_targets(opened, text, targets, reference)
    work = batched_text(opened, own, texts, mean_over=over, seed=seed)
    return work.faithfulness(chosen, kinds=(kind,), draws=draws, seed=seed)[kind]


def circuit_of(model: "Intervenable", heads: Sequence[str], draws: int = 1) -> list[Head]:
    """Return the heads that a user names, as a circuit of a model.

    Raises:
        UserError: for what is no head, and heads that are no circuit of it.
    """
    from headway.causal.faithfulness import check_circuit

    found = [_head(name) for name in ([heads] if isinstance(heads, str) else heads)]
    check_circuit(model, found, draws)
    return found


def _head(name: str) -> Head:
    found = re.fullmatch(r"L(\d+)H(\d+)", str(name))
    if not found:
        raise UserError(f"heads: {name!r} is no head; write L0H3, layer and head from 0")
    return int(found[1]), int(found[2])


_ALIKE, _IMPORTANT = 5, 5
"""Pairs that are most alike, and heads whose pairs are looked at because they matter most."""
_FEW = 6
"""Sequences below which intervals are called wide."""
_OUTPUTS = "output_dissimilarity"


def ablate(
    model: "str | Path | Transformer",
    *,
    text: "str | Path | TokenIds | None" = None,
    reference: "str | Path | TokenIds | None" = None,
    targets: "TokenIds | None" = None,
    mean: str = "positions",
    pairs: bool = False,
    circuit: Sequence[str] | None = None,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
    tell: Callable[[str], object] = lambda _: None,
) -> Ablation:
    """Ablate every head of a finished model in three ways, and measure the loss of a text.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or one of Headway's models.
        text: a text file with `<|endoftext|>` between documents, or any other corpus that a task can name; or
            (sequence, pos) tokens; None: the evaluation data of the run.
        reference: another text, whose contexts substitute for heads; None: the text's further sequences.
        targets: the target at each of the text's tokens, -1 for none; None: every next token.
        mean: the mean of a head is over `positions` (and sequences) of the other text, or over its sequences
            `per-position`.
        pairs: whether interactions of the most similar and the most important pairs of heads are measured.
        circuit: heads such as `["L0H3", "L1H0"]`; the share of the loss that they keep alone is measured.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        sequences: the largest number of sequences of each text; None: as many as have 8,192 tokens.
        length: the tokens of a sequence; None: the model's context, at most 256.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: of which sequences stand in for which.
        tell: receives the expected time, if it is long.

    Raises:
        UserError: for a model or text that cannot be opened or measured; for heads that are no circuit; for a model
            that fails a check of what is done to it, naming the check.
    """
    from headway.causal.substitutes import check_mean_over, heads_of

    over = check_mean_over(mean)
    what = own_text(model) if text is None else text
    opened, own = open_to_intervene(model, tokenizer, device)
    if isinstance(what, OwnExamples):
        what.check_tokens(model, "effects of heads are on a loss of")
        texts = of_examples(opened, what, reference, sequences=sequences, length=length)
    elif targets is None:
        texts = two_texts(opened, what, reference, sequences=sequences, length=length)
    else:
        texts = with_targets(opened, what, targets, reference)
    chosen = None if circuit is None else circuit_of(own, circuit)
    work = batched_text(opened, own, texts, mean_over=over, seed=seed, tell=tell)
    tell(f"taking away {counted(len(heads_of(own)), 'head')} one by one, and all of them, each in three ways ...")
    exact, estimates, integrated = work.exact(), work.attributed(), work.integrated()
    alike, attentions = _alike(work)
    names = {attention.layer: attention.name for attention in attentions}
    return Ablation(
        name=opened.name,
        model={**opened.facts, "parameters": f"{sum(p.numel() for p in own.parameters()):,}"},
        text=texts.text,
        n_tokens=texts.inputs.size,
        n_sequences=len(texts.inputs),
        length=texts.length,
        attentions=tuple(map(described, attentions)),
        scores=effect_scores(names, exact, estimates.michel, estimates.first_order, integrated),
        notes=tuple(_notes(opened, texts)),
        other=texts.other,
        mean_over=over,
        exact=exact,
        michel=estimates.michel,
        first_order=estimates.first_order,
        integrated=integrated,
        pairs=_pairs(work, exact, alike, names) if pairs else None,
        circuit=None if chosen is None else work.faithfulness(chosen, seed=seed),
    )


def _alike(work: "BatchedText") -> "tuple[HeadScores, list[AttentionTrace]]":
    """Return the similarity of a layer's head outputs on the text, and the attentions, from the first batch."""
    import torch

    from headway.heads.measure import HeadStream

    stream = HeadStream([_OUTPUTS])
    first: list[AttentionTrace] = []
    with torch.inference_mode():
        for some in work.inputs.split(work.at_once):
            traced = work.model.trace(some)
            first = first or list(traced.attentions)
            stream.add(traced)
    return stream.scores()[_OUTPUTS], first


def _pairs(
    work: "BatchedText", exact: ExactEffects, alike: "HeadScores", names: Mapping[int, str]
) -> PairEffects | None:
    """Interactions of the most alike pairs, and of those of the heads that matter most; None of a single head."""
    cosine = {
        ((layer, i), (layer, j)): -float(value[i, j])
        for layer, name in names.items()
        for value in [alike.values[name]]
        for i, j in combinations(range(len(value)), 2)
        if np.isfinite(value[i, j])
    }
    most_alike = sorted(cosine, key=lambda pair: -cosine[pair])[:_ALIKE]
    by_size = sorted(exact.single["mean"].heads(), key=lambda pair: -abs(pair[1]))[:_IMPORTANT]
    important = list(combinations(sorted(head for head, _ in by_size), 2))
    chosen = list(dict.fromkeys([*most_alike, *important]))
    if not chosen:
        return None
    return PairEffects(
        heads=tuple(chosen),
        why=tuple("alike" if pair in most_alike else "important" for pair in chosen),
        cosine=tuple(cosine.get(pair, float("nan")) for pair in chosen),
        per_sequence=work.interactions(chosen),
        tokens=exact.tokens,
    )


def _notes(opened: Opened, texts: TwoTexts) -> Iterator[str]:
    """Yield sentences on the limits of the numbers."""
    if (asked := int((texts.targets >= 0).sum())) < texts.targets.size:
        yield (
            f"the loss is a mean over the {asked:,} of {texts.targets.size:,} tokens at which an answer is asked for, "
            "and where nats per token are said, these tokens are meant"
        )
    if len(texts.inputs) < _FEW:
        yield f"intervals are over {len(texts.inputs)} sequences only, and so they are wide: give more text"
    if len(texts.other_inputs) < len(texts.inputs):
        yield (
            f"{counted(len(texts.other_inputs), 'other sequence')} for {len(texts.inputs)} sequences: some stand in "
            "more than once"
        )
    if opened.kind == "future":
        yield "this model attends to what comes later; its loss is of the next token all the same, as in its training"

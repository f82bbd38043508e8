"""Finished: what every head of a finished model does to the loss of a text; what `headway.ablate` and the verb are.

The text is read in batches. Of each batch the exact effects of all heads are taken in all three ways, then the
estimates, from the same sequences.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.finished.batched_text import batched_text
from headway.finished.circuit import circuit_of
from headway.finished.interventions import open_to_intervene
from headway.finished.opened import Opened
from headway.finished.own_text import OwnExamples, own_text
from headway.finished.to_read import described
from headway.finished.two_texts import TwoTexts, of_examples, two_texts, with_targets
from headway.heads.causes.ablated import Ablation, PairEffects, effect_scores
from headway.heads.causes.effects import ExactEffects
from headway.words import counted

if TYPE_CHECKING:
    from headway.finished.opened import TokenIds
    from headway.heads.causes.batched import BatchedText
    from headway.heads.scores import HeadScores
    from headway.model.trace import AttentionTrace
    from headway.model.transformer import Transformer

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
    """Take every head of a finished model away, in three ways, and see what the loss of a text does.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or one of Headway's models.
        text: a text file, whose documents are parted by `<|endoftext|>`, or any other corpus that a task can name; or
            (sequence, pos) tokens; None: of a run what it was judged on.
        reference: another text, whose contexts stand in for heads; None: the text's further sequences.
        targets: what is predicted at each of the text's tokens, -1 where nothing is; None: every next token.
        mean: what the mean of a head is over: `positions` (and sequences) of the other text, or its sequences
            `per-position`.
        pairs: whether interactions are measured, of the most alike and the most important pairs of heads.
        circuit: heads such as `["L0H3", "L1H0"]`, of which is measured what they keep when all others go.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        sequences: of each text, at most; None: 8,192 tokens of them.
        length: tokens of each; None: what the model was made for, at most 256.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: of which sequences stand in for which.
        tell: is given how long it takes, where that is long.

    Raises:
        UserError: for a model or text that cannot be opened or measured; for heads that are no circuit; for a model
            that fails a check of what is done to it, naming the check.
    """
    from headway.heads.causes.substitutes import check_mean_over, heads_of

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
    """How alike the outputs of a layer's heads are on the text, and the attentions, from their first batch."""
    import torch

    from headway.heads.stream import HeadStream

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
    """What limits the numbers, in sentences."""
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

"""Ablation of a finished model's heads: the effect on the loss of a text.

`ablate` is `headway.ablate` and its verb. It reads the text in batches. For each batch it measures the exact effect of
every head in all three kinds of ablation, then the estimates, from the same sequences.

`circuit` is `headway.circuit`: the share of the loss that some heads explain alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.analysis.evaluation import evaluating
from headway.analysis.inputs import LOSS_TOKENS, TextInput, described, own_text, two_inputs
from headway.analysis.model import Opened
from headway.analysis.open import open_model
from headway.base.text import counted
from headway.base.words import say
from headway.causal.ablation_result import MATTERS, Ablation, PairEffects, effect_scores
from headway.causal.effects import KINDS, LEAST, ExactEffects, Head, Kind, MeanOver, named
from headway.causal.self_repair import AblationTogether, GroupEffect, SelfRepair, heads_beyond, sum_of_singles
from headway.errors import UserError, near

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds
    from headway.causal.ablation import BatchedText
    from headway.causal.ablation_result import Faithfulness
    from headway.causal.substitutes import Intervenable
    from headway.heads.scores import HeadScores
    from headway.models.trace import AttentionTrace


def circuit(
    model: "str | Path | torch.nn.Module | Opened",
    heads: Sequence[str],
    *,
    text: "str | Path | TokenIds | TextInput",
    reference: "str | Path | TokenIds | TextInput | None" = None,
    targets: "TokenIds | None" = None,
    kind: Kind = "mean",
    mean: str = "positions",
    draws: int = 50,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> "Faithfulness":
    """Ablate everything outside some heads, and measure the share of the loss that they keep, next to random heads.

    Args:
        model: the model, as for `headway.ablate`.
        heads: the heads that stay, such as `["L0H3", "L1H0"]`.
        text: the text, as for `headway.ablate`.
        reference: the text whose contexts substitute for heads, as for `headway.ablate`.
        targets: the target at each of the text's tokens, as for `headway.ablate`.
        kind: the ablation of the other heads: `mean`, `zero` or `resample`.
        mean: the positions of their mean, as for `headway.ablate`.
        draws: the number of different random circuits of as many heads, or all that exist.
        tokenizer: the tokenizer, as for `headway.ablate`.
        sequences: the largest number of sequences, as for `headway.ablate`.
        length: the tokens of a sequence, as for `headway.ablate`.
        device: the device, as for `headway.ablate`.
        seed: the random seed of the random circuits and of the choice of donors.
        trust_code: True to run code that comes with a Hugging Face folder, as for `headway.ablate`.

    Raises:
        UserError: if `headway.ablate` would raise it, or the heads are unknown, or all heads.
    """
    from headway.causal.substitutes import check_mean_over

    over = check_mean_over(mean)
    if kind not in KINDS:
        raise UserError(f"kind {kind!r} is not a kind of ablation; {near(str(kind), KINDS)}")
    opened = open_model(model, tokenizer, for_="intervene", device=device, trust_code=trust_code)
    chosen = circuit_heads(opened.decoder, heads, draws)
    texts = two_inputs(opened, text, reference, targets, sequences=sequences, length=length)
    with evaluating(opened.module):
        work = _batched(opened, *texts, over, seed, lambda _: None)
        return work.faithfulness(chosen, kinds=(kind,), draws=draws, seed=seed)[kind]


def circuit_heads(model: "Intervenable", heads: Sequence[str], draws: int = 1) -> list[Head]:
    """Return the heads that a user names, as a circuit of a model.

    Raises:
        UserError: if a name is no head, or the heads are no circuit of the model.
    """
    from headway.causal.faithfulness import check_circuit

    chosen = []
    for name in [heads] if isinstance(heads, str) else heads:
        head = re.fullmatch(r"L(\d+)H(\d+)", str(name))
        if not head:
            raise UserError(f"heads: {name!r} is not a head; write L0H3, layer and head from 0")
        chosen.append((int(head[1]), int(head[2])))
    check_circuit(model, chosen, draws)
    return chosen


_ALIKE, _IMPORTANT = 5, 5
"""Pairs that are most alike, and heads whose pairs are looked at because they matter most."""
_SUSPECTS, _LOWERING, _SEARCHED = 4, 2, 8
"""Heads that a search suspects to be redundant, heads that lower the loss when removed, and both with the heads of the
largest effects: so many are removed in pairs."""
_OUTPUTS = "output_dissimilarity"
_NOTICED = 0.05
"""The share of an effect from which on the reference's own error in it is told."""


def ablate(
    model: "str | Path | torch.nn.Module | Opened",
    *,
    text: "str | Path | TokenIds | TextInput | None" = None,
    reference: "str | Path | TokenIds | TextInput | None" = None,
    targets: "str | Path | TokenIds | None" = None,
    mean: str = "positions",
    pairs: bool = False,
    circuit: Sequence[str] | None = None,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
    tell: Callable[[str], object] = lambda _: None,
) -> Ablation:
    """Ablate every head of a finished model in three ways, and measure the loss of a text.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or a decoder in memory: Headway's own, one
            of transformers, or one that `headway.open_model` opened.
        text: a text file with `<|endoftext|>` between documents, or any other corpus that a task can name; or
            (sequence, pos) tokens; None: the evaluation data of the run.
        reference: another text, whose contexts substitute for heads; None: the text's further sequences.
        targets: the target at each of the text's tokens, -1 for none; None: every next token.
        mean: the mean of a head is over `positions` (and sequences) of the other text, or over its sequences
            `per-position`.
        pairs: True to measure the interactions of all pairs of heads. Redundant pairs are named in any case.
        circuit: heads such as `["L0H3", "L1H0"]`; the share of the loss that they keep alone is measured.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers.
        sequences: the largest number of sequences of each text; None: 8,192 tokens, and at least 32.
        length: the tokens of a sequence; None: the model's context, at most 256.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: the random seed of the choice of donors, the sequences whose contexts substitute for heads.
        trust_code: True to run code that comes with a Hugging Face folder, if the folder needs it.
        tell: the function that is given the expected time, if it is long.

    Raises:
        UserError: if the model or text cannot be opened or measured; if the heads are no circuit; if the model fails a
            check of its interventions, which is named.
    """
    from headway.causal.substitutes import check_mean_over, heads_of

    over = check_mean_over(mean)
    source = own_text(model) if text is None else text
    if isinstance(source, TextInput):
        source.check_tokens(model, "effects of heads are on a loss of")
    opened = open_model(model, tokenizer, for_="intervene", device=device, trust_code=trust_code)
    own, other = two_inputs(opened, source, reference, targets, sequences=sequences, length=length)
    chosen = None if circuit is None else circuit_heads(opened.decoder, circuit)
    with evaluating(opened.module):
        work = _batched(opened, own, other, over, seed, tell)
        n_heads = counted(len(heads_of(work.model)), "head")
        tell(f"ablating {n_heads} one by one, and all together, by three methods ...")
        exact, estimates, integrated = work.exact(), work.attributed(), work.integrated()
        alike, attentions = _alike(work)
        names = {attention.layer: attention.name for attention in attentions}
        repair = _together(work, exact, alike, names)
        return AblationTogether(
            **own.facts(opened),
            attentions=tuple(map(described, attentions)),
            scores=effect_scores(names, exact, estimates.michel, estimates.first_order, integrated),
            notes=(*_notes(opened, own, other), *_about_reference(work, exact, other)),
            other=other.name,
            mean_over=over,
            exact=exact,
            michel=estimates.michel,
            first_order=estimates.first_order,
            integrated=integrated,
            pairs=repair.pairs if pairs and repair is not None else None,
            circuit=None if chosen is None else work.faithfulness(chosen, seed=seed),
            repair=repair,
        )


def _batched(
    opened: Opened, own: TextInput, other: TextInput, mean: MeanOver, seed: int, tell: Callable[[str], object]
) -> "BatchedText":
    """Read the other text, of a model that passed its checks."""
    from headway.causal.ablation import BatchedText

    inputs, targets = own.tensors(opened)
    assert targets is not None, "a loss has targets"
    others = inputs if other.inputs is own.inputs else opened.on_device(other.tokens)
    # Sequences are the units of intervals where they are documents, and of too few documents.
    documents = own.documents if LEAST <= _n_documents(own) < len(own) else None
    work = BatchedText.read(opened.decoder, inputs, targets, others, mean_over=mean, seed=seed)
    return replace(work, tell=tell, documents=documents)


def _n_documents(own: TextInput) -> int:
    return len(own) if own.documents is None else len(np.unique(own.documents))


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


def _together(
    work: "BatchedText", exact: ExactEffects, alike: "HeadScores", names: Mapping[int, str]
) -> SelfRepair | None:
    """Measure what several heads do together; None of a single head."""
    from headway.causal.substitutes import heads_of

    every, up, down = heads_of(work.model), heads_beyond(exact, 1), heads_beyond(exact, -1)
    if len(every) < 2:
        return None
    cosine = _cosines(alike, names)
    most_alike = sorted(cosine, key=lambda pair: -cosine[pair])[:_ALIKE]
    by_size = _by_size(exact)
    others = tuple(head for head in every if head not in up)
    suspects = _suspects(work, up, others)
    searched = list(dict.fromkeys([*suspects, *down[:_LOWERING], *by_size]))[:_SEARCHED]
    why = dict.fromkeys(most_alike, "alike")
    for reason, heads in (("important", by_size[:_IMPORTANT]), ("searched", searched)):
        for pair in combinations(sorted(heads), 2):
            why.setdefault(pair, reason)
    strong = heads_beyond(exact, 1, -1)
    sets = [*why, strong, others, *_all_but_one(others, suspects)]
    by_kind, n = work.without(sets), len(why)
    of_strong, of_others, *of_rest = [{kind: by_kind[kind][at] for kind in KINDS} for at in range(n, len(sets))]
    left_in, interactions = dict(zip(suspects, of_rest, strict=True)), {}
    for kind in KINDS:
        alone = [sum_of_singles(exact, pair, kind) for pair in why]
        interactions[kind] = by_kind[kind][:n] - np.array(alone)
    return SelfRepair(
        exact=exact,
        pairs=PairEffects(
            heads=tuple(why),
            why=tuple(why.values()),
            cosine=tuple(cosine.get(pair, float("nan")) for pair in why),
            per_sequence=interactions,
            tokens=exact.tokens,
        ),
        named=GroupEffect(heads=strong, joint=of_strong, left_in={}) if len(strong) > 1 else None,
        others=GroupEffect(heads=others, joint=of_others, left_in=left_in) if len(others) > 1 else None,
    )


def _cosines(alike: "HeadScores", names: Mapping[int, str]) -> dict[tuple[Head, Head], float]:
    """Return the cosine of what every two heads of a layer write."""
    cosines = {}
    for layer, name in names.items():
        unlike = alike.values[name]
        for i, j in np.argwhere(np.triu(np.isfinite(unlike), 1)).tolist():
            cosines[(layer, i), (layer, j)] = -float(unlike[i, j])
    return cosines


def _suspects(work: "BatchedText", strong: tuple[Head, ...], others: tuple[Head, ...]) -> tuple[Head, ...]:
    """Return heads whose effect grows most when other heads are gone: all the others, or those that are named.

    The search reads the first sequences alone, with heads at their mean.
    """
    singles = [(head,) for head in others]
    added = [(*strong, head) for head in others]
    nats = work.first_without([others, strong, *singles, *_all_but_one(others, others), *added])
    without_others, without_strong = nats[:2]
    alone, left_in, added_to_strong = np.split(nats[2:], 3)
    grows = np.maximum(without_others - left_in, added_to_strong - without_strong) - alone
    return tuple(others[at] for at in np.argsort(-grows)[:_SUSPECTS] if grows[at] > MATTERS)


def _all_but_one(heads: tuple[Head, ...], left_in: Sequence[Head]) -> list[tuple[Head, ...]]:
    return [tuple(head for head in heads if head != one) for one in left_in]


def _by_size(exact: ExactEffects) -> list[Head]:
    """Return the heads, those first whose removal at their mean changes the loss most."""
    return [head for head, _ in sorted(exact.single["mean"].heads(), key=lambda pair: -abs(pair[1]))]


def _notes(opened: Opened, own: TextInput, other: TextInput) -> Iterator[str]:
    """Yield sentences on the limits of the numbers."""
    assert own.targets is not None
    asked = int((own.targets >= 0).sum())
    if asked < own.size:
        yield say("few_answers", n=asked, all=own.size)
    n = _n_documents(own)
    if n < min(LEAST, len(own)):
        yield say("few_documents", n=n, sequences=len(own))
    if len(own) < LEAST:
        yield say("few_for_skew", n=len(own), least=LEAST)
    if len(other) < len(own):
        yield say("few_others", n=len(other), sequences=len(own))
    if opened.kind == "future":
        yield say("sees_later")


def _about_reference(work: "BatchedText", exact: ExactEffects, other: TextInput) -> Iterator[str]:
    """Yield how far the reference's own error moves the effects of the heads that matter most at their mean."""
    effect, errors = dict(exact.single["mean"].heads()), work.reference_error(_by_size(exact)[:_IMPORTANT])
    told = {
        head: more
        for head, (more, error) in errors.items()
        if abs(more) > max(2 * error, _NOTICED * abs(effect[head])) and abs(effect[head]) > MATTERS
    }
    if told:
        most = max(told, key=lambda each: abs(told[each]))
        more = told[most]
        yield say(
            "reference_error",
            n=len(other),
            head=named(most),
            quarter=effect[most] + more,
            effect=effect[most],
            least=more / 3,
            most=more,
        )
    elif not errors and other.size < LOSS_TOKENS:
        yield say("short_reference", n=other.size)

"""Heads: what stands out among the heads of a model, in sentences: special heads, alike ones and idle ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.heads.grouped import within_and_between
from headway.heads.names import head_names
from headway.heads.scores import Composition, HeadScores
from headway.words import counted

NAMED = 5
"""So many heads are named at most."""
COMPOSITIONS = {"q": "into queries", "k": "into keys", "v": "into values"}
"""The kinds of composition, and what a later head reads into."""
_STANDS_OUT = 1.5
"""From so many times the random value on a pair is named."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence on some heads; `about` is the metric it comes from."""

    about: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class _Special:
    """Heads that do one known thing: what they are called, and from which score on."""

    metric: str
    called: str
    least: float


SPECIAL = (
    _Special(metric="induction_score", called="induction head", least=0.4),
    _Special(metric="previous_token_score", called="previous-token head", least=0.4),
    _Special(metric="duplicate_token_score", called="duplicate-token head", least=0.4),
    _Special(metric="positional_score", called="positional head", least=0.9),
    _Special(metric="sink_score", called="head that rests on the first token", least=0.5),
)
"""Fixed thresholds, which sentences name, and a head must also be at twice its null; the score of others is said."""


def findings(
    scores: Mapping[str, HeadScores],
    labels: Mapping[str, str],
    kv_of: Mapping[str, Sequence[int]] | None = None,
    composition: Composition | None = None,
) -> list[Finding]:
    """What stands out, for every metric that there is.

    Args:
        scores: by metric.
        labels: what each attention is called.
        kv_of: the KV head of each head, by attention.
        composition: how much of what each head writes later heads read, where that is known.
    """
    found = [
        Finding(about=special.metric, sentence=sentence)
        for special in SPECIAL
        if special.metric in scores and (sentence := _special(scores[special.metric], labels, special))
    ]
    for metric, alike in (("output_dissimilarity", _alike_outputs), ("query_cka_centred", _alike_queries)):
        if metric in scores and (pairs := list(_pairs(scores[metric], labels))):
            found.append(Finding(about=metric, sentence=alike(pairs)))
    if kv_of and "output_dissimilarity" in scores and (grouped := _grouped(scores["output_dissimilarity"], kv_of)):
        found.append(Finding(about="output_dissimilarity", sentence=grouped))
    if "output_share" in scores and (idle := _idle(scores["output_share"].values, labels)):
        found.append(Finding(about="output_share", sentence=idle))
    return [*found, *([] if composition is None else strongest(composition, labels))]


def strongest(found: Composition, labels: Mapping[str, str]) -> list[Finding]:
    """The pairs that compose most, a sentence for each kind that stands out of what is at random."""
    said = []
    for kind, where in COMPOSITIONS.items():
        table = np.nan_to_num(np.asarray(getattr(found, kind)), nan=-1.0)
        order = np.argsort(table, axis=None)[::-1][:3]
        pairs = [divmod(int(at), table.shape[1]) for at in order]
        named = [
            (table[i, j], found.heads[i], found.heads[j]) for i, j in pairs if table[i, j] > _STANDS_OUT * found.null
        ]
        if named:
            each = ", ".join(
                f"{labels[one]}H{head} → {labels[other]}H{reader} {brief(value)}"
                for value, (one, head), (other, reader) in named
            )
            sentence = f"strongest {kind.upper()}-composition ({where}): {each} (at random {brief(found.null)})"
            said.append(Finding(about=f"{kind}_composition", sentence=sentence))
    return said


def brief(value: float) -> str:
    """A score to two digits after the point, without a leading 0.

    Examples:
        >>> brief(0.893), brief(-0.1), brief(1.0), brief(-0.001)
        ('.89', '−.10', '1.00', '.00')
    """
    text = f"{value + 0.0:.2f}".replace("-0.00", "0.00")
    return text.replace("0.", ".", 1).replace("-", "−") if abs(value) < 1 else text.replace("-", "−")


def _special(score: HeadScores, labels: Mapping[str, str], special: _Special) -> str:
    heads: list[tuple[float, float, str]] = []
    for attention, values in score.per_head().items():
        nulls = np.broadcast_to(score.null.get(attention, np.nan), np.shape(values))
        named = zip(values, nulls, head_names(labels[attention], len(values)), strict=True)
        heads += [(float(value), float(null), name) for value, null, name in named if np.isfinite(value)]
    heads.sort(key=lambda head: -head[0])
    if not heads:
        return ""
    enough = [head for head in heads if head[0] >= special.least and not head[0] < 2 * head[1]]
    if not enough:
        value, null, name = heads[0]
        return f"no {special.called} (from {brief(special.least)} on): {name} is highest, {brief(value)}{_even(null)}"
    said = ", ".join(f"{name} {brief(value)}" for value, _, name in enough[:NAMED])
    more = f" and {len(enough) - NAMED} more" if len(enough) > NAMED else ""
    noun = special.called.replace("head", "heads", 1) if len(enough) > 1 else special.called
    noun = noun.replace("that rests", "that rest") if len(enough) > 1 else noun
    even = _even(float(np.mean([head[1] for head in enough])))
    return f"{len(enough)} {noun} (from {brief(special.least)} on): {said}{more}{even}"


def _even(null: float) -> str:
    return f" (even {brief(null)})" if np.isfinite(null) else ""


def _pairs(score: HeadScores, labels: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """The value of each pair of heads of one attention, and its name."""
    for attention, value in score.values.items():
        names = head_names(labels[attention], len(value))
        for i, j in zip(*np.triu_indices(len(value), k=1), strict=True):
            if np.isfinite(value[i, j]):
                yield float(value[i, j]), f"{names[i]} and {names[j].removeprefix(labels[attention])}"


def _alike_outputs(pairs: Sequence[tuple[float, str]]) -> str:
    first = sorted(pairs)[:3]
    said = ", ".join(f"{name} (cosine {brief(-value)})" for value, name in first)
    mean = -float(np.mean([value for value, _ in pairs]))
    return f"most alike outputs: {said}; the mean of {counted(len(pairs), 'pair')} is {brief(mean)}"


def _alike_queries(pairs: Sequence[tuple[float, str]]) -> str:
    first = sorted(pairs, reverse=True)[:3]
    said = ", ".join(f"{name} (CKA {brief(value)})" for value, name in first)
    return f"most alike queries: {said}; the mean is {brief(float(np.mean([value for value, _ in pairs])))}"


def _grouped(score: HeadScores, kv_of: Mapping[str, Sequence[int]]) -> str:
    """How alike outputs are of heads that share keys and values, and of those that do not; the mean over layers."""
    found = [within_and_between(value, kv_of[attention]) for attention, value in score.values.items()]
    both = np.array([means for means in found if np.isfinite(means).all()])
    if not len(both):
        return ""
    within, between = -both.mean(0)
    return (
        f"heads that share their keys and values write at a cosine of {brief(within)} in the mean, those that do not "
        f"at {brief(between)}"
    )


def _idle(shares: Mapping[str, np.ndarray], labels: Mapping[str, str]) -> str:
    """The heads that add least to the stream, measured by an even share of their layer, and layers without any."""
    dead = [labels[attention] for attention, values in shares.items() if not np.any(values)]
    silent = f"the heads of {', '.join(dead)} add nothing to the stream at all" if dead else ""
    heads = [
        (float(share) * len(values), float(share), len(values), name)
        for attention, values in shares.items()
        for share, name in zip(values, head_names(labels[attention], len(values)), strict=True)
        if len(values) > 1 and np.any(values) and np.isfinite(share)
    ]
    if not heads:
        return silent
    heads.sort()
    said = ", ".join(
        f"{name} ({_percent(share)} % of its layer, even {_percent(1 / n)} %)" for _, share, n, name in heads[:3]
    )
    idle = sum(relative < 0.1 for relative, *_ in heads)
    more = f"; {counted(idle, 'head')} below a tenth of the even share" if idle > 3 else ""
    return "; ".join(filter(None, (silent, f"most idle, by what they add to the stream: {said}{more}")))


def _percent(share: float) -> str:
    return f"{100 * share:.3g}" if share >= 0.1 else f"{100 * share:.2g}"

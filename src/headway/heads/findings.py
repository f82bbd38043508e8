"""Findings: special, alike and idle heads of a model, in sentences, each with its chance under untrained heads.

Heads are compared with untrained heads on the same stream. On models that learnt nothing, at most 5 % of pages
should have a finding; over 25 kinds of initial weights 7 % had one. The 5 % are split evenly among the kinds of
finding, and within a kind among the layers (or, for compositions, the pairs) searched.

A layer is searched for its highest head (or pair), so the null is the highest head of each draw of untrained heads.
That corrects for the number of heads, however they depend on one another. There are few draws and the chances are
small, so the highest of a layer are taken to have a Gumbel distribution, as maxima of many light-tailed values have, on
a scale without bounds: the logit of a share, the inverse hyperbolic tangent of a cosine. The chance allows for the
estimation of its two parameters. For an untrained layer, which is one more draw, the chance is uniform. As a safeguard
it is never below 1 / (draws + 1) if one draw's highest is not exceeded.

One search covers every metric at once: how far each head's value lies from the same head's re-initialised values. The
largest distance of all is compared with the largest distance of each draw from the others.

Numpy alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from headway.base.text import counted, decimal, number, some_names
from headway.config.metrics import metric_name
from headway.heads.scores import (
    FAMILY_WISE,
    LEAST_SPREAD,
    Composition,
    HeadScores,
    Scale,
    chance,
    head_names,
    threshold,
    unbounded_of,
)

NAMED = 5
"""The most heads or pairs that a sentence names."""
COMPOSITIONS = {"q": "into queries", "k": "into keys", "v": "into values"}
"""The kinds of composition, each with the input of the later head."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence about some heads.

    Attributes:
        about: the metric that the finding comes from.
        sentence: the finding in words: what stands out, or that nothing does.
        p: the chance of so much anywhere on the page of a model that learnt nothing; None where there is none, as of
            heads that do exactly nothing.
        found: True if something stands out.
        heads: the names of special heads that clearly stand out by that metric, highest first.
        named: the names of all heads in the sentence.
    """

    about: str
    sentence: str
    p: float | None = None
    found: bool = True
    heads: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Special:
    """Heads with one known behaviour: their name, the least score of a finding, and the metrics by what is read."""

    called: str
    least: float
    on: Mapping[str, str]


_DRAWN, _OWN = "on repeated tokens drawn from the text", "on the text's own repeats"
SPECIAL = (
    _Special(called="induction heads", least=0.4, on={"induction_score": _DRAWN, "text_induction_score": _OWN}),
    _Special(called="previous-token heads", least=0.4, on={"previous_token_score": ""}),
    _Special(
        called="duplicate-token heads", least=0.4, on={"duplicate_token_score": _DRAWN, "text_duplicate_score": _OWN}
    ),
    _Special(called="neighbour heads", least=0.9, on={"positional_score": ""}),
    _Special(called="heads with a fixed pattern", least=0.5, on={"fixed_pattern_score": ""}),
    _Special(called="heads that rest on the first token", least=0.5, on={"sink_score": ""}),
)
"""The special heads with their least scores.

A head's interval must lie above. The head must also exceed untrained heads on the same stream, and, on the text's own
repeats, what its positions alone give.
"""
_BEYOND_PLACE = 0.2
"""The least score beyond what positions alone give."""
_ALIKE_OUTPUTS, _ALIKE_QUERIES, _IDLE, _COMPOSED = 0.2, 0.1, 0.25, 1.1
"""The limits of a finding: least centred cosine of outputs, CKA above untrained heads', share of an even share,
multiple of chance.
"""
_CONSTANT = 0.9
"""The share of its squared output from which on a head is said to add a constant, and is like no other head."""
_CARRIED, _CARRIED_NATS = 0.1, 0.5
"""The least share of a composed path in a head's score on the text, or in its output, and of the score in nats."""


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A head or a pair with its score, its chance on a page, and the mean score of untrained ones of its layer.

    Of a head also the ends of its interval over texts, which are the score where there is none; and what its positions
    alone give.
    """

    value: float
    p: float
    untrained: float
    heads: tuple[str, ...]
    low: float = np.nan
    high: float = np.nan
    by_place: float = np.nan

    @property
    def name(self) -> str:
        """The names of its heads."""
        return " and ".join(self.heads)


def _names(found: Iterable[_Found]) -> tuple[str, ...]:
    return tuple(head for each in found for head in each.heads)


def _each(label: str, n: int) -> list[tuple[str, ...]]:
    """Return the names of an attention's heads, each on its own."""
    return [(name,) for name in head_names(label, n)]


def _both(label: str, n: int) -> list[tuple[str, ...]]:
    """Return the names of an attention's pairs of heads."""
    names = head_names(label, n)
    return [(names[i], names[j]) for i, j in zip(*np.triu_indices(n, k=1), strict=True)]


def findings(
    scores: Mapping[str, HeadScores],
    labels: Mapping[str, str],
    composition: Composition | None = None,
) -> list[Finding]:
    """Return the result of every search, in the order of kinds.

    Special heads also have a result if none stands out.

    Args:
        scores: the scores by metric.
        labels: the label of each attention.
        composition: the composition of earlier heads with later ones, if it is known.
    """
    kinds: list[Callable[[int], Finding | None]] = [
        partial(
            _special, {on: scores[metric] for metric, on in special.on.items() if metric in scores}, labels, special
        )
        for special in SPECIAL
        if special.on.keys() & scores.keys()
    ]
    constant = _values(scores, "output_constant_share")
    # A search that cannot speak takes no part of the 5 %.
    if _several(scores, "output_correlation"):
        kinds.append(partial(_alike_outputs, _of_varying(scores["output_correlation"], constant), labels))
    if _several(scores, "query_cka_centred"):
        kinds.append(partial(_alike_queries, scores["query_cka_centred"], labels))
    if _several(scores, "output_share"):
        kinds.append(partial(_idle, scores["output_share"], labels))
    if composition is not None:
        varying = _into_varying(composition, constant)
        kinds += [partial(_strongest, varying, labels, kind) for kind in COMPOSITIONS]
    kinds.append(lambda n: _beyond_redraws(scores, labels, n))
    results = [finding for kind in kinds if (finding := kind(len(kinds)))]
    dead = [labels[name] for name, share in _values(scores, "output_share").items() if not np.any(share)]
    if dead:
        results.append(
            Finding(about="output_share", sentence=f"the heads of {', '.join(dead)} add nothing to the stream")
        )
    if constant:
        results += _constant(scores["output_constant_share"], labels)
    return sorted(results, key=lambda finding: not finding.found)


def _values(scores: Mapping[str, HeadScores], metric: str) -> Mapping[str, np.ndarray]:
    return scores[metric].values if metric in scores else {}


def _several(scores: Mapping[str, HeadScores], metric: str) -> bool:
    """Return whether an attention with several heads has re-initialised ones."""
    return any(len(_values(scores, metric)[name]) > 1 for name in scores[metric].draws) if metric in scores else False


def _searched(
    value: np.ndarray, drawn: np.ndarray | None, names: Sequence[tuple[str, ...]], scale: Scale, tests: int
) -> Iterator[_Found]:
    """Yield each head or pair of a layer with its chance against the highest of each draw."""
    if drawn is None:
        yield from (_Found(value=float(v), p=1.0, untrained=np.nan, heads=n) for v, n in zip(value, names, strict=True))
        return
    known = np.where(np.isfinite(drawn), drawn, -np.inf)
    highest = known.max(1)
    mean = float(drawn[np.isfinite(drawn)].mean()) if np.isfinite(drawn).any() else np.nan
    for score, name in zip(value, names, strict=True):
        p = min(1.0, tests * chance(float(score), highest, scale))
        yield _Found(value=float(score), p=p, untrained=mean, heads=name)


def _special(
    scores: Mapping[str, HeadScores], labels: Mapping[str, str], special: _Special, kinds: int
) -> Finding | None:
    """Return the heads of one kind, by everything on which they are looked for."""
    found, every = list[str](), list[_Found]()
    silent, named = dict[str, list[_Found]](), dict[str, list[_Found]]()
    for on, score in scores.items():
        heads = _heads(score, labels, kinds * len(scores))
        every += [head for head in heads if head.high >= special.least] or heads[:1]
        enough = [head for head in heads if head.p <= FAMILY_WISE and head.low >= _least(head, special)]
        if enough:
            found.append(_said_of_heads(enough, heads, special, on, score))
            named[score.metric] = enough
        elif heads:
            silent[on] = heads
    highest = {on: _highest(heads, special) for on, heads in silent.items()}
    if found:
        also = [f"{on} {first}, and none is clear" for on, first in highest.items()]
        about, heads = next(iter(named.items()))
        p = min(head.p for enough in named.values() for head in enough)
        return Finding(about=about, sentence="; ".join([*found, *also]), p=p, heads=_names(heads), named=_names(every))
    if not silent:
        return None
    on, heads = next(iter(silent.items()))
    sentence = _none_of(special, silent, highest)
    return Finding(about=scores[on].metric, sentence=sentence, p=heads[0].p, found=False, named=_names(every))


def _none_of(special: _Special, silent: Mapping[str, list[_Found]], highest: Mapping[str, str]) -> str:
    clear = all(head.high < special.least for heads in silent.values() for head in heads)
    of_all = "; ".join(f"{on} {first}".strip() for on, first in highest.items())
    return f"{'no' if clear else 'no clear'} {special.called} (from {decimal(special.least)} on): {of_all}"


def _least(head: _Found, special: _Special) -> float:
    return max(special.least, head.by_place + _BEYOND_PLACE) if np.isfinite(head.by_place) else special.least


def _heads(score: HeadScores, labels: Mapping[str, str], tests: int) -> list[_Found]:
    """Return every head that has a score, highest first."""
    heads = []
    searched = [name for name, values in score.values.items() if np.isfinite(values).any()]
    for name in searched:
        values = score.values[name]
        names, drawn = _each(labels[name], len(values)), score.draws.get(name)
        unknown = np.full(len(values), np.nan)
        ends = np.where(np.isfinite(given := score.interval.get(name, unknown)), given, values)
        low, high = np.broadcast_to(ends, (2, len(values)))
        alone = score.by_place.get(name, unknown)
        for at, head in enumerate(_searched(values, drawn, names, "share", tests * len(searched))):
            heads.append(replace(head, low=float(low[at]), high=float(high[at]), by_place=float(alone[at])))
    return sorted((head for head in heads if np.isfinite(head.value)), key=lambda head: -head.value)


def _said_of_heads(
    enough: Sequence[_Found], heads: Sequence[_Found], special: _Special, on: str, score: HeadScores
) -> str:
    where = f"{special.called} {on}".strip()
    sentence = f"{where} (from {decimal(special.least)} on): {_named(enough)}{_beside(enough)}"
    others = [head for head in heads if head.high >= special.least and head not in enough]
    known = [head for head in others if head.value >= special.least and np.isfinite(head.untrained)]
    if chancy := [head for head in known if head.p > FAMILY_WISE]:
        sentence += f"; {_named(chancy)} may be chance, as far as {len(next(iter(score.draws.values())))} draws tell"
    if unclear := [head for head in others if head.p <= FAMILY_WISE]:
        sentence += f"; not clear: {_named(unclear)}{_beside(unclear)}"
    return sentence


def _highest(heads: Sequence[_Found], special: _Special) -> str:
    """Return which head is highest; digits enough to show that a score is below the least one."""
    first = heads[0]
    short = next((n for n in range(2, 9) if first.value >= special.least or round(first.value, n) < special.least), 9)
    sentence = f"{first.name} is highest, {decimal(first.value, short)}{_beside([first])}"
    reached = first.value >= special.least and np.isfinite(first.untrained) and first.p > FAMILY_WISE
    return sentence + (", and they may reach that" if reached else "")


def _named(heads: Sequence[_Found]) -> str:
    return some_names([f"{head.name} {decimal(head.value)}" for head in heads], NAMED)


def _beside(heads: Sequence[_Found]) -> str:
    """Return intervals, and what untrained heads and positions alone give, in parentheses."""
    first, lowest = heads[0], min(head.low for head in heads)
    interval = f" {decimal(first.low)} to {decimal(first.high)}" if len(heads) == 1 else f"s from {decimal(lowest)} on"
    parts = [f"95 % CI{interval}"] if any(head.low < head.high for head in heads) else []
    means = {"untrained": [head.untrained for head in heads], "positions alone": [head.by_place for head in heads]}
    parts += [f"{said} {decimal(float(np.mean(of)))}" for said, of in means.items() if np.isfinite(of).all()]
    return f" ({'; '.join(parts)})" if parts else ""


def _of_varying(score: HeadScores, constant: Mapping[str, np.ndarray]) -> HeadScores:
    """Return a score of pairs, NaN for pairs with a head that adds a constant."""
    varies = {name: np.where(share < _CONSTANT, 0, np.nan) for name, share in constant.items()}
    known = {name: np.add.outer(varies[name], varies[name]) if name in varies else 0 for name in score.values}
    return replace(score, values={name: value + known[name] for name, value in score.values.items()})


def _into_varying(composition: Composition, constant: Mapping[str, np.ndarray]) -> Composition:
    """Return compositions without shares in what heads that add a constant write."""
    varies = [name not in constant or constant[name][head] < _CONSTANT for name, head in composition.heads]
    shares = {kind: np.where(varies, x, np.nan) if kind == "v" else x for kind, x in composition.shares.items()}
    return replace(composition, shares=shares)


def _constant(score: HeadScores, labels: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a result that names the heads with a constant output, which heads that learnt nothing may have, too."""
    heads = [
        head
        for name, share in score.values.items()
        for head in _searched(share, score.draws.get(name), _each(labels[name], len(share)), "share", 1)
        if head.value >= _CONSTANT
    ]
    if heads:
        heads.sort(key=lambda head: -head.value)
        start = f"heads that add a constant (from {decimal(_CONSTANT)} of the squared output on)"
        yield Finding(
            about=score.metric,
            sentence=f"{start}: {_named(heads)}{_beside(heads)}",
            found=False,
            named=_names(heads),
        )


def _pairs(score: HeadScores, labels: Mapping[str, str], scale: Scale, kinds: int) -> list[_Found]:
    """Return every pair of different heads of an attention that was drawn anew, highest first."""
    searched = [name for name, value in score.values.items() if len(value) > 1 and name in score.draws]
    pairs: list[_Found] = []
    for attention in searched:
        value = score.values[attention]
        indices = np.triu_indices(len(value), k=1)
        called = _both(labels[attention], len(value))
        drawn = score.draws[attention][:, *indices]
        # Most pairs are far from standing out, and there may be many.
        pairs += _searched(value[indices], drawn, called, scale, kinds * len(searched))
    pairs = [pair for pair in pairs if np.isfinite(pair.value)]
    return sorted(pairs, key=lambda pair: -pair.value)


def _alike_outputs(score: HeadScores, labels: Mapping[str, str], kinds: int) -> Finding | None:
    pairs = _pairs(score, labels, "cosine", kinds)
    enough = [pair for pair in pairs if pair.value >= _ALIKE_OUTPUTS and pair.p <= FAMILY_WISE]
    return _said_of_pairs(enough, pairs, "outputs", "centred cosine", score.metric)


def _alike_queries(score: HeadScores, labels: Mapping[str, str], kinds: int) -> Finding | None:
    pairs = _pairs(score, labels, "share", kinds)
    enough = [pair for pair in pairs if pair.value >= pair.untrained + _ALIKE_QUERIES and pair.p <= FAMILY_WISE]
    return _said_of_pairs(enough, pairs, "queries", "CKA", score.metric)


def _said_of_pairs(
    enough: Sequence[_Found], pairs: Sequence[_Found], what: str, measure: str, about: str
) -> Finding | None:
    if not enough:
        return None
    mean = decimal(float(np.mean([pair.value for pair in pairs])))
    begun = f"alike {what} ({measure}): {_named(enough)}{_beside(pairs)}"
    sentence = f"{begun}; the mean of {counted(len(pairs), 'pair')} is {mean}"
    return Finding(about=about, sentence=sentence, p=min(pair.p for pair in enough), named=_names(enough))


def _idle(score: HeadScores, labels: Mapping[str, str], kinds: int) -> Finding | None:
    """Return the heads that add least to the stream, relative to an even share of their layer."""
    searched = [
        name for name, values in score.values.items() if len(values) > 1 and np.any(values) and name in score.draws
    ]
    heads = []
    for name in searched:
        values, drawn = (
            np.clip(x, 1e-9, None) * len(score.values[name]) for x in (score.values[name], score.draws[name])
        )
        of_layer = _searched(1 / values, 1 / drawn, _each(labels[name], len(values)), "size", kinds * len(searched))
        heads += [(head, len(values)) for head in of_layer if head.p <= FAMILY_WISE and 1 / head.value <= _IDLE]
    if not heads:
        return None
    heads.sort(key=lambda head: -head[0].value)
    listed = ", ".join(
        f"{head.name} ({decimal(100 / head.value / n, 1)} % of its layer, even {decimal(100 / n, 1)} %)"
        for head, n in heads[:3]
    )
    more = f" and {counted(len(heads) - 3, 'more head')}" if len(heads) > 3 else ""
    idle = [head for head, _ in heads]
    sentence = f"idle, by what they add to the stream: {listed}{more}"
    return Finding(about=score.metric, sentence=sentence, p=min(head.p for head in idle), named=_names(idle))


def _strongest(composition: Composition, labels: Mapping[str, str], kind: str, kinds: int) -> Finding | None:
    """Return the pairs that compose most, if they exceed circuits turned at random and carry the score on the text."""
    if kind not in composition.chances:
        return None
    table = np.asarray(getattr(composition, kind))
    chances = composition.chances[kind]
    tests = kinds * (1 + (kind in composition.drawn_nats))
    p = np.minimum(1, np.nan_to_num(chances * np.isfinite(chances).sum() * tests, nan=1.0))
    # Composition of weights alone is a number: the path must also carry what the later head does on the text.
    share = composition.shares.get(kind, np.full(table.shape, np.nan))
    carries = np.isfinite(table) & (share >= _CARRIED)
    if kind in composition.nats:
        carries &= composition.nats[kind] >= _CARRIED_NATS
    beyond = carries & (p <= FAMILY_WISE) & (table >= _COMPOSED * composition.null)
    by_weights = beyond.any()
    if not by_weights:
        p = _chances_of_paths(composition, kind, tests)
        beyond = carries & (p <= FAMILY_WISE)
    n = int(beyond.sum())
    if not n:
        return None
    order = np.argsort(np.where(beyond, table if by_weights else share, -1), axis=None)[::-1]
    pairs = [divmod(int(at), table.shape[1]) for at in order[:n][:3]]
    names = [f"{labels[attention]}H{head}" for attention, head in composition.heads]
    said_of = _path_by_weights if by_weights else _path_on_text
    listed = ", ".join(f"{names[i]} → {names[j]} {said_of(composition, kind, (i, j))}" for i, j in pairs)
    more = f" and {counted(n - 3, 'more pair')}" if n > 3 else ""
    start, at_random = ("strongest ", "at random") if by_weights else ("on the text, ", "weights turned at random")
    sentence = f"{start}{kind.upper()}-composition ({COMPOSITIONS[kind]}): {listed}{more}"
    sentence += f"; {at_random} {decimal(composition.null)}"
    named = tuple(names[head] for pair in pairs for head in pair)
    return Finding(about=f"{kind}_composition", sentence=sentence, p=float(p[beyond].min()), named=named)


def _path_by_weights(composition: Composition, kind: str, pair: tuple[int, int]) -> str:
    of = "output" if kind == "v" else "score"
    share = decimal(composition.shares[kind][pair])
    return f"{decimal(getattr(composition, kind)[pair])} ({share} of the {of} on the text)"


def _path_on_text(composition: Composition, kind: str, pair: tuple[int, int]) -> str:
    drawn = float(composition.drawn_nats[kind][:, *pair].mean())
    nats = f"{decimal(composition.nats[kind][pair])} nats, re-initialised {decimal(drawn)}"
    by_weights = f"by weights alone {decimal(getattr(composition, kind)[pair])}"
    return f"{decimal(composition.shares[kind][pair])} of the score ({nats}; {by_weights})"


def _chances_of_paths(composition: Composition, kind: str, tests: int) -> np.ndarray:
    """Return each path's chance: how often re-initialised heads of the later layer read so much from any head."""
    p = np.ones(np.shape(composition.q))
    if kind not in composition.drawn_nats:
        return p
    nats, drawn = composition.nats[kind], composition.drawn_nats[kind]
    layer_of = np.array([attention for attention, _ in composition.heads])
    known = np.isfinite(nats)
    later = [layer for layer in dict.fromkeys(layer_of) if known[:, layer_of == layer].any()]
    for layer in later:
        here = known & (layer_of == layer)
        highest = drawn[:, here].max(1)
        p[here] = [min(1.0, tests * len(later) * chance(each, highest, "size")) for each in nats[here]]
    return p


@dataclass(frozen=True, kw_only=True)
class _Distances:
    """Values of one metric at one attention, by head or pair, with their distances from re-initialised ones."""

    metric: str
    value: np.ndarray
    untrained: np.ndarray
    names: Sequence[tuple[str, ...]]
    own: np.ndarray
    drawn: np.ndarray
    """The distances of each draw from the other draws: (draw, head or pair)."""


_SCALES: Mapping[str, Scale] = {"0 to 1": "share", "-1 to 1": "cosine"}


def _beyond_redraws(scores: Mapping[str, HeadScores], labels: Mapping[str, str], kinds: int) -> Finding | None:
    """Return how many metrics of heads and pairs lie beyond re-initialised heads, and which lies furthest.

    Metrics read off weights alone are left out: they say how weights were initialised, not what a head does.
    """
    searched = [
        found
        for score in scores.values()
        if score.declared.of != "layer" and score.declared.family != "circuits"
        for attention in score.draws
        if len((found := _distances(score, attention, labels[attention])).own)
    ]
    if not searched or len(searched[0].drawn) < 4:
        return None
    highest = np.max([found.drawn.max(1) for found in searched], 0)
    beyond = threshold(highest, FAMILY_WISE / kinds, "size")
    n, m = sum(int((found.own >= beyond).sum()) for found in searched), sum(len(found.own) for found in searched)
    most = max(searched, key=lambda found: float(found.own.max()))
    at = int(most.own.argmax())
    furthest = (
        f"{' and '.join(most.names[at])}, whose {metric_name(most.metric)} is {number(float(most.value[at]), 2)} "
        f"against {number(float(most.untrained[at]), 2)}"
    )
    said = f"{n:,} of {m:,} metrics of heads and pairs differ from re-initialised heads, most of all {furthest}"
    if not n:
        said = (
            f"no metric of heads and pairs was found to differ from re-initialised heads ({m:,} metrics, "
            f"{len(highest)} draws); the largest difference is that of {furthest}"
        )
    p = min(1.0, kinds * chance(float(most.own[at]), highest, "size"))
    return Finding(about=most.metric, sentence=said, p=p, found=n > 0, named=most.names[at])


def _distances(score: HeadScores, attention: str, label: str) -> _Distances:
    """Return distances in standard deviations of draws, which the heads or pairs of an attention have in common.

    A draw is compared with the other draws alone, as the model's own heads are with heads that are not among them.
    """
    value, drawn = score.values[attention], score.draws[attention]
    names = _each(label, len(value))
    if value.ndim == 2:
        indices = np.triu_indices(len(value), k=1)
        names = _both(label, len(value))
        value, drawn = value[indices], drawn[:, *indices]
    known = np.isfinite(value) & np.isfinite(drawn).all(0)
    value, drawn, names = value[known], drawn[:, known], [name for name, here in zip(names, known, strict=True) if here]
    scale, n = _SCALES.get(score.declared.unit, "size"), len(drawn)
    unbounded = unbounded_of(drawn, scale)
    off = unbounded - unbounded.mean(0)
    squares, least = np.square(off), LEAST_SPREAD[scale] ** 2
    # The variance of the draws that are left when one is taken out, and that draw's distance from their mean.
    others = (squares.sum(0) - squares * n / (n - 1)) / max(1, n - 2)
    spread = np.sqrt(np.maximum(squares.sum(0).mean() / (n - 1) if names else 1.0, least))
    spreads = np.sqrt(np.maximum(others.mean(1, keepdims=True) if names else 1.0, least))
    return _Distances(
        metric=score.metric,
        value=value,
        untrained=drawn.mean(0),
        names=names,
        own=np.abs(unbounded_of(value, scale) - unbounded.mean(0)) / spread,
        drawn=np.abs(off) * n / (n - 1) / spreads,
    )

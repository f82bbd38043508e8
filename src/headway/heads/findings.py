"""Findings: special, alike and idle heads of a model, as values, each with its chance under untrained heads.

Heads are compared with untrained heads on the same stream. On models that learnt nothing, at most 5 % of pages
should have a finding; over 25 kinds of initial weights 4.7 % had one. The 5 % are split evenly among the kinds of
finding, and within a kind among the layers (or, for compositions, the pairs) searched.

A layer is searched for its highest head (or pair), so the null is the highest head of each draw of untrained heads.
That corrects for the number of heads, however they depend on one another. There are few draws and the chances are
small, so the highest of a layer are taken to have a Gumbel distribution, as maxima of many light-tailed values have, on
a scale without bounds: the logit of a share, the inverse hyperbolic tangent of a cosine. `chance` computes the chance
of a value, and allows for the estimation of the two parameters. For an untrained layer, which is one more draw, the
chance is uniform. As a safeguard it is never below 1 / (draws + 1) if one draw's highest is not exceeded.

One search covers every metric at once: how far each head's value lies from the same head's re-initialised values. The
largest distance of all is compared with the largest distance of each draw from the others.

Numpy alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, compress
from typing import Any, Literal

import numpy as np

from headway.base import words
from headway.base.words import HeadStatement, Part, statement
from headway.config.metrics import metric_name
from headway.heads.scores import ByAttention, Composition, HeadScores, head_names

COMPOSITIONS = {"q": "into queries", "k": "into keys", "v": "into values"}
"""The kinds of composition, each with the input of the later head."""

FAMILY_WISE = 0.05
"""The chance that a page of an untrained model has any finding."""
Scale = Literal["share", "cosine", "size"]
_SAMPLES = 40_000
LEAST_SPREAD = {"share": 0.1, "cosine": 0.02, "size": 0.02}
"""The least spread of maxima on the unbounded scale, since few draws may agree by accident."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A result about some heads: what stands out, or that nothing does.

    Attributes:
        about: the metric that the finding comes from.
        statements: its sentences.
        p: the chance of so much anywhere on the page of a model that learnt nothing; None where there is none, as of
            heads that do exactly nothing.
        found: True if something stands out.
        heads: the names of special heads that clearly stand out by that metric, highest first.
    """

    about: str
    statements: tuple[HeadStatement, ...]
    p: float | None = None
    found: bool = True
    heads: tuple[str, ...] = ()

    @property
    def parts(self) -> list[Part]:
        """The pieces of its sentences, each with the head that it names; None for the rest."""
        parts = list[Part]()
        for each in self.statements:
            parts += [(" ", None), *each.parts]
        return parts[1:]

    @property
    def sentence(self) -> str:
        """Its sentences."""
        return " ".join(each.sentence for each in self.statements)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values: the sentences, the heads that they name, and the values of each."""
        named = [head for _, head in self.parts if head]
        return {**asdict(self), "sentence": self.sentence, "named": named}


SPECIAL = {
    ("induction_score", "text_induction_score"): 0.4,
    ("previous_token_score",): 0.4,
    ("duplicate_token_score", "text_duplicate_score"): 0.4,
    ("positional_score",): 0.9,
    ("fixed_pattern_score",): 0.5,
    ("sink_score",): 0.5,
}
"""The least score of heads with a known behaviour, by the metrics that show it.

A head's interval must lie above. The head must also exceed untrained heads on the same stream, and, on the text's own
repeats, what its positions alone give.
"""
_BEYOND_PLACE = 0.2
"""The least score beyond what positions alone give."""
_ALIKE_OUTPUTS, _ALIKE_QUERIES, _IDLE, _COMPOSED = 0.2, 0.1, 0.25, 1.1
"""The limits of a finding: least centred cosine of outputs, CKA above untrained heads', share of an even share,
multiple of chance.
"""
_CAUTIOUS = FAMILY_WISE / 5
"""The chance from which on heads are said to be alike, and metrics to differ: initialisations differ from their
re-initialised heads by more than these do from one another.
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


def _named(label: str, n: int, together: int = 1) -> list[tuple[str, ...]]:
    """Return the names of an attention's heads, each on its own, or of its pairs of heads."""
    return list(combinations(head_names(label, n), together))


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
        partial(_special, [scores[metric] for metric in metrics if metric in scores], labels, least)
        for metrics, least in SPECIAL.items()
        if not scores.keys().isdisjoint(metrics)
    ]
    constant = _values(scores, "output_constant_share")
    # A search that cannot speak takes no part of the 5 %.
    if _several(scores.get("output_correlation")):
        outputs = _of_varying(scores["output_correlation"], constant)
        kinds.append(partial(_alike, outputs, labels, "cosine", lambda _: _ALIKE_OUTPUTS))
    if _several(scores.get("query_cka_centred")):
        queries = scores["query_cka_centred"]
        kinds.append(partial(_alike, queries, labels, "share", lambda pair: pair.untrained + _ALIKE_QUERIES))
    if _several(scores.get("output_share")):
        kinds.append(partial(_idle, scores["output_share"], labels))
    if composition is not None:
        varying = _into_varying(composition, constant)
        kinds += [partial(_strongest, varying, labels, kind) for kind in COMPOSITIONS]
    kinds.append(lambda n: _beyond_redraws(scores, labels, n))
    results = [finding for kind in kinds if (finding := kind(len(kinds)))]
    dead = [labels[name] for name, share in _values(scores, "output_share").items() if not np.any(share)]
    if dead:
        nothing = statement("no_output", layers=", ".join(dead))
        results.append(Finding(about="output_share", statements=(nothing,)))
    if constant:
        results += _constant(scores["output_constant_share"], labels)
    return sorted(results, key=lambda finding: not finding.found)


def _values(scores: Mapping[str, HeadScores], metric: str) -> ByAttention:
    return scores[metric].values if metric in scores else {}


def _several(score: HeadScores | None) -> list[str]:
    """Return the attentions with several heads that were re-initialised."""
    return [] if score is None else [name for name in score.draws if len(score.values[name]) > 1]


def _searched(
    value: np.ndarray, drawn: np.ndarray | None, names: Sequence[tuple[str, ...]], scale: Scale, tests: int
) -> Iterator[_Found]:
    """Yield each head or pair of a layer with its chance against the highest of each draw."""
    if drawn is None:
        drawn = np.empty((0, len(value)))
    known = np.where(np.isfinite(drawn), drawn, -np.inf)
    highest = known.max(1)
    mean = float(drawn[np.isfinite(drawn)].mean()) if np.isfinite(drawn).any() else np.nan
    for score, name in zip(value, names, strict=True):
        p = min(1.0, tests * chance(float(score), highest, scale))
        yield _Found(value=float(score), p=p, untrained=mean, heads=name)


def _special(scores: Sequence[HeadScores], labels: Mapping[str, str], least: float, kinds: int) -> Finding | None:
    """Return the heads of one kind, by each metric that shows it; the first metric with such heads names them."""
    found, silent = list[HeadStatement](), list[HeadStatement]()
    about, names, chances = "", tuple[str, ...](), list[float]()
    first: tuple[str, float] | None = None
    for score in scores:
        heads = _heads(score, labels, kinds * len(scores))
        # What positions alone give is NaN where it is not known.
        clear = [head for head in heads if head.low >= np.fmax(least, head.by_place + _BEYOND_PLACE)]
        enough = [head for head in clear if head.p <= FAMILY_WISE]
        if enough:
            if not names:
                about, names = score.metric, tuple(head.heads[0] for head in enough)
            chances += [head.p for head in enough]
            found += _found_special(enough, heads, least, score)
        elif heads:
            first = first or (score.metric, heads[0].p)
            silent += _none_special(heads, least, score.metric)
    if names:
        return Finding(about=about, statements=(*found, *silent), p=min(chances), heads=names)
    if first:
        return Finding(about=first[0], statements=tuple(silent), p=first[1], found=False)
    return None


def _heads(score: HeadScores, labels: Mapping[str, str], tests: int) -> list[_Found]:
    """Return every head that has a score, highest first."""
    heads = []
    searched = [name for name, values in score.values.items() if np.isfinite(values).any()]
    for name in searched:
        values = score.values[name]
        names, drawn = _named(labels[name], len(values)), score.draws.get(name)
        unknown = np.full(len(values), np.nan)
        ends = np.where(np.isfinite(given := score.interval.get(name, unknown)), given, values)
        low, high = np.broadcast_to(ends, (2, len(values)))
        alone = score.by_place.get(name, unknown)
        for at, head in enumerate(_searched(values, drawn, names, "share", tests * len(searched))):
            heads.append(replace(head, low=float(low[at]), high=float(high[at]), by_place=float(alone[at])))
    return _highest_first(heads)


def _found_special(
    enough: Sequence[_Found], heads: Sequence[_Found], least: float, score: HeadScores
) -> Iterator[HeadStatement]:
    """Yield the heads that are special, their intervals, and heads of which that is not clear."""
    role, whole = words.SPECIAL[score.metric]
    untrained = float(np.mean([head.untrained for head in enough]))
    yield statement(
        "special",
        role=role,
        n=len(enough),
        heads=_scores(enough, "head"),
        range=enough[0].value if len(enough) == 1 else (enough[-1].value, enough[0].value),
        whole=whole,
        untrained=untrained,
    )
    yield from _beside(enough, "by_place")
    others = [head for head in heads if head.high >= least and head not in enough]
    known = [head for head in others if head.value >= least and np.isfinite(head.untrained)]
    if chancy := [head for head in known if head.p > FAMILY_WISE]:
        yield statement("chancy", heads=_scores(chancy), draws=len(next(iter(score.draws.values()))))
    if unclear := [head for head in others if head.p <= FAMILY_WISE]:
        yield statement("unclear", heads=_scores(unclear), least=least)


def _none_special(heads: Sequence[_Found], least: float, metric: str) -> Iterator[HeadStatement]:
    """Yield that no head is special, and the head with the highest score."""
    role, _ = words.SPECIAL[metric]
    first = heads[0]
    kind = "no_special" if all(head.high < least for head in heads) else "no_clear_special"
    yield statement(kind, role=role, heads=first.heads, value=first.value, least=least)
    yield from _beside([first], "untrained", "by_place")
    if first.value >= least and np.isfinite(first.untrained) and first.p > FAMILY_WISE:
        yield statement("reached")


def _scores(found: Sequence[_Found], kind: str = "score") -> tuple[HeadStatement, ...]:
    return tuple(statement(kind, heads=each.heads, value=each.value) for each in found)


def _beside(heads: Sequence[_Found], *means: str) -> Iterator[HeadStatement]:
    """Yield intervals, and the means of re-initialised heads or of positions alone."""
    low = min(head.low for head in heads)
    if any(head.low < head.high for head in heads):
        one = statement("interval", interval=(low, heads[0].high))
        yield one if len(heads) == 1 else statement("intervals", low=low)
    for kind in means:
        mean = float(np.mean([getattr(head, kind) for head in heads]))
        if np.isfinite(mean):
            yield statement(kind, **{kind: mean})


def _of_varying(score: HeadScores, constant: ByAttention) -> HeadScores:
    """Return a score of pairs, NaN for pairs with a head that adds a constant."""
    varies = {name: np.where(share < _CONSTANT, 0, np.nan) for name, share in constant.items()}
    known = {name: np.add.outer(varies[name], varies[name]) if name in varies else 0 for name in score.values}
    return replace(score, values={name: value + known[name] for name, value in score.values.items()})


def _into_varying(composition: Composition, constant: ByAttention) -> Composition:
    """Return compositions without shares in what heads that add a constant write."""
    varies = [name not in constant or constant[name][head] < _CONSTANT for name, head in composition.heads]
    shares = {kind: np.where(varies, x, np.nan) if kind == "v" else x for kind, x in composition.shares.items()}
    return replace(composition, shares=shares)


def _constant(score: HeadScores, labels: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a result that names the heads with a constant output, which heads that learnt nothing may have, too."""
    heads = [head for head in _heads(score, labels, 1) if head.value >= _CONSTANT]
    if heads:
        named = statement("constant", least=_CONSTANT, heads=_scores(heads))
        yield Finding(about=score.metric, statements=(named, *_beside(heads, "untrained")), found=False)


def _pairs(score: HeadScores, labels: Mapping[str, str], scale: Scale, kinds: int) -> list[_Found]:
    """Return every pair of different heads of an attention that was drawn anew, highest first."""
    searched = _several(score)
    pairs: list[_Found] = []
    for attention in searched:
        value = score.values[attention]
        indices = np.triu_indices(len(value), k=1)
        called = _named(labels[attention], len(value), 2)
        pairs += _searched(value[indices], score.draws[attention][:, *indices], called, scale, kinds * len(searched))
    return _highest_first(pairs)


def _highest_first(found: Iterable[_Found]) -> list[_Found]:
    return sorted((each for each in found if np.isfinite(each.value)), key=lambda each: -each.value)


def _alike(
    score: HeadScores, labels: Mapping[str, str], scale: Scale, least: Callable[[_Found], float], kinds: int
) -> Finding | None:
    """Return the pairs of heads that are alike."""
    pairs = _pairs(score, labels, scale, kinds)
    enough = [pair for pair in pairs if pair.value >= least(pair) and pair.p <= _CAUTIOUS]
    if not enough:
        return None
    mean = float(np.mean([pair.value for pair in pairs]))
    alike = statement(score.metric, pairs=_scores(enough, "pair"))
    untrained = float(np.nanmean([pair.untrained for pair in pairs]))
    statements = alike, statement("mean_of_pairs", n=len(pairs), mean=mean, untrained=untrained)
    return Finding(about=score.metric, statements=statements, p=min(pair.p for pair in enough))


def _idle(score: HeadScores, labels: Mapping[str, str], kinds: int) -> Finding | None:
    """Return the heads that add least to the stream, relative to an even share of their layer."""
    searched = [name for name in _several(score) if np.any(score.values[name])]
    heads = []
    for name in searched:
        values, drawn = (
            np.clip(x, 1e-9, None) * len(score.values[name]) for x in (score.values[name], score.draws[name])
        )
        of_layer = _searched(1 / values, 1 / drawn, _named(labels[name], len(values)), "size", kinds * len(searched))
        heads += [(head, len(values)) for head in of_layer if head.p <= FAMILY_WISE and 1 / head.value <= _IDLE]
    if not heads:
        return None
    heads.sort(key=lambda head: -head[0].value)
    shares = [statement("share_of_layer", heads=head.heads, share=1 / head.value / n, even=1 / n) for head, n in heads]
    idle = statement("idle", heads=tuple(shares))
    return Finding(about=score.metric, statements=(idle,), p=min(head.p for head, _ in heads))


def _strongest(composition: Composition, labels: Mapping[str, str], kind: str, kinds: int) -> Finding | None:
    """Return the pairs that compose most, if they exceed circuits turned at random and carry the score on the text."""
    if kind not in composition.chances:
        return None
    table = getattr(composition, kind)
    chances = composition.chances[kind]
    tests = kinds * (1 + (kind in composition.drawn_nats))
    p = np.minimum(1, np.nan_to_num(chances * np.isfinite(chances).sum() * tests, nan=1.0))
    # Composition of weights alone is a number: the path must also carry what the later head does on the text.
    share = composition.shares.get(kind, np.array(np.nan))
    carries = np.isfinite(table) & (share >= _CARRIED)
    if kind in composition.nats:
        carries &= composition.nats[kind] >= _CARRIED_NATS
    beyond = carries & (p <= FAMILY_WISE) & (table >= _COMPOSED * composition.null)
    by_weights = beyond.any()
    if not by_weights:
        p = _chances_of_paths(composition, kind, tests)
        beyond = carries & (p <= FAMILY_WISE)
    if not beyond.any():
        return None
    order = np.argsort(np.where(beyond, table if by_weights else share, -1), axis=None)[::-1]
    pairs = [divmod(int(at), len(table)) for at in order[: min(3, beyond.sum())]]
    nats = {} if by_weights else _nats(composition, kind, pairs[0])
    found = statement(
        "composition" if by_weights else "composition_on_text",
        name=f"{kind.upper()}-composition",
        into=COMPOSITIONS[kind],
        n=int(beyond.sum()),
        of="output" if kind == "v" else "attention score",
        pairs=_paths(composition, labels, kind, pairs),
        null=composition.null,
        **nats,
    )
    return Finding(about=f"{kind}_composition", statements=(found,), p=float(p[beyond].min()))


def _nats(composition: Composition, kind: str, pair: tuple[int, int]) -> dict[str, float]:
    drawn = composition.drawn_nats[kind][:, *pair]
    return {"nats": float(composition.nats[kind][pair]), "drawn": float(drawn.mean())}


def _paths(
    composition: Composition, labels: Mapping[str, str], kind: str, pairs: Sequence[tuple[int, int]]
) -> tuple[HeadStatement, ...]:
    """Return pairs of heads with their composition by weights, and its share on the text."""
    table, share = getattr(composition, kind), composition.shares[kind]
    names = [f"{labels[attention]}H{head}" for attention, head in composition.heads]
    return tuple(
        statement("path", writer=(names[i],), reader=(names[j],), value=float(table[i, j]), share=float(share[i, j]))
        for i, j in pairs
    )


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
    beyond = threshold(highest, _CAUTIOUS / kinds)
    n, m = sum(int((found.own >= beyond).sum()) for found in searched), sum(len(found.own) for found in searched)
    most = max(searched, key=lambda found: float(found.own.max()))
    at = int(most.own.argmax())
    difference = statement(
        "differ" if n else "none_differ",
        n=n,
        m=m,
        draws=len(highest),
        metric=metric_name(most.metric),
        heads=most.names[at],
        value=float(most.value[at]),
        untrained=float(most.untrained[at]),
    )
    p = min(1.0, kinds * chance(float(most.own[at]), highest, "size"))
    return Finding(about=most.metric, statements=(difference,), p=p, found=n > 0)


def _distances(score: HeadScores, attention: str, label: str) -> _Distances:
    """Return distances in standard deviations of draws, which the heads or pairs of an attention have in common.

    A draw is compared with the other draws alone, as the model's own heads are with heads that are not among them.
    """
    value, drawn = score.values[attention], score.draws[attention]
    names = _named(label, len(value), value.ndim)
    if value.ndim == 2:
        indices = np.triu_indices(len(value), k=1)
        value, drawn = value[indices], drawn[:, *indices]
    known = np.isfinite(value) & np.isfinite(drawn).all(0)
    value, drawn, names = value[known], drawn[:, known], list(compress(names, known))
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


def chance(found: float, maxima: Sequence[float] | np.ndarray, scale: Scale) -> float:
    """Return the chance that the highest of one more draw reaches a value; 1 with fewer than four draws.

    Examples:
        >>> chance(0.3, [0.25, 0.3, 0.35, 0.28, 0.32], "share") > 0.3
        True
        >>> chance(0.9, [0.25, 0.3, 0.35, 0.28, 0.32], "share") < 0.02
        True
    """
    unbounded, spread = _highest(maxima, scale)
    n = len(unbounded)
    if n < 4 or not math.isfinite(found):
        return 1.0
    at = unbounded_of(np.array(found), scale)
    rank = (1 + int((unbounded >= at).sum())) / (n + 1)
    if rank > max(FAMILY_WISE, 1 / (n + 1)):
        return rank
    if not spread:
        return 1.0 if at <= unbounded[0] else 0.0
    tail = _tail((float(at) - unbounded.mean()) / spread, n)
    return max(tail, rank) if (unbounded >= at).any() else tail


def threshold(maxima: Sequence[float] | np.ndarray, level: float) -> float:
    """Return the size from which on the chance is at most a level; NaN with too few draws."""
    unbounded, spread = _highest(maxima, "size")
    if len(unbounded) < 4:
        return math.nan
    low, high = -5.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, len(unbounded)) > level else (low, middle)
    return math.exp(min(max(unbounded.mean() + high * spread, unbounded.max()), 700))


def _highest(maxima: Sequence[float] | np.ndarray, scale: Scale) -> tuple[np.ndarray, float]:
    """Return the finite maxima on the scale without bounds, and their spread there, if they are several."""
    drawn = np.asarray(maxima, np.float64)
    unbounded = unbounded_of(drawn[np.isfinite(drawn)], scale)
    return unbounded, max(float(unbounded.std(ddof=1)), LEAST_SPREAD[scale]) if len(unbounded) > 1 else 0.0


def _tail(t: float, draws: int) -> float:
    """Return the chance that a maximum lies t estimated spreads above the estimated mean of so many draws."""
    means, deviations = _estimates(draws)
    return float(-np.expm1(-np.exp(-np.clip(means + t * deviations, -30, 700))).mean())


@lru_cache(maxsize=8)
def _estimates(draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of samples of standard Gumbel values, many times."""
    drawn = np.random.default_rng(0).gumbel(size=(_SAMPLES, draws))
    return drawn.mean(1), drawn.std(1, ddof=1)


def unbounded_of(x: np.ndarray, scale: Scale) -> np.ndarray:
    """Return values on the scale without bounds on which maxima are compared."""
    if scale == "share":
        inside = np.clip(x, 1e-3, 1 - 1e-3)
        return np.asarray(np.log(inside / (1 - inside)))
    if scale == "cosine":
        return np.asarray(np.arctanh(np.clip(x, -0.9999, 0.9999)))
    return np.asarray(np.log(np.clip(x, 1e-12, None)))

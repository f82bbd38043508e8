"""Head metrics: each is one value that says what a number means, how it is computed, and its null.

A metric is a function of sums over positions (`OfSums`), a mean over queries of a number of each query's attention
(`PerQuery`), or a function of a head's circuits (`OfCircuits`). A short function stands in the entry and uses only the
methods of what it is given, so this table loads no torch. A longer one is named by its module in `headway.heads`.

Metrics of effects say how the loss changes without a head, or estimate it. They need gradients, or a pass for each
head, on a text and a second text. Probes therefore never measure them during training. The atlas draws them like
others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from headway.config.run import imported

Sum = str | Callable[[Any], Any]
"""A sum over positions: a name of `headway.heads.sums.SUMS`, or a function of a `MaskedAttention`."""


@dataclass(frozen=True)
class OfSums:
    """A function of sums over positions, or its dotted name, with the sums that it is given, in this order."""

    function: str | Callable[..., Any]
    sums: tuple[Sum, ...]

    def __call__(self, sums: Mapping[Any, Any]) -> Any:
        """Return the number for these sums."""
        function = imported(self.function) if isinstance(self.function, str) else self.function
        return function(*(sums[each] for each in self.sums))


@dataclass(frozen=True)
class PerQuery:
    """A mean over queries.

    Attributes:
        function: the function from a `QueryAttention` to values (batch, head, query), or (variant, batch, head, query)
            if the score is the largest mean of several.
        over: the function that selects the queries of the mean.
        per: a mean over queries, or the sum over the queries of each text, averaged over the texts.
    """

    function: Callable[[Any], Any]
    over: Callable[[Any], Any]
    per: Literal["query", "text"] = "query"


@dataclass(frozen=True)
class OfCircuits:
    """A function of the `HeadCircuits` of a layer; `in_tokens` adds the product of the read-out and the embedding."""

    function: Callable[..., Any]
    in_tokens: bool = False


@dataclass(frozen=True)
class Null:
    """The value of a metric when nothing is going on, in a sentence and as a rule.

    Attributes:
        sentence: the null in words, for figures.
        value: a rule; `even`: the metric's own value for attention that is uniform over the keys seen; `gaussian`: its
            value for Gaussian queries and keys; None: not known.
    """

    sentence: str
    value: OfSums | OfCircuits | Literal["even", "gaussian"] | None = None


@dataclass(frozen=True, kw_only=True)
class HeadMetric:
    """A number per head, per pair of heads or per layer: its meaning, how it is computed, and its null.

    Attributes:
        name: the name in files, options and tables.
        sentence: the meaning of the metric in words, for figures.
        unit: the unit, such as `0 to 1`.
        of: the object that has a number: a head, a pair or a layer.
        family: the group that `probes` switch on together; `causes`, the user's `own`, `sinks`, and `text`, whose
            metrics need the tokens that were read, are no such group.
        high: the meaning of a high number.
        null: the value under the null model.
        value: the rule that computes the metric from a trace or from weights; None for effects, which interventions
            measure.
        estimate: the rule that estimates the value over all positions from some of them; None: the rule of the value.
        repeated: True for a metric that is measured on repeated random tokens.
        optional: True for a metric that is left out where nothing counts for it: of a single text, or without sinks.
    """

    name: str
    sentence: str
    unit: str
    of: Literal["head", "pair", "layer"] = "head"
    family: Literal["diversity", "patterns", "text", "sinks", "circuits", "published", "outputs", "causes", "own"]
    high: str
    null: Null
    value: OfSums | PerQuery | OfCircuits | None = None
    estimate: OfSums | None = None
    repeated: bool = False
    optional: bool = False

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value that the unit allows."""
        return {"0 to 1": (0.0, 1.0), "-1 to 1": (-1.0, 1.0), "fraction": (0.0, 1.0)}.get(
            self.unit, (-float("inf"), float("inf"))
        )


def every_query(queries: Any) -> Any:
    """Return all queries that see a key."""
    return queries.n_keys >= 1


def two_keys(queries: Any) -> Any:
    """Return the queries that see at least two keys, and so have a choice."""
    return queries.n_keys >= 2


_GROWS = Null("not known, since the metric grows with the number of positions, the head width and the vectors' scale")
_ZERO = Null("0", OfSums(lambda rows: 0 * rows, ("rows",)))
_GAUSSIAN = Null("Gaussian queries and keys with the measured variance", "gaussian")
_GAUSSIAN_CIRCUIT = "Gaussian weights of the same shapes"
_EVEN = Null("mean of 1/m over queries with m visible keys (uniform attention)", "even")

_diversity = partial(HeadMetric, family="diversity")
_layers = partial(_diversity, of="layer", unit="-1 to 1")
_pattern = partial(HeadMetric, family="patterns", unit="0 to 1", null=_EVEN)
_circuit = partial(HeadMetric, family="circuits")
_uneven = partial(_diversity, high="non-uniform attention", null=_GAUSSIAN)
_MEAN_OUTPUTS = ("output_products", "output_totals", "rows")
_CKA_NULL = "untrained heads are more similar, since they read the same residual stream"


def _negative_mean(cosines: Any, rows: Any) -> Any:
    return -cosines / rows


def _ckas(vectors: Literal["query", "context"], high: str, sentence: str, centred: str) -> tuple[HeadMetric, ...]:
    """Return the CKA of two heads' queries or contexts, uncentred and centred."""
    cka = partial(_diversity, unit="0 to 1", of="pair", high=high)
    gram, total, thirds, fourths = (f"{vectors}_{part}" for part in ("gram", "total", "thirds", "fourths"))
    return (
        cka(
            name=f"{vectors}_cka",
            sentence=sentence,
            null=Null(
                f"independent Gaussian heads of the same width, over as many positions ({_CKA_NULL})",
                OfSums("headway.heads.expected_values.gaussian_cka", (total, "rows")),
            ),
            value=OfSums("headway.heads.sums.cka", (gram,)),
            estimate=OfSums("headway.heads.sums.estimated_cka", (gram, fourths, "rows", "whole_rows")),
        ),
        cka(
            name=f"{vectors}_cka_centred",
            sentence=centred,
            null=Null(
                f"independent heads with the measured spectra ({_CKA_NULL})",
                OfSums("headway.heads.expected_values.spectral_cka", (gram, total, "rows")),
            ),
            value=OfSums("headway.heads.sums.centred_cka", (gram, total, "rows")),
            estimate=OfSums(
                "headway.heads.sums.estimated_centred_cka", (gram, total, thirds, fourths, "rows", "whole_rows")
            ),
        ),
    )


def _of_text(distance: int, name: str, keys: str, high: str) -> HeadMetric:
    """Return the weight on keys so many places after earlier occurrences of the query's token."""
    return _pattern(
        name=f"text_{name}_score",
        family="text",
        sentence=f"mean attention weight on {keys}, over the queries that see such keys",
        high=high,
        null=Null("share of such keys among all visible keys (uniform attention)", "even"),
        value=PerQuery(
            lambda q: q.weight_on(q.after_twins(distance)),
            over=lambda q: two_keys(q) & q.sees_some(q.after_twins(distance)),
        ),
    )


# fmt: off
_HEAD = (
    _diversity(name="query_orthogonality_raw",
        sentence="sum of the absolute entries of Q_i^T Q_j for the queries Q of two heads, as published (grows with "
        "the number of positions)",
        unit="1", of="pair", high="similar queries", null=_GROWS,
        value=OfSums(lambda gram: gram.abs().sum((1, 3)), ("query_gram",))),
    *_ckas("query", "similar queries",
        "linear CKA of two heads' queries, not centred: 0 if they are orthogonal over positions, 1 if they are equal "
        "up to rotation and scale",
        "linear CKA of two heads' queries after subtracting their means (without this, large means alone give values "
        "near 1)"),
    _diversity(name="context_nonorthogonality_raw",
        sentence="Frobenius norm of C_i^T C_j for the contexts C of two heads, as published (grows with the number of "
        "positions)", unit="1", of="pair", high="similar contexts", null=_GROWS,
        value=OfSums(lambda gram: gram.square().sum((1, 3)).sqrt(), ("context_gram",))),
    *_ckas("context", "similar contexts",
        "linear CKA of two heads' contexts (attention-weighted sums of values), not centred",
        "linear CKA of two heads' contexts (attention-weighted sums of values) after subtracting their means"),
    _diversity(name="context_dissimilarity",
        sentence="negative mean cosine of two heads' contexts at the same position (depends on each head's basis)",
        unit="-1 to 1", of="pair", high="different contexts", null=_ZERO,
        value=OfSums(_negative_mean, ("context_cosines", "rows"))),
    _diversity(name="output_dissimilarity",
        sentence="negative mean cosine between what two heads add to the residual stream at the same position",
        unit="-1 to 1", of="pair", high="different outputs", null=_ZERO,
        value=OfSums(_negative_mean, ("output_cosines", "rows"))),
    _uneven(name="attention_variance_raw",
        sentence="variance of all attention weights of a head (masked keys count as 0), as published",
        unit="1",
        # Its mean over queries is the population variance of all T x T weights, T keys in the text.
        value=PerQuery(lambda q: q.square / q.text_keys - 1 / q.text_keys.square(), over=every_query)),
    _uneven(name="attention_diversity",
        sentence="mean over queries of (m Σp² − 1) / (m − 1), for m visible keys with weights p (0: uniform "
        "attention, 1: all weight on one key)",
        unit="0 to 1", value=PerQuery(lambda q: (q.n_keys * q.square - 1) / (q.n_keys - 1), over=two_keys)),
    _uneven(name="attention_excess",
        sentence="mean over queries of m Σp² − 1, for m visible keys with weights p (does not fall as m grows, "
        "unlike attention diversity)",
        unit="1", value=PerQuery(lambda q: q.n_keys * q.square - 1, over=two_keys)),
    _layers(name="disagreement_subspace",
        sentence="negative mean cosine of the values of two heads, over all pairs of heads (including each head with "
        "itself)",
        high="different values",
        null=Null(
            "-1/H for H independent heads, lower if heads share values",
            OfSums(lambda shared, batches: -shared / batches, ("shared_values", "batches")),
        ),
        value=OfSums(lambda cosines, rows: -cosines.mean() / rows, ("value_cosines", "value_rows"))),
    _diversity(name="disagreement_position",
        sentence="negative sum, over queries and keys, of the products of two heads' attention weights, averaged over "
        "pairs of heads", unit="1", of="layer", high="attention at different positions",
        null=Null("negative sum of 1/m over queries with m visible keys (uniform attention)", "even"),
        # Of queries in which some head sees a key: a value of all heads together.
        value=PerQuery(lambda q: -q.overlap, over=lambda q: q.counted, per="text")),
    _layers(name="disagreement_output",
        sentence="negative mean cosine of the contexts of two heads, over all pairs of heads (including each head with "
        "itself)",
        high="different contexts",
        null=Null(
            "-1/H for H independent heads (untrained heads agree more, since they read the same residual "
            "stream)",
            OfSums(lambda cosines: 0 * cosines[0, 0] - 1 / len(cosines), ("context_cosines",)),
        ),
        value=OfSums(lambda cosines, rows: -cosines.mean() / rows, ("context_cosines", "rows"))),
    # Paper: Voita et al. 2019, arXiv 1909.01380, compare representations by mutual information and CKA.
    _layers(name="similarity_to_layer_0",
        sentence="mean cosine between a token's residual stream before layer 0 and after this layer",
        high="a residual stream close to that before layer 0",
        null=Null("0 (but near 1, trained or not, in a layer that adds little to the residual stream)", _ZERO.value),
        value=OfSums(lambda cosines, rows: cosines / rows, ("stream_cosines", "rows"))),
    _pattern(name="attention_entropy_nats", sentence="mean entropy of a head's attention weights over all queries",
        unit="nats", high="attention spread over many keys",
        null=Null("mean logarithm of the number of visible keys (uniform attention)", "even"),
        value=PerQuery(lambda q: q.entropy, over=every_query)),
    # Paper: Voita et al. 2019, arXiv 1905.09418, for the confidence and for positional heads, from 90 % on.
    _pattern(name="attention_confidence",
        sentence="mean, over queries that see two keys or more, of the largest attention weight",
        high="attention on one key",
        value=PerQuery(lambda q: q.largest, over=two_keys)),
    # Paper: Xiao et al. 2023, arXiv 2309.17453.
    _pattern(name="sink_score",
        sentence="mean attention weight on the first token (0 for queries that cannot see the first token)",
        high="attention mostly on the first token",
        null=Null("uniform attention: mean of 1/m over queries with m visible keys (0 if the first is hidden)", "even"),
        value=PerQuery(lambda q: q.weight_at(q.first.expand(-1, q.counted.shape[2])), over=every_query)),
    # Of models such as GPT-OSS: a logit for each head that takes weight from all keys.
    _pattern(name="learned_sink_share", family="sinks",
        sentence="mean attention weight on a head's learned sink, which belongs to no token",
        high="a head that is mostly off",
        null=Null("0 (heads without a sink)", _ZERO.value), optional=True,
        value=PerQuery(lambda q: q.learned_sink, over=lambda q: every_query(q) & q.has_sink)),
    _pattern(name="previous_token_score",
        sentence="mean attention weight on the previous token",
        high="a previous-token head",
        value=PerQuery(lambda q: q.weight_at(q.places - 1),
            over=lambda q: every_query(q) & (q.places > q.first)[:, None] & q.one_text)),
    _pattern(name="positional_score",
        sentence="share of queries that attend most to the same neighbouring position, previous or next",
        high="a neighbour head (0.9 or more)",
        value=PerQuery(lambda q: q.largest_on_neighbours(), over=lambda q: two_keys(q) & q.one_text),
    ),
    _pattern(name="fixed_pattern_score",
        sentence="position-by-position overlap of the attention patterns on two texts, minus that of uniform "
        "attention",
        high="a pattern that depends on positions and not on tokens", null=Null("0 (uniform attention)", "even"),
        value=PerQuery(lambda q: q.shared_with_partner, over=lambda q: two_keys(q) & q.has_partner), optional=True),
    # Paper: Olsson et al. 2022, arXiv 2209.11895. Each text has its own period, so that no fixed distance pays.
    _pattern(name="duplicate_token_score",
        sentence="mean attention weight on the same token one period earlier, on repeated random tokens",
        high="a duplicate-token head", repeated=True,
        value=PerQuery(lambda q: q.weight_at(q.twin), over=lambda q: every_query(q) & q.repeated & q.sees_at(q.twin)),
    ),
    _pattern(name="induction_score",
        sentence="mean attention weight on the token after the current token's previous occurrence, on repeated tokens",
        high="an induction head", repeated=True,
        value=PerQuery(lambda q: q.weight_at(q.twin + 1),
            over=lambda q: every_query(q) & q.repeated & q.sees_at(q.twin + 1))),
    _of_text(
        0, "duplicate", "earlier copies of the query's token", high="a duplicate-token head"
    ),
    _of_text(1, "induction", "tokens after earlier copies of the query's token", high="an induction head"),
    HeadMetric(name="output_dissimilarity_published",
        sentence="negative mean cosine of two slices of the layer's output, after the output projection, as published "
        "(slices are not heads)",
        unit="-1 to 1", of="pair", family="published", high="different slices", null=_ZERO,
        value=OfSums(_negative_mean, ("slice_cosines", "sliced_rows"))),
    HeadMetric(name="attention_variance_published",
        sentence="unbiased variance of each key's weight over queries, averaged over keys, as in the published code",
        unit="1", family="published", high="attention that depends on the query", null=Null("not known"),
        value=OfSums(lambda variances, texts: variances / texts, ("variances", "texts_with_variance"))),
    _circuit(name="qk_effective_rank",
        sentence="effective rank of W_Q W_K^T: exp of the entropy of the normalised singular values",
        unit="dimensions", high="queries match keys in many directions",
        null=Null(_GAUSSIAN_CIRCUIT, OfCircuits(lambda circuits: circuits.qk.gaussian_rank())),
        value=OfCircuits(lambda circuits: circuits.qk.effective_rank())),
    _circuit(name="ov_effective_rank",
        sentence="effective rank of W_V W_O: exp of the entropy of the normalised singular values",
        unit="dimensions", high="values are read and written in many directions",
        null=Null(_GAUSSIAN_CIRCUIT, OfCircuits(lambda circuits: circuits.ov.gaussian_rank())),
        value=OfCircuits(lambda circuits: circuits.ov.effective_rank())),
    _circuit(name="copying_score",
        sentence="sum of the eigenvalues of the full OV circuit (tokens to logits) over that of their absolute values",
        unit="-1 to 1", high="attended tokens become likelier", null=Null("0", OfCircuits(lambda _: 0.0)),
        value=OfCircuits(lambda circuits, through: circuits.copying(through), in_tokens=True)),
    HeadMetric(name="output_correlation",
        sentence="cosine of the centred outputs of two heads, pooled over positions",
        unit="-1 to 1", of="pair", family="outputs", high="similar outputs", null=_ZERO,
        value=OfSums("headway.heads.sums.output_correlation", _MEAN_OUTPUTS)),
    HeadMetric(name="output_constant_share",
        sentence="share of the squared norm of a head's output that is constant over positions",
        unit="0 to 1", family="outputs", high="a head that adds a constant",
        null=Null("no reference, since averages over many keys are nearly constant, trained or not"),
        value=OfSums("headway.heads.sums.constant_share", _MEAN_OUTPUTS)),
    HeadMetric(name="output_share",
        sentence="squared norm of a head's output, divided by the sum over the heads of its layer", unit="0 to 1",
        family="outputs", high="this head adds most of what the layer's heads add",
        null=Null("1/H for H heads (an even split)",
            OfSums(lambda sizes: 0 * sizes[0] + 1 / len(sizes), ("output_sizes",))),
        # Contributions that cancel or reinforce one another do so in the stream: shares compare the heads' own sizes.
        value=OfSums(lambda sizes: (sizes / sizes.sum()).where(sizes.sum() > 0, 0), ("output_sizes",))),
)
# fmt: on

HEAD_METRICS: dict[str, HeadMetric] = {metric.name: metric for metric in _HEAD}

REPEATED = tuple(metric.name for metric in _HEAD if metric.repeated)
"""Metrics of patterns that are measured on random tokens, repeated."""


_WAYS = {
    "zero": "the head's output (z) is set to zero",
    "mean": "the head's output (z) is replaced by its mean over another text",
    "resample": "the head's output (z) is replaced by that on another text",
}
NATS = "nats per token"
"""The unit of numbers that may lie above or below 0."""


def _effects(name: str, sentence: str, high: str) -> tuple[HeadMetric, ...]:
    """Return a metric of the effect of each head, for each way of ablating it."""
    return tuple(
        HeadMetric(
            name=f"{way}_{name}_nats",
            sentence=sentence.format(way=phrase),
            unit=NATS,
            family="causes",
            high=high,
            null=Null("0"),
        )
        for way, phrase in _WAYS.items()
    )


# fmt: off
_CAUSES = (
    *_effects("ablation", "exact change of the loss when {way}", "the loss rises without the head"),
    HeadMetric(name="michel_importance_nats",
        sentence="mean over sequences of |dL/dξ|, where ξ is a gate on the head (Michel et al. 2019); it has no sign",
        unit="nats per token, per unit of the gate", family="causes", high="the loss is sensitive to the head",
        null=Null("no null value, since every head scores above 0")),
    *_effects("attribution", "first-order estimate (gradient times activation change) of the change in loss when {way}",
        "the loss would rise without the head"),
    *_effects("integrated",
        "the head's share of the joint effect of all heads (integrated gradients), when {way}",
        "the head has a large share of the joint effect"),
)
# fmt: on

HEAD_CAUSES: dict[str, HeadMetric] = {metric.name: metric for metric in _CAUSES}

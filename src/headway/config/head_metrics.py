"""The table of head metrics: name, sentence, unit and null of each.

The function of each metric in `headway.heads` is decorated with its entry; a test checks that entries and functions
match.

Metrics of effects say how the loss changes without a head, or estimate it. They need gradients, or a pass for each
head, on a text and a second text. Probes therefore never measure them during training. The atlas draws them like
others.
"""

from typing import Literal

from headway.config.spec import Spec


class HeadMetric(Spec):
    """The meaning of a number per head, per pair of heads or per layer.

    `family` is the group that `probes` switch on together; `causes` and the user's `own` are no such group. `of` says
    what has one number, a head, a pair or a layer. `high` says what a high number means.
    """

    name: str
    sentence: str
    unit: str
    of: Literal["head", "pair", "layer"]
    family: Literal["diversity", "patterns", "circuits", "published", "outputs", "causes", "own"]
    high: str
    null: str


_HEAD = (
    HeadMetric(
        name="query_orthogonality_raw",
        sentence="sum over all entries of |Q_i^T Q_j|, as published; it grows with the rows, which are stated",
        unit="1",
        of="pair",
        family="diversity",
        high="alike queries",
        null="not known: it grows with rows, widths and scale",
    ),
    HeadMetric(
        name="query_cka",
        sentence="linear CKA of two heads' queries, uncentred: 0 where they span different directions, 1 the same",
        unit="0 to 1",
        of="pair",
        family="diversity",
        high="alike queries",
        null="independent Gaussian heads of these widths and rows; untrained ones share more: they read one stream",
    ),
    HeadMetric(
        name="query_cka_centred",
        sentence="linear CKA of two heads' queries less their means, which alone would drive it to 1",
        unit="0 to 1",
        of="pair",
        family="diversity",
        high="alike queries",
        null="independent heads with the measured spectra; untrained ones share more: they read one stream",
    ),
    HeadMetric(
        name="context_nonorthogonality_raw",
        sentence="Frobenius norm of C_i^T C_j of two heads' contexts, as published; it grows with the rows",
        unit="1",
        of="pair",
        family="diversity",
        high="alike contexts",
        null="not known: it grows with rows, widths and scale",
    ),
    HeadMetric(
        name="context_cka",
        sentence="linear CKA of two heads' contexts, uncentred",
        unit="0 to 1",
        of="pair",
        family="diversity",
        high="alike contexts",
        null="independent Gaussian heads of these widths and rows; untrained ones share more: they read one stream",
    ),
    HeadMetric(
        name="context_cka_centred",
        sentence="linear CKA of two heads' contexts less their means",
        unit="0 to 1",
        of="pair",
        family="diversity",
        high="alike contexts",
        null="independent heads with the measured spectra; untrained ones share more: they read one stream",
    ),
    HeadMetric(
        name="context_dissimilarity",
        sentence="minus the mean cosine of two heads' contexts at the same position; it depends on each head's basis",
        unit="-1 to 1",
        of="pair",
        family="diversity",
        high="different contexts",
        null="0",
    ),
    HeadMetric(
        name="output_dissimilarity",
        sentence="minus the mean cosine of what two heads add to the residual stream at the same position",
        unit="-1 to 1",
        of="pair",
        family="diversity",
        high="different outputs",
        null="0",
    ),
    HeadMetric(
        name="attention_variance_raw",
        sentence="variance of all attention weights of a head, masked ones counted as zero, as the article defines it",
        unit="1",
        of="head",
        family="diversity",
        high="uneven attention",
        null="Gaussian queries and keys of the measured spread",
    ),
    HeadMetric(
        name="attention_diversity",
        sentence="mean over queries of (m sum p^2 - 1) / (m - 1), m the keys seen: 0 for even attention, 1 for one key",
        unit="0 to 1",
        of="head",
        family="diversity",
        high="uneven attention",
        null="Gaussian queries and keys of the measured spread",
    ),
    HeadMetric(
        name="attention_excess",
        sentence="mean over queries of m sum p^2 - 1, m the keys seen: it does not fall with m as the diversity does",
        unit="1",
        of="head",
        family="diversity",
        high="uneven attention",
        null="Gaussian queries and keys of the measured spread",
    ),
    HeadMetric(
        name="disagreement_subspace",
        sentence="minus the mean cosine of all pairs of heads' values, a head with itself included",
        unit="-1 to 1",
        of="layer",
        family="diversity",
        high="different values",
        null="independent heads: -1/H, lower where heads share values",
    ),
    HeadMetric(
        name="disagreement_position",
        sentence="minus the mean over all pairs of heads of the summed product of their attention weights",
        unit="1",
        of="layer",
        family="diversity",
        high="attention at different positions",
        null="even attention: minus the sum over queries of 1/m",
    ),
    HeadMetric(
        name="disagreement_output",
        sentence="minus the mean cosine of all pairs of heads' contexts, a head with itself included",
        unit="-1 to 1",
        of="layer",
        family="diversity",
        high="different contexts",
        null="independent heads: -1/H; untrained ones agree more, since they read the same stream",
    ),
    HeadMetric(
        name="similarity_to_layer_0",
        sentence="mean cosine between a token's stream before layer 0 and after this layer",
        unit="-1 to 1",
        of="layer",
        family="diversity",
        high="tokens still as they entered",
        null="0; a stream that gains little in a layer stays near 1, trained or not",
    ),
    HeadMetric(
        name="attention_entropy_nats",
        sentence="mean entropy of a head's attention weights, over all queries",
        unit="nats",
        of="head",
        family="patterns",
        high="attention spread over many keys",
        null="even attention: the mean log of the keys seen",
    ),
    HeadMetric(
        name="attention_confidence",
        sentence="mean over queries that see two keys or more of a head's largest weight",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="attention on one key",
        null="even attention: the mean of 1/m",
    ),
    HeadMetric(
        name="sink_score",
        sentence="mean weight on the first token, 0 where a window hides it",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="attention rests on the first token",
        null="even attention: the mean of 1/m, 0 where it is hidden",
    ),
    HeadMetric(
        name="previous_token_score",
        sentence="mean weight on the token before",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="a previous-token head",
        null="even attention: the mean of 1/m",
    ),
    HeadMetric(
        name="positional_score",
        sentence="share of queries whose largest weight is on the neighbour that it is on most often, before or after",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="a positional head, from .9 on",
        null="even attention: the mean of 1/m",
    ),
    HeadMetric(
        name="duplicate_token_score",
        sentence="on random tokens that are repeated, mean weight on the same token one period before",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="a duplicate-token head",
        null="even attention: the mean of 1/m",
    ),
    HeadMetric(
        name="induction_score",
        sentence="on random tokens that are repeated, mean weight on the token that came next one period before",
        unit="0 to 1",
        of="head",
        family="patterns",
        high="an induction head",
        null="even attention: the mean of 1/m",
    ),
    HeadMetric(
        name="output_dissimilarity_published",
        sentence="as published: minus the mean cosine of slices of the vector after the output projection, no heads",
        unit="-1 to 1",
        of="pair",
        family="published",
        high="different slices",
        null="0",
    ),
    HeadMetric(
        name="attention_variance_published",
        sentence="as in the published code: the unbiased variance over queries of each key's weight, then the mean",
        unit="1",
        of="head",
        family="published",
        high="attention that depends on the query",
        null="not known",
    ),
    HeadMetric(
        name="qk_effective_rank",
        sentence="exp of the entropy of the normalised singular values of W_Q^T W_K",
        unit="dimensions",
        of="head",
        family="circuits",
        high="queries match keys in many directions",
        null="that of Gaussian weights of the same shapes",
    ),
    HeadMetric(
        name="ov_effective_rank",
        sentence="exp of the entropy of the normalised singular values of W_V W_O",
        unit="dimensions",
        of="head",
        family="circuits",
        high="many directions are moved",
        null="that of Gaussian weights of the same shapes",
    ),
    HeadMetric(
        name="copying_score",
        sentence="sum of the eigenvalues of the head's token-to-token circuit over the sum of their absolute values",
        unit="-1 to 1",
        of="head",
        family="circuits",
        high="what is attended to becomes likelier",
        null="0",
    ),
    HeadMetric(
        name="output_share",
        sentence="share of the head in the squared size of what its layer's heads add to the stream",
        unit="0 to 1",
        of="head",
        family="outputs",
        high="most of what the layer's heads add is this head's",
        null="an even split: 1/H",
    ),
)

HEAD_METRICS: dict[str, HeadMetric] = {metric.name: metric for metric in _HEAD}

REPEATED = ("duplicate_token_score", "induction_score")
"""Metrics of patterns that are measured on random tokens, repeated."""


_WAYS = {
    "zero": "its context set to zero",
    "mean": "its context at its mean over another text",
    "resample": "its context from a sequence of another text",
}
NATS = "nats per token"
"""The unit of numbers that may lie above or below 0."""


def _metric(name: str, sentence: str, high: str, unit: str = NATS, null: str = "0") -> HeadMetric:
    return HeadMetric(name=name, sentence=sentence, unit=unit, of="head", family="causes", high=high, null=null)


_CAUSES = (
    *(
        _metric(f"{way}_ablation_nats", f"change of the loss with {said}, exactly", "the loss rises without it")
        for way, said in _WAYS.items()
    ),
    _metric(
        "michel_importance_nats",
        "mean over sequences of |dL/dxi|, xi a gate on the head (Michel et al. 2019): an estimate, without a sign",
        "the loss is sensitive to it",
        unit="nats per token and gate",
        null="not known: it is above 0 for every head",
    ),
    *(
        _metric(
            f"{way}_attribution_nats",
            f"the gradient times the change with {said}: an estimate to first order",
            "the loss would rise without it",
        )
        for way, said in _WAYS.items()
    ),
    *(
        _metric(
            f"{way}_integrated_nats",
            f"the gradient along the way from all heads to none, with {said}: shares of the joint effect",
            "it has much of the joint effect",
        )
        for way, said in _WAYS.items()
    ),
)

HEAD_CAUSES: dict[str, HeadMetric] = {metric.name: metric for metric in _CAUSES}

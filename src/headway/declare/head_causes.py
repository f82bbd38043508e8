"""Declare: metrics of what heads cause: what the loss does without them, and estimates of it.

They need gradients, or a pass for each head, on a text and another one, and so no probe takes them on the way; they
are drawn in the atlas like others.
"""

from headway.declare.head_metrics import HeadMetric

_WAYS = {
    "zero": "its context set to zero",
    "mean": "its context at its mean over another text",
    "resample": "its context from a sequence of another text",
}
NATS = "nats per token"
"""Of what may be above 0 and below."""


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

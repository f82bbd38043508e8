"""Show: which final loss is drawn: of a text in nats or in bits, of other tasks that of their answers."""

from dataclasses import replace

from headway.declare.tokens.run import is_text
from headway.show.report.outcome import OutcomeMeasure
from headway.show.report.report_data import ReportData
from headway.show.shared.theme import NGRAMS

LOSS = OutcomeMeasure(
    name="final-loss",
    metric="eval_loss_nats",
    column="loss_nats",
    axis="evaluation loss (nats per token)",
    title="Final loss",
    sentence="Mean loss per token of the fixed held-out sequences.",
    references=NGRAMS,
    ticks="Ticks: what needs no training, on the same text.",
    one_seed="One seed: a point per arm, and no interval.",
    label_width=330,
    row=32,
)


BITS = replace(
    LOSS,
    metric="eval_bits_per_byte",
    column="bits_per_byte",
    axis="evaluation loss (bits per byte)",
    sentence="Mean loss of the fixed held-out text, in bits per byte: arms differ in tokenizer or corpus.",
    references={},
    ticks="",
)

OF_ANSWERS = replace(
    LOSS,
    axis="evaluation loss (nats per answer)",
    sentence="Mean loss per answer of the fixed evaluation examples.",
    references={},
    ticks="",
)
"""Of tasks that are no text."""


def loss_of(material: ReportData) -> OutcomeMeasure:
    """The loss in nats as it is told of the task: per token, or per answer where it is no text."""
    return LOSS if is_text(material.run) else OF_ANSWERS

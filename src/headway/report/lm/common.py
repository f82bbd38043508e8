"""Functions that several figures of transformers share.

They read a run's specification and probes, choose the final loss to draw (a text's in nats or bits, or that of a
task's answers), and draw references. The n-gram models and the entropy of the text are rules across a panel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headway.config.lm.run import TokensRun, is_text
from headway.report.charts.figure import NGRAMS, QUIET, LineStyle, alt, charted
from headway.report.charts.lines import Axis, rule
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.report.experiment.outcome import OutcomeMeasure
from headway.stats.lm.diversity import HeadProgress, head_progress


def declared(arm: ArmResults) -> TokensRun:
    """Return the specification of an arm's shown run, with the heads that it was trained with."""
    trained = arm.shown.run.trained
    assert isinstance(trained, TokensRun)
    return trained


def heads_of(run: Finished) -> HeadProgress | None:
    """Return what was measured of a run's heads during training; None if nothing was."""
    return run.once(head_progress)


def measures(run: Finished, metric: str) -> bool:
    """Return whether a metric of a run's heads was measured during training."""
    progress = heads_of(run)
    return progress is not None and metric in progress.mean


LOSS = OutcomeMeasure(
    name="final-loss",
    metric="eval_loss_nats",
    column="loss_nats",
    axis="evaluation loss (nats per token)",
    title="Final loss",
    sentence="Mean loss per token on the fixed held-out sequences.",
    references=NGRAMS,
    one_seed="Each point is one seed.",
    label_width=330,
    row=32,
)


BITS = replace(
    LOSS,
    metric="eval_bits_per_byte",
    column="bits_per_byte",
    axis="evaluation loss (bits per byte)",
    sentence="Mean loss on the fixed held-out text, in bits per byte, since arms differ in tokenizer or corpus.",
    references={},
)

OF_ANSWERS = replace(
    LOSS,
    axis="evaluation loss (nats per answer)",
    sentence="Mean loss per answer on the fixed evaluation examples.",
    references={},
)
"""The loss of tasks that are no text."""


def loss_metric(material: ReportData) -> OutcomeMeasure:
    """Return the loss metric of the task in nats: per token, or per answer if the task is not a text."""
    return LOSS if is_text(material.run) else OF_ANSWERS


def values(material: ReportData) -> dict[str, float]:
    """Return the loss of each reference if all arms are evaluated on one text; empty otherwise."""
    if not material.arms or not material.one_task:
        return {}
    losses = material.baselines(material.arms[0], "loss_nats")
    return {name: losses[name] for name in NGRAMS if name in losses}


def references_within(material: ReportData, domain: Sequence[float]) -> list[tuple[LineStyle, float]]:
    """Return the references that lie inside the ends of an axis, with their style."""
    return [(NGRAMS[name], loss) for name, loss in values(material).items() if domain[0] <= loss <= domain[1]]


def named_rules(material: ReportData, y: Axis) -> Iterator[Any]:
    """A named rule for each that lies inside the ends of an axis."""
    assert y.domain is not None
    for (label, colour, dash), loss in references_within(material, y.domain):
        yield rule([loss], y=y, colour=colour, dash=dash, width=1.4)
        name = charted([{"what": label, y.column: loss}])
        text = name.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=QUIET, fontSize=11)
        yield text.encode(y=y.encoded("y"), x=alt.value(0), text="what:N")

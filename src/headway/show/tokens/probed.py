"""Show: the figures of what probes measured in the heads, in their order, for arms without a control and under each."""

from collections.abc import Iterator
from dataclasses import replace

from headway.compare.tokens.head_progress import scores_at
from headway.show.report.report_data import ReportData
from headway.show.shared.atlas import atlas
from headway.show.shared.figure import Figure
from headway.show.tokens import association, head_layers, head_maps, head_training, kv_heads, regularised
from headway.show.tokens.finished_run import heads_of, is_probed
from headway.show.tokens.head_training import PART


def probed(material: ReportData, control: str | None) -> Iterator[Figure]:
    """Every figure of the probes of arms under one control; those under a control are in a part of their own."""
    for figure in _figures(material.under(control), every=control is None):
        if control is None:
            yield figure
        else:
            part = f"{PART}: {material.experiment.control_label(control)}"
            yield replace(figure, name=f"{figure.name}-{control}", part=part, folded=True)


def _figures(material: ReportData, *, every: bool) -> Iterator[Figure]:
    if not any(is_probed(arm.shown) for arm in material.arms):
        return
    loose = [
        regularised.against_loss(material),
        kv_heads.by_kv_heads(material),
        head_layers.by_layer(material),
        head_maps.head_maps(material),
        association.association(material),
        association.association(material, "train_loss_nats"),
        association.losses(material),
    ]
    yield from head_training.progress(material, every=every)
    yield from (figure for figure in loose if figure is not None and (every or not figure.folded))
    yield from atlases(material) if every else ()


def atlases(material: ReportData) -> Iterator[Figure]:
    """Every head of each arm's shown run at its last probed step; the first is open, the others are folded."""
    drawn = 0
    for arm in (each for each in material.arms if is_probed(each.shown)):
        step = int(heads_of(arm.shown).steps[-1])
        figure = atlas(
            scores_at(arm.shown.run, step),
            name=f"atlas-{arm.name}",
            part=PART,
            title=f"Head atlas: {arm.label}",
            caption=f"Seed {arm.shown.seed}, step {step:,}.",
        )
        if figure is not None:
            yield replace(figure, folded=drawn > 0)
            drawn += 1

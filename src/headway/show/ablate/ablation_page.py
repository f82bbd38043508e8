"""Show: the page of what a finished model does without its heads."""

from dataclasses import replace

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.kinds import KINDS
from headway.show.ablate.circuit_losses import circuit_losses
from headway.show.ablate.effect_intervals import head_intervals, pair_intervals
from headway.show.ablate.effect_tables import heads, ways
from headway.show.ablate.estimates import estimates
from headway.show.shared.atlas import atlas
from headway.show.shared.figure import Figure
from headway.show.shared.model_page import ModelPage

PART = "Heads taken away"


def ablation_page(found: Ablation) -> ModelPage:
    """The page, drawn; `ablate.html`, `ablate.json` and their figures are its files."""
    return ModelPage(
        verb="ablate",
        what="heads taken away",
        read=f"Loss of {found.read}; in place of heads stands what they do on {found.other}",
        found=found,
        overview=ways(found),
        heads=heads(found),
        figures=figures(found),
    )


def figures(found: Ablation) -> tuple[Figure, ...]:
    """Effects with intervals, all heads in the atlas, pairs, and estimates against exact effects."""
    exact, others = [f"{kind}_ablation_nats" for kind in KINDS], [m for m in found.scores if "ablation" not in m]
    drawn = [
        head_intervals(found, part=PART),
        atlas(
            found.scores,
            metrics=exact,
            labels=found.labels,
            name="effects-atlas",
            part=PART,
            title="The change of the loss without each head",
            caption="In nats per token; red: the loss rises without the head.",
        ),
        circuit_losses(found, part="The circuit"),
        pair_intervals(found, part="Pairs"),
        estimates(found, part="Estimates"),
        _folded(
            atlas(
                found.scores,
                metrics=others,
                labels=found.labels,
                name="estimates-atlas",
                part="Estimates",
                title="Every head under every estimate",
            )
        ),
    ]
    return tuple(figure for figure in drawn if figure is not None)


def _folded(figure: Figure | None) -> Figure | None:
    return None if figure is None else replace(figure, folded=True)

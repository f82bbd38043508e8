"""Show: what the loss does without heads, and without pairs of them, with intervals: a panel for each way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.effect_findings import MATTERS, nats
from headway.heads.causes.kinds import KINDS, Kind, named
from headway.show.ablate.effect_tables import WAYS
from headway.show.ablate.interval_panels import Ends, IntervalPanel, interval_panels
from headway.show.shared.figure import Figure
from headway.words import counted, join

MOST = 40
"""At most so many rows."""


def head_intervals(found: Ablation, *, part: str) -> Figure:
    """The effect of every head, the largest first; of many heads those with the largest effect in some way."""
    single = found.exact.single
    names = [named(head) for head, _ in single["mean"].heads()]
    means = {kind: single[kind].flat() for kind in KINDS}
    own = {kind: _ends(single[kind].interval()) for kind in KINDS}
    all_at_once = {kind: _ends(single[kind].corrected_interval()) for kind in KINDS}
    size = np.max([np.abs(mean) for mean in means.values()], axis=0)
    shown = np.argsort(-size)[:MOST]
    order = sorted(shown.tolist(), key=lambda at: -means["mean"][at])
    left_out = len(names) - len(order)
    caption = join(
        "The change of the loss, in nats per token, when the head is taken away in one of three ways: right of 0 it "
        "rises without the head.",
        f"Thick: 95 % interval over sequences; thin: one that holds for all {counted(len(names), 'head')} at once. "
        f"Dotted: {nats(MATTERS)} nats, from which on a head is said to matter.",
        f"{counted(left_out, 'head')} with smaller effects stand in the table alone." if left_out else "",
    )
    return Figure(
        name="effects",
        part=part,
        title="What the loss does without each head",
        caption=caption,
        chart=_drawn([names[at] for at in order], order, means, own, all_at_once),
    )


def pair_intervals(found: Ablation, *, part: str) -> Figure | None:
    """The interaction of each pair that was looked at; None where none was."""
    pairs = found.pairs
    if pairs is None or not pairs.heads:
        return None
    names = [f"{named(one)} and {named(other)}" for one, other in pairs.heads]
    means = {kind: pairs.mean(kind) for kind in pairs.per_sequence}
    own = {kind: pairs.interval(kind) for kind in pairs.per_sequence}
    all_at_once = {kind: pairs.corrected_interval(kind) for kind in pairs.per_sequence}
    order = sorted(range(len(names)), key=lambda at: -means["mean"][at])
    alike = [f"{name} ({cosine:.2f})" for name, why, cosine in zip(names, pairs.why, pairs.cosine, strict=True)
             if why == "alike"]  # fmt: skip
    caption = join(
        "The change of the loss without both heads, minus that without each of them, in nats per token. Right of 0: "
        "one makes up for the loss of the other, as redundant heads do; left of 0: they do something together.",
        f"Thick: 95 % interval over sequences; thin: one that holds for all {counted(len(names), 'pair')} at once.",
        f"Pairs are those of the heads that matter most, and those whose outputs are most alike (cosine): "
        f"{', '.join(alike)}." if alike else "Pairs are those of the heads that matter most.",
    )  # fmt: skip
    return Figure(
        name="interactions",
        part=part,
        title="What pairs of heads do beyond what each does",
        caption=caption,
        chart=_drawn([names[at] for at in order], order, means, own, all_at_once),
    )


def _ends(of_layers: Sequence[np.ndarray]) -> Ends:
    ends = np.concatenate([*of_layers, np.zeros((0, 2))])
    return ends[:, 0], ends[:, 1]


def _drawn(
    rows: Sequence[str],
    at: Sequence[int],
    means: Mapping[Kind, np.ndarray],
    own: Mapping[Kind, Ends],
    all_at_once: Mapping[Kind, Ends],
) -> Any:
    return interval_panels(
        rows,
        at,
        [
            IntervalPanel(title=WAYS[kind], mean=mean, own=own[kind], all_at_once=all_at_once[kind])
            for kind, mean in means.items()
        ],
        unit="nats per token",
        matters=MATTERS,
    )

"""Show: what the loss does without heads, and without pairs of them, with intervals: a panel for each way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.effect_findings import MATTERS, nats
from headway.heads.causes.kinds import KINDS, Kind, named
from headway.show.ablate.effect_tables import WAYS
from headway.show.shared.figure import Figure, inline
from headway.show.shared.theme import ARM_COLOURS, QUIET
from headway.words import counted, join

MOST = 40
"""At most so many rows."""
_PANEL, _ROW = 272, 15
Ends = tuple[np.ndarray, np.ndarray]


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
        chart=_panels([names[at] for at in order], order, means, own, all_at_once),
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
        chart=_panels([names[at] for at in order], order, means, own, all_at_once),
    )


def _ends(of_layers: Sequence[np.ndarray]) -> Ends:
    ends = np.concatenate([*of_layers, np.zeros((0, 2))])
    return ends[:, 0], ends[:, 1]


def _panels(
    rows: Sequence[str],
    at: Sequence[int],
    means: Mapping[Kind, np.ndarray],
    own: Mapping[Kind, Ends],
    all_at_once: Mapping[Kind, Ends],
) -> Any:
    """A panel for each way, all on one scale, names at the left."""
    import altair as alt

    seen = [end[i] for ends in (*own.values(), *all_at_once.values()) for end in ends for i in at]
    seen += [mean[i] for mean in means.values() for i in at]
    known = [float(value) for value in seen if np.isfinite(value)]
    room = 0.03 * (max(known) - min(known)) or 0.01
    scale = alt.Scale(domain=[min(0.0, *known) - room, max(0.0, *known) + room], nice=False)
    panels = []
    for place, kind in enumerate(means):
        table = [
            {
                "row": name,
                "value": means[kind][i],
                **{f"{end}{which}": ends[kind][which][i] for end, ends in (("own", own), ("all", all_at_once))
                   for which in (0, 1)},
            }
            for name, i in zip(rows, at, strict=True)
        ]  # fmt: skip
        panels.append(_panel(table, rows, WAYS[kind], scale, named=place == 0))
    return alt.hconcat(*panels, spacing=14)


def _panel(table: Sequence[dict[str, Any]], rows: Sequence[str], title: str, scale: Any, *, named: bool) -> Any:
    import altair as alt

    axis = alt.Axis(ticks=False, domain=False, labelLimit=160, grid=True, labelOverlap=False) if named else None
    y = alt.Y("row:N", sort=list(rows), title=None, scale=alt.Scale(domain=list(rows)), axis=axis)
    x = alt.X("value:Q", title="nats per token", scale=scale, axis=alt.Axis(format="~g", tickCount=5, grid=True))
    base = alt.Chart(inline(table)).encode(y=y)
    tooltip = [alt.Tooltip("row:N", title="head"), *(
        alt.Tooltip(f"{field}:Q", title=said, format=".3~g")
        for field, said in (("value", "change"), ("own0", "from"), ("own1", "to"))
    )]  # fmt: skip
    marks = [
        base.mark_rule(color=QUIET, strokeWidth=1).encode(x=alt.X("all0:Q", scale=scale, title=None), x2="all1:Q"),
        base.mark_rule(color=ARM_COLOURS[0], strokeWidth=3).encode(x=alt.X("own0:Q", scale=scale), x2="own1:Q"),
        base.mark_point(color=ARM_COLOURS[0], filled=True, opacity=1, size=42).encode(x=x, tooltip=tooltip),
    ]
    lines = [
        alt.Chart(inline([{"at": at}]))
        .mark_rule(color=QUIET, strokeDash=list(dash), strokeWidth=1)
        .encode(x=alt.X("at:Q", scale=scale))
        for at, dash in ((0.0, (1, 0)), (-MATTERS, (2, 3)), (MATTERS, (2, 3)))
    ]
    return alt.layer(*lines, *marks).properties(width=_PANEL, height=_ROW * len(rows), title=title)

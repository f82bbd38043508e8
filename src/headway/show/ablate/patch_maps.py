"""Show: how much of a metric's difference comes back with what one head did on the clean text: maps of all heads."""

from dataclasses import replace
from typing import Any

import numpy as np

from headway.heads.causes.kinds import Head, named
from headway.heads.causes.patched import PatchSite
from headway.heads.causes.patched_model import PatchedModel
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.head_colours import about_zero
from headway.words import counted

SITES: dict[PatchSite, str] = {
    "z": "its context",
    "q": "its queries",
    "k": "its keys",
    "v": "its values",
    "pattern": "its pattern",
}
_WEIGHTS = {"domain": [0, 1], "range": ["#ffffff", "#174a86"], "interpolate": "rgb"}
_ACROSS = 3
"""Panels beside one another: of more nothing is left on a narrow screen."""
_ROWS = 20
"""Heads whose positions are drawn, at most: those that restore most."""


def site_maps(found: PatchedModel, *, part: str) -> Figure | None:
    """Layers down, heads across, a panel for each site; None where the two texts do not differ."""
    import altair as alt

    patching = found.patching
    shares = {site: patching.restored_by_heads(site) for site in patching.effects}
    if not all(np.isfinite(share).all() for share in shares.values()):
        return None
    largest = max(float(np.abs(share).max()) for share in shares.values()) or 1.0
    layers = sorted({layer for layer, _ in patching.heads})
    widest = max(head for _, head in patching.heads) + 1
    side = (WIDTH - 40) // _ACROSS - 50
    panels: list[Any] = []
    for site, share in shares.items():
        rows = [
            {"head": named(head), "layer": f"L{head[0]}", "number": head[1], "restored": float(value)}
            for head, value in zip(patching.heads, share, strict=True)
        ]
        chart = alt.Chart(inline(rows)).encode(
            x=alt.X("number:O", title="head", sort=list(range(widest)), axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("layer:N", title=None, sort=[f"L{layer}" for layer in layers]),
            color=alt.Color("restored:Q", scale=about_zero(largest), legend=_legend()),
            tooltip=["head:N", alt.Tooltip("restored:Q", format=".1%")],
        )
        panels.append(chart.mark_rect().properties(width=side, height=max(60, 26 * len(layers)), title=SITES[site]))
    return Figure(
        name="patched",
        part=part,
        title="What comes back with each head",
        caption="The share of the metric's difference between the two texts that comes back when one head, in the run "
        "of the corrupted text, does what it did on the clean one: all of it, or its queries, keys, values or pattern "
        "alone. 1: all of the difference; below 0: away from it. Shares of heads do not add up."
        + (" By position: the sum over positions." if patching.effects[next(iter(shares))].ndim > 2 else ""),
        chart=alt.concat(*panels, columns=_ACROSS, spacing=22),
    )


def position_maps(found: PatchedModel, *, part: str) -> tuple[Figure, ...]:
    """Of each site that was patched position by position the heads that restore most, tokens across."""
    figures = [_positions(found, site, part) for site in found.patching.effects]
    drawn = [figure for figure in figures if figure is not None]
    return (*drawn[:1], *(replace(figure, folded=True) for figure in drawn[1:]))


def _positions(found: PatchedModel, site: PatchSite, part: str) -> Figure | None:
    import altair as alt

    share = found.patching.restored(site)
    if share.ndim < 2 or not np.isfinite(share).all():
        return None
    order = np.argsort(-np.abs(share).max(1))[:_ROWS]
    heads = [found.patching.heads[at] for at in order]
    rows = [
        {"head": named(head), "at": at, "token": token, "restored": float(share[row, at])}
        for row, head in zip(order, heads, strict=True)
        for at, token in enumerate(found.positions)
    ]
    chart = alt.Chart(inline(rows)).encode(
        x=alt.X("at:O", title=None, axis=_token_axis(found.positions)),
        y=alt.Y("head:N", title=None, sort=[named(head) for head in heads]),
        color=alt.Color("restored:Q", scale=about_zero(float(np.abs(share[order]).max()) or 1.0), legend=_legend()),
        tooltip=["head:N", "token:N", "at:O", alt.Tooltip("restored:Q", format=".1%")],
    )
    left_out = len(share) - len(order)
    return Figure(
        name=f"patched-{site}-by-position",
        part=part,
        title=f"Position by position: {SITES[site]}",
        caption=f"Tokens of the corrupted text across{_where_alike(found)}: at each alone the head has "
        f"{SITES[site]} from the clean text "
        "(positions of keys for keys and values, else of queries)."
        + (f" {counted(left_out, 'head')} that restore less are not drawn." if left_out else ""),
        chart=chart.mark_rect().properties(width=min(WIDTH - 160, 26 * len(found.positions)), height=18 * len(heads)),
    )


def patterns(found: PatchedModel, *, part: str) -> Figure:
    """Where the heads look, clean beside corrupted, queries down."""
    import altair as alt

    lines = []
    side = min(380, max(140, 16 * len(found.clean)))
    for each in found.patterns:
        panels = [
            _pattern(each.head, name, tokens, weights, side)
            for name, tokens, weights in (
                ("clean", found.clean, each.clean),
                ("corrupted", found.corrupted, each.corrupted),
            )
        ]
        lines.append(alt.hconcat(*panels, spacing=24))
    of_path = len(found.patterns) > 1
    return Figure(
        name="patterns",
        part=part,
        title=("Where the heads of the strongest path look" if of_path else "Where the head that restores most looks")
        + (", on the first pair" if len(found.patching.clean) > 1 else ""),
        caption="A row for each token that asks, a column for each that it may look at: attention weights, 0 white, 1 "
        "dark." + (" Above the head that writes, below the one that reads it." if of_path else ""),
        chart=alt.vconcat(*lines, spacing=18),
    )


def _pattern(head: Head, name: str, tokens: tuple[str, ...], weights: np.ndarray, side: int) -> Any:
    import altair as alt

    rows = [
        {"query": q, "key": k, "asks": tokens[q], "looks at": tokens[k], "weight": float(weights[q, k])}
        for q in range(len(tokens))
        for k in range(len(tokens))
        if weights[q, k] > 0
    ]
    axis = _token_axis(tokens)
    return (
        alt.Chart(inline(rows))
        .mark_rect()
        .encode(
            x=alt.X("key:O", title=None, axis=axis, sort=list(range(len(tokens)))),
            y=alt.Y("query:O", title=None, axis=axis.copy(), sort=list(range(len(tokens)))),
            color=alt.Color("weight:Q", scale=_WEIGHTS, legend=None),
            tooltip=["asks:N", "looks at:N", alt.Tooltip("weight:Q", format=".2f")],
        )
        .properties(width=side, height=side, title=f"{named(head)}, {name} text")
    )


def _token_axis(tokens: tuple[str, ...]) -> Any:
    """Positions, labelled by their tokens."""
    import json

    import altair as alt

    return alt.Axis(labelExpr=f"{json.dumps(list(tokens))}[datum.value]", labelOverlap=True, ticks=False, labelLimit=70)


def _where_alike(found: PatchedModel) -> str:
    return ", or the number of a position at which pairs differ" if len(found.patching.clean) > 1 else ""


def _legend() -> Any:
    import altair as alt

    return alt.Legend(title="share restored", orient="bottom", gradientLength=260, tickCount=5, format=".0%")

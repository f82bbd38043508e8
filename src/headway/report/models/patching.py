"""The page of `headway patch`: activation patching of a finished model's heads between two texts.

* `site_maps` and `position_map`: maps of how much of the metric's difference each head restores;
* `restored_intervals`: the restored share of each head, with intervals over pairs of texts;
* `head_path_maps`: which head acts directly on which later head, a map for queries, keys and values each;
* `patterns`: the attention patterns of heads, clean beside corrupted.
"""

import json
from typing import Any

import numpy as np

from headway.base.text import counted, filled, join, number
from headway.causal.effects import Head, floats, named
from headway.causal.patch_result import (
    MATTERS,
    HeadPaths,
    PatchedModel,
    Patching,
    PatchSite,
    patch_statements,
)
from headway.report.charts.figure import WIDTH, Figure, Hint, alt, grid, panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import about_zero, head_map, valued
from headway.report.charts.page import Row, Table
from headway.report.models.ablation import interval_panels, percent
from headway.report.models.page import OPENING, ModelPage
from headway.report.models.xray import draw_paths

SITES: dict[PatchSite, str] = {
    "z": "output (z)",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "pattern": "pattern",
}
_WEIGHTS: dict[str, Any] = {"domain": [0, 1], "range": ["#ffffff", "#174a86"], "interpolate": "rgb"}
_ACROSS = 3
"""Panels beside one another: of more nothing is left on a narrow screen."""
_ROWS = 20
"""Heads whose positions are drawn, at most: those that restore most."""


def site_maps(found: PatchedModel) -> Figure | None:
    """Layers down, heads across, a panel for each site; None where the two texts do not differ."""
    patching = found.patching
    shares = {site: patching.restored_by_heads(site) for site in patching.effects}
    if not all(np.isfinite(share).all() for share in shares.values()):
        return None
    largest = max(float(np.abs(share).max()) for share in shares.values()) or 1.0
    layers = sorted({layer for layer, _ in patching.heads})
    widest = max(head for _, head in patching.heads) + 1
    side = (WIDTH - 40) // _ACROSS - 50
    x = Axis("number", "head", order=range(widest), ticks={"labelAngle": 0, "labelOverlap": True})
    y, panels = Axis("layer", order=[f"L{layer}" for layer in layers]), []
    for site, share in shares.items():
        rows = [
            {"head": named(head), "layer": f"L{head[0]}", "number": head[1], "restored": float(value)}
            for head, value in zip(patching.heads, share, strict=True)
        ]
        cells = head_map(rows, x, y, _restored(largest), shown=["head:N", ("restored:Q", ".1%")])
        panels.append(panel([cells], side, max(60, 26 * len(layers)), SITES[site]))
    return Figure(
        name="patched",
        part=OPENING,
        title="Share restored by each head",
        caption="The share of the gap between clean and corrupted metric that one head closes when its clean "
        "activation is patched into the corrupted run. Below 0, the gap widens. Shares need not add up to 100 %.",
        chart=grid(panels, _ACROSS, (22, 22)),
    )


def position_map(found: PatchedModel, site: PatchSite) -> Figure | None:
    """Draw the heads that restore most, tokens across; None for a site that was not patched position by position."""
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
    x, y = _tokens("at", found.positions), Axis("head", order=[named(head) for head in heads])
    colour = _restored(float(np.abs(share[order]).max()) or 1.0)
    cells = head_map(rows, x, y, colour, shown=["head:N", "token:N", "at:O", ("restored:Q", ".1%")])
    left_out = len(share) - len(order)
    return Figure(
        name=f"patched-{site}-by-position",
        part="Positions",
        title=f"Share restored at each position: {SITES[site]}",
        caption=(
            f"Each cell patches the head's {SITES[site]} from the clean text at one position of the corrupted text."
            + (" A number stands for a position at which pairs differ." if len(found.patching.clean) > 1 else "")
            + (f" Not drawn: {counted(left_out, 'head')} with smaller shares." if left_out else "")
        ),
        chart=panel([cells], min(WIDTH - 160, 26 * len(found.positions)), 18 * len(heads)),
    )


def patterns(found: PatchedModel) -> Figure:
    """Draw the attention patterns of heads, clean beside corrupted, queries down."""
    side = min(380, max(140, 16 * len(found.clean)))
    panels = [
        _pattern(each.head, name, tokens, weights, side)
        for each in found.patterns
        for name, tokens, weights in (
            ("clean", found.clean, each.clean),
            ("corrupted", found.corrupted, each.corrupted),
        )
    ]
    of_path = len(found.patterns) > 1
    return Figure(
        name="patterns",
        part="Patterns",
        title=(
            "Attention patterns of the heads of the strongest path"
            if of_path
            else "Attention pattern of the head with the largest effect"
        )
        + (", on the first pair" if len(found.patching.clean) > 1 else ""),
        caption="Rows are queries and columns are keys, from white (attention weight 0) to dark (1)."
        + (" The head above writes, and the head below reads." if of_path else ""),
        chart=grid(panels, 2, (24, 18)),
    )


def _pattern(head: Head, name: str, tokens: tuple[str, ...], weights: np.ndarray, side: int) -> Any:
    rows = [
        {"query": q, "key": k, "asks": tokens[q], "looks at": tokens[k], "weight": float(weights[q, k])}
        for q in range(len(tokens))
        for k in range(len(tokens))
        if weights[q, k] > 0
    ]
    colour = alt.Color("weight:Q", scale=_WEIGHTS, legend=None)
    shown: list[Hint] = [("asks:N", "", "query"), ("looks at:N", "", "key"), ("weight:Q", ".2f")]
    cells = head_map(rows, _tokens("key", tokens), _tokens("query", tokens), colour, shown=shown)
    return panel([cells], side, side, f"{named(head)}, {name} text")


def _tokens(column: str, tokens: tuple[str, ...]) -> Axis:
    """Positions, labelled by their tokens."""
    label = f"{json.dumps(list(tokens))}[datum.value]"
    ticks = {"labelExpr": label, "labelOverlap": True, "ticks": False, "labelLimit": 70}
    return Axis(column, order=range(len(tokens)), ticks=ticks)


def _restored(largest: float) -> Any:
    return valued("restored", about_zero(largest), "share restored", format=".0%")


MOST = 24
"""The largest number of heads."""


def restored_intervals(found: Patching) -> Figure | None:
    """The heads that restore most by some site, those of the first site first; None without intervals."""
    if len(found.clean) < 2 or not found.restorable:
        return None
    shares = {site: found.restored_by_heads(site) for site in found.effects}
    size = np.max([np.abs(share) for share in shares.values()], axis=0)
    shown = np.argsort(-size)[:MOST]
    first = next(iter(shares.values()))
    order = sorted(shown.tolist(), key=lambda at: -first[at])
    panels = {
        SITES[site]: np.column_stack([share, found.restored_interval(site), found.corrected_interval(site)])
        for site, share in shares.items()
    }
    left_out = len(found.heads) - len(order)
    return Figure(
        name="patched-intervals",
        part="Intervals",
        title="Share restored by each head, with intervals",
        caption=join(
            f"Thick lines are 95 % intervals over {counted(len(found.clean), 'pair')} of texts; thin lines are "
            f"simultaneous intervals. Beyond the dotted lines ({100 * MATTERS:.0f} %), Headway names a "
            "head.",
            f"Only the table shows {counted(left_out, 'head')} with smaller shares." if left_out else "",
        ),
        chart=interval_panels(
            [named(head) for head in found.heads],
            order,
            panels,
            unit="share of the difference",
            matters=MATTERS,
            number="~%",
            said="share",
        ),
    )


def head_path_maps(found: HeadPaths) -> Figure | None:
    """A map for each input, rows for the heads that write; None for a model of one layer with heads."""
    if not np.isfinite(found.through["q"]).any():
        return None
    largest = max(float(np.nanmax(np.abs(change))) for change in found.through.values()) or 1.0
    colour = valued("value", about_zero(largest), "change of the metric")
    chart, thinned = draw_paths(found.through, [named(head) for head in found.heads], colour)
    return Figure(
        name="paths",
        part="Paths",
        title="Direct effects between heads",
        caption=join(
            "Rows are heads patched from the clean text, and columns are later heads whose queries, keys or values "
            "read their output. All other activations stay corrupted.",
            thinned,
        ),
        chart=chart,
    )


_SHOWN = 8


def patch_page(found: PatchedModel) -> ModelPage:
    """The page, drawn; `patch.html`, `patch.json` and their figures are its files."""
    return ModelPage(
        verb="patch",
        title=f"Activation patching: {found.name}",
        headline=headline(found),
        read=f"Metric: {found.metric}. Texts: {found.read}",
        found=found,
        overview=most_restoring(found),
        heads=heads(found),
        figures=figures(found),
    )


def headline(found: PatchedModel) -> str:
    """Return whether the model knows the answer, and which heads restore how much of the metric's difference."""
    patching = found.patching
    known, *others = patch_statements(patching)
    if not patching.restorable:
        why = others[0] if patching.knows is False else others[-1]
        return f"{known.sentence} {why.sentence}"
    restored = next(each for each in others if each.kind in ("restored", "none_restored"))
    return f"{known.sentence} {restored.sentence}" if patching.knows else restored.sentence


def figures(found: PatchedModel) -> tuple[Figure, ...]:
    """Maps of what comes back, of positions, of paths from head to head, and patterns of the strongest of them."""
    paths = None if found.patching.paths is None else head_path_maps(found.patching.paths)
    of_positions = [position_map(found, site) for site in found.patching.effects]
    return tuple(
        filter(None, [site_maps(found), restored_intervals(found.patching), *of_positions, paths, patterns(found)])
    )


def most_restoring(found: PatchedModel) -> Table:
    """The heads that restore most by any site, with what each site restores; the metric if nothing can be restored."""
    if not found.patching.restorable:
        means = {"clean": found.patching.clean.mean(), "corrupted": found.patching.corrupted.mean()}
        rows = [Row(cells=(text, number(float(mean), 3))) for text, mean in means.items()]
        return Table(columns=("text", "metric"), rows=rows, caption=f"The metric is {found.metric}.")
    shares = _shares(found)
    table = np.stack([share for share, _, _ in shares.values()], axis=1)
    order = np.argsort(-np.abs(np.nan_to_num(table)).max(1))[:_SHOWN]
    rows = [
        Row(
            cells=(named(found.patching.heads[at]), *(_cell(exact[at], ends[at]) for exact, _, ends in shares.values()))
        )
        for at in order.tolist()
    ]
    caption = (
        f"The metric is {found.metric}. Each value is the share of the gap that one head closes. {_intervals(found)}"
    )
    return Table(columns=("", *(SITES[site] for site in shares)), rows=rows, caption=caption)


def heads(found: PatchedModel) -> Table:
    """A row for each head, the largest share first: the change of the metric by each site, exactly and as estimated."""
    patching, shares = found.patching, _shares(found)
    rows = []
    first = np.nan_to_num(next(iter(shares.values()))[0])
    for at in np.argsort(-np.abs(first), kind="stable").tolist():
        cells = [
            cell
            for exact, estimate, ends in shares.values()
            for cell in (_cell(exact[at], ends[at]), percent(estimate[at]))
        ]
        rows.append(Row(cells=(named(patching.heads[at]), *cells, "paths cancel" if patching.cancels[at] else "")))
    columns = ["", *(name for site in shares for name in (SITES[site], f"{SITES[site]}, estimated")), "estimate"]
    caption = (
        "Share of the gap that each patch closes: exact, and estimated by attribution patching (one backward pass). "
        f"If paths through later layers cancel, the estimate fails. {_intervals(found)}"
    )
    return Table(columns=columns, rows=rows, caption=caption)


def _shares(found: PatchedModel) -> dict[PatchSite, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return each site's shares by head, exact and estimated, and the exact shares' interval, over all positions."""
    patching, result = found.patching, dict[PatchSite, tuple[np.ndarray, np.ndarray, np.ndarray]]()
    difference = patching.difference if patching.restorable else float("nan")
    for site in patching.effects:
        estimate = patching.estimates[site].mean(-1) / difference
        estimate = estimate if estimate.ndim == 1 else estimate.sum(1)
        result[site] = (patching.restored_by_heads(site), estimate, patching.restored_interval(site))
    return result


def _cell(share: float, ends: np.ndarray) -> str:
    if not np.isfinite(ends).all():
        return percent(share)
    return filled("{share:z.1%} ({interval:z.1%})", share=share, interval=floats(ends))


def _intervals(found: PatchedModel) -> str:
    n = len(found.patching.clean)
    return f"95 % intervals over {n:,} pairs, not simultaneous." if n > 1 else "One pair is too few for intervals."

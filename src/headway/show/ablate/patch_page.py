"""Show: the page of what a finished model's heads did on one text, put into a run of another."""

import numpy as np

from headway.heads.causes.kinds import named
from headway.heads.causes.patch_findings import share_within
from headway.heads.causes.patched import PatchSite
from headway.heads.causes.patched_model import PatchedModel
from headway.show.ablate.effect_tables import percent
from headway.show.ablate.patch_intervals import restored_intervals
from headway.show.ablate.patch_maps import SITES, patterns, position_maps, site_maps
from headway.show.ablate.path_maps import path_maps
from headway.show.shared.figure import Figure
from headway.show.shared.model_page import ModelPage
from headway.show.shared.table import Row, Table
from headway.words import number

PART = "Heads put back"
_SHOWN = 8


def patch_page(found: PatchedModel) -> ModelPage:
    """The page, drawn; `patch.html`, `patch.json` and their figures are its files."""
    return ModelPage(
        verb="patch",
        what="heads put back",
        read=f"Put into a run of one text: what heads did on another. Metric: {found.metric}. Texts: {found.read}",
        found=found,
        overview=most_restoring(found),
        heads=heads(found),
        figures=figures(found),
    )


def figures(found: PatchedModel) -> tuple[Figure, ...]:
    """Maps of what comes back, of positions, of paths from head to head, and patterns of the strongest of them."""
    paths = None if found.patching.paths is None else path_maps(found.patching.paths)
    drawn = [
        site_maps(found, part=PART),
        restored_intervals(found.patching, part=PART),
        *position_maps(found, part=PART),
        paths,
        patterns(found, part="Patterns"),
    ]
    return tuple(figure for figure in drawn if figure is not None)


def most_restoring(found: PatchedModel) -> Table:
    """The heads that restore most by any site, with what each site restores."""
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
        f"The metric is {found.metric}. Shares of its difference between the two texts that come back with a head's "
        f"part from the clean text; they do not add up. {_intervals(found)}"
    )
    return Table(columns=("", *(SITES[site] for site in shares)), rows=tuple(rows), caption=caption)


def heads(found: PatchedModel) -> Table:
    """A row for each head: the change of the metric by each site, exactly and as estimated."""
    patching, shares = found.patching, _shares(found)
    rows = []
    for at, head in enumerate(patching.heads):
        cells = [
            cell
            for exact, estimate, ends in shares.values()
            for cell in (_cell(exact[at], ends[at]), percent(estimate[at]))
        ]
        rows.append(Row(cells=(named(head), *cells, "paths cancel" if patching.cancels[at] else "")))
    columns = ["", *(name for site in shares for name in (SITES[site], f"{SITES[site]}, estimated")), "estimate"]
    caption = (
        "Shares of the metric's difference that come back; estimated from one gradient, with softmaxes computed anew. "
        f"Where paths through later layers cancel, an estimate is not to be trusted. {_intervals(found)} "
        f"On these texts the metric is {number(float(patching.clean.mean()), 3)} (clean) and "
        f"{number(float(patching.corrupted.mean()), 3)} (corrupted)."
    )
    return Table(columns=tuple(columns), rows=tuple(rows), caption=caption)


def _shares(found: PatchedModel) -> dict[PatchSite, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of each site the shares of each head, exact and estimated, and the interval of the exact; over all positions."""
    patching, result = found.patching, dict[PatchSite, tuple[np.ndarray, np.ndarray, np.ndarray]]()
    difference = patching.difference if patching.differs else float("nan")
    for site in patching.effects:
        estimate = patching.estimates[site].mean(-1) / difference
        estimate = estimate if estimate.ndim == 1 else estimate.sum(1)
        result[site] = (patching.restored_by_heads(site), estimate, patching.restored_interval(site))
    return result


def _cell(share: float, ends: np.ndarray) -> str:
    return share_within(share, ends) if np.isfinite(ends).all() else percent(share)


def _intervals(found: PatchedModel) -> str:
    n = len(found.patching.clean)
    return f"Intervals of 95 % over {n:,} pairs, of each head on its own." if n > 1 else "Of one pair: no intervals."

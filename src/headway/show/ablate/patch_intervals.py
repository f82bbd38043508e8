"""Show: how much of a metric's difference comes back with each head, with intervals over pairs of texts."""

import numpy as np

from headway.heads.causes.kinds import named
from headway.heads.causes.patch_findings import MATTERS
from headway.heads.causes.patched import Patching
from headway.show.ablate.interval_panels import IntervalPanel, interval_panels
from headway.show.ablate.patch_maps import SITES
from headway.show.shared.figure import Figure
from headway.words import counted, join

MOST = 24
"""At most so many heads."""


def restored_intervals(found: Patching, *, part: str) -> Figure | None:
    """The heads that restore most by some site, those of the first site first; None without intervals."""
    if len(found.clean) < 2 or not found.differs:
        return None
    shares = {site: found.restored_by_heads(site) for site in found.effects}
    size = np.max([np.abs(share) for share in shares.values()], axis=0)
    shown = np.argsort(-size)[:MOST]
    first = next(iter(shares.values()))
    order = sorted(shown.tolist(), key=lambda at: -first[at])
    own, all_at_once = (
        {site: (ends[:, 0], ends[:, 1]) for site in shares for ends in [of(site)]}
        for of in (found.restored_interval, found.corrected_interval)
    )
    panels = [
        IntervalPanel(title=SITES[site], mean=share, own=own[site], all_at_once=all_at_once[site])
        for site, share in shares.items()
    ]
    n, left_out = len(found.heads), len(found.heads) - len(order)
    return Figure(
        name="patched-intervals",
        part=part,
        title="What comes back with each head, with intervals",
        caption=join(
            "The share of the metric's difference that comes back. "
            f"Thick: 95 % interval over {counted(len(found.clean), 'pair')} of texts; thin: one that holds for all "
            f"{counted(n, 'head')} at once. Dotted: {100 * MATTERS:.0f} %, beyond which a head is named.",
            "By position: the sum over positions." if next(iter(found.effects.values())).ndim > 2 else "",
            f"{counted(left_out, 'head')} that restore less stand in the table alone." if left_out else "",
        ),
        chart=interval_panels(
            [named(found.heads[at]) for at in order],
            order,
            panels,
            unit="share of the difference",
            matters=MATTERS,
            number="~%",
            said="share",
        ),
    )

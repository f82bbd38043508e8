"""Show: which head acts on which later one directly, and through what: a map for queries, keys and values each."""

from typing import Any

import numpy as np

from headway.heads.causes.kinds import named
from headway.heads.causes.patched import THROUGH, HeadPaths
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.head_colours import about_zero

_INTO = {"q": "into queries", "k": "into keys", "v": "into values"}
_LABEL, _LABELLED = 12, 80
"""Room for a head's label, and heads up to which each has one."""


def path_maps(found: HeadPaths) -> Figure | None:
    """A map for each input, rows for the heads that write; None for a model of one layer with heads."""
    import altair as alt

    known = np.isfinite(found.through["q"])
    if not known.any():
        return None
    # The last layer writes to none, the first reads none.
    writers, readers = (
        [head for head, some in zip(found.heads, known.any(axis), strict=True) if some] for axis in (1, 0)
    )
    place = {head: at for at, head in enumerate(found.heads)}
    width, height, across = _room(len(readers), len(writers))
    overlap = max(len(readers), len(writers)) > _LABELLED
    down, right = alt.Axis(labelOverlap=overlap), alt.Axis(labelAngle=-90, labelOverlap=overlap)
    largest = max(float(np.nanmax(np.abs(found.through[name]))) for name in THROUGH) or 1.0
    scale = about_zero(largest)
    legend = alt.Legend(title="change of the metric", orient="bottom", gradientLength=260, tickCount=5)
    panels: list[Any] = []
    for name in THROUGH:
        rows = [
            {"writer": named(one), "reader": named(other), "value": value}
            for one in writers
            for other in readers
            if np.isfinite(value := found.through[name][place[one], place[other]])
        ]
        chart = alt.Chart(inline(rows)).encode(
            x=alt.X(
                "reader:N",
                title=None,
                sort=[named(head) for head in readers],
                axis=right,
            ),
            y=alt.Y("writer:N", title=None, sort=[named(head) for head in writers], axis=down),
            color=alt.Color("value:Q", scale=scale, legend=legend),
            tooltip=["writer:N", "reader:N", alt.Tooltip("value:Q", format=".3g")],
        )
        panels.append(chart.mark_rect().properties(width=width, height=height, title=_INTO[name]))
    return Figure(
        name="paths",
        part="Paths",
        title="Which head acts on which",
        caption="Rows: the head that writes, as on the clean text; columns: the later head that reads it into its "
        "queries, keys or values, with everything else as on the corrupted text: direct effects, with no head between.",
        chart=(alt.hconcat if across else alt.vconcat)(*panels, spacing=18),
    )


def _room(readers: int, writers: int) -> tuple[int, int, bool]:
    """Width and height of a map, and whether three stand side by side: where every head has its label there."""
    side = (WIDTH - 60) // 3 - 70
    if max(readers, writers) * _LABEL <= side:
        return side, side, True
    return min(WIDTH - 120, 2 * _LABEL * readers), _LABEL * writers, False

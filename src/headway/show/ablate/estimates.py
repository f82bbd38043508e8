"""Show: cheap estimates of what heads do against what they do: a panel for each estimate and way."""

from typing import Any

import numpy as np

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.effect_findings import nats, ways_told
from headway.heads.causes.kinds import KINDS, Kind, named
from headway.show.ablate.effect_tables import WAYS
from headway.show.shared.figure import Figure, ends, inline
from headway.show.shared.theme import ARM_COLOURS, QUIET

ESTIMATES = {"michel": "Michel's importance", "first-order": "first order", "integrated": "integrated"}
_WIDE, _HIGH = 250, 190


def estimates(found: Ablation, *, part: str) -> Figure | None:
    """Estimates against exact effects, a point for each head; None of a single head."""
    import altair as alt

    exact = {kind: found.exact.single[kind].flat() for kind in KINDS}
    if len(exact["zero"]) < 2:
        return None
    names = [named(head) for head, _ in found.exact.single["zero"].heads()]
    michel = np.concatenate([*found.michel, np.zeros(0)])
    lines = []
    for name, said in ESTIMATES.items():
        panels = []
        for kind in KINDS:
            of = {"michel": michel, "first-order": found.first_order[kind].flat()}
            values = of.get(name, found.integrated[kind].flat())
            title = _title(found, kind, name)
            panels.append(_panel(names, exact[kind], values, said, title, diagonal=name != "michel"))
        lines.append(alt.hconcat(*panels, spacing=26))
    return Figure(
        name="estimates",
        part=part,
        title="What cheap estimates say of each head, against what it does",
        caption="Across: the exact change of the loss without the head, in nats per token; up: the estimate of it. On "
        "the dashed line the estimate is exact. Michel's importance has no sign: "
        "its ranks are also held against the sizes of effects. Where no head's effect is told from 0 there is nothing "
        "to rank. Integrated values are shares of the "
        "joint effect of all heads, and no effects of one head.",
        chart=alt.vconcat(*lines, spacing=18),
    )


def _title(found: Ablation, kind: Kind, name: str) -> str:
    """The way, and how the estimate ranks heads where there is something to rank."""
    rank, sizes = found.agreement[kind][name], found.agreement_of_sizes[kind]
    if kind not in ways_told(found) or not np.isfinite(rank):
        return WAYS[kind]
    of_sizes = f" ({nats(sizes)} of sizes)" if name == "michel" and np.isfinite(sizes) else ""
    return f"{WAYS[kind]}: rank correlation {nats(rank)}{of_sizes}"


def _panel(names: list[str], exact: np.ndarray, values: np.ndarray, said: str, title: str, *, diagonal: bool) -> Any:
    import altair as alt

    rows = [{"head": n, "exact": e, "estimate": v} for n, e, v in zip(names, exact, values, strict=True)]
    across, up = ends(exact.tolist(), beside=0.06), ends(values.tolist(), beside=0.06)
    few = alt.Axis(tickCount=4, format="~r", grid=True)
    x = alt.X("exact:Q", title="exact", scale=alt.Scale(domain=across, nice=False), axis=few)
    y = alt.Y("estimate:Q", title=said, scale=alt.Scale(domain=up, nice=False), axis=few)
    tooltip = ["head:N", *(alt.Tooltip(f"{f}:Q", format=".3~g") for f in ("exact", "estimate"))]
    points = alt.Chart(inline(rows)).mark_point(color=ARM_COLOURS[0], filled=True, size=34, opacity=0.75)
    layers = [points.encode(x=x, y=y, tooltip=tooltip)]
    if diagonal:
        low, high = max(across[0], up[0]), min(across[1], up[1])
        if low < high:
            line = alt.Chart(inline([{"exact": at, "estimate": at} for at in (low, high)]))
            layers.insert(0, line.mark_line(color=QUIET, strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y))
    return alt.layer(*layers).properties(
        width=_WIDE, height=_HIGH, title=alt.TitleParams(title, fontSize=12, fontWeight="normal")
    )

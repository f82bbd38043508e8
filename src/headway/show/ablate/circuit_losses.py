"""Show: the loss with a circuit alone, beside other circuits of as many heads: a panel for each way."""

from typing import Any

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.faithful import Faithfulness, random_circuits_said
from headway.heads.causes.kinds import named
from headway.show.ablate.effect_tables import WAYS
from headway.show.shared.figure import Figure, ends, inline
from headway.show.shared.theme import ARM_COLOURS, QUIET
from headway.words import listed

_ALL, _NONE, _OWN, _RANDOM = "all heads", "no head", "these alone", "others alone"
_ROWS = (_ALL, _OWN, _RANDOM, _NONE)


def circuit_losses(found: Ablation, *, part: str) -> Figure | None:
    """The loss with all heads, with the circuit, with each other one, and with none; None where nobody asked."""
    import altair as alt

    if found.circuit is None:
        return None
    one = next(iter(found.circuit.values()))
    panels = [_panel(each, WAYS[kind], at == 0) for at, (kind, each) in enumerate(found.circuit.items())]
    return Figure(
        name="circuit",
        part=part,
        title=f"The loss with {listed(map(named, one.heads))} alone",
        caption="Everything outside a circuit is taken away, in one of three ways. Thick: 95 % interval over "
        f"sequences. Others alone: {random_circuits_said(one)}, a line each. The nearer a circuit is to all heads, "
        "and the farther from no head, the more it keeps.",
        chart=alt.hconcat(*panels, spacing=14),
    )


def _panel(found: Faithfulness, title: str, named_rows: bool) -> Any:
    import altair as alt

    low, high = found.circuit_interval
    points = [
        {"row": _ALL, "loss": found.whole},
        {"row": _OWN, "loss": found.circuit, "low": low, "high": high},
        {"row": _NONE, "loss": found.none},
    ]
    others = [{"row": _RANDOM, "loss": float(loss)} for loss in found.random]
    axis = alt.Axis(ticks=False, domain=False, grid=False) if named_rows else None
    y = alt.Y("row:N", sort=list(_ROWS), title=None, scale=alt.Scale(domain=list(_ROWS)), axis=axis)
    domain = ends([found.whole, found.circuit, low, high, found.none, *map(float, found.random)], beside=0.05)
    scale = alt.Scale(domain=domain, nice=False)
    x = alt.X("loss:Q", title="nats per token", scale=scale, axis=alt.Axis(format="~r", tickCount=5))
    tooltip = [alt.Tooltip("row:N", title="with"), alt.Tooltip("loss:Q", format=".4~g")]
    base = alt.Chart(inline(points)).encode(y=y)
    marks = [
        alt.Chart(inline(others)).mark_tick(color=QUIET, thickness=1, height=16).encode(x=x, y=y, tooltip=tooltip),
        base.mark_rule(color=ARM_COLOURS[0], strokeWidth=3).encode(x=alt.X("low:Q"), x2="high:Q"),
        base.mark_point(color=ARM_COLOURS[0], filled=True, opacity=1, size=52).encode(x=x, tooltip=tooltip),
    ]
    return alt.layer(*marks).properties(width=272, height=110, title=title)

"""Show: what an arm costs, the time of a training step and the memory, from solo timings alone.

Runs of a sweep share the machine, so their own seconds are no measurement.
"""

from collections.abc import Sequence
from typing import Any

from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared import labels
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.tokens.loss_against_heads import total
from headway.words import counted, join

SIZE = (WIDTH // 2 - 60, 300)
COSTS = {"step_s": "seconds per training step", "memory_mib": "peak memory (MiB)"}


def cost(material: ReportData) -> Figure | None:
    """Against total heads, or against parameters where all arms have as many heads; None without timings."""
    import altair as alt

    arms = [arm for arm in material.arms if arm.name in material.timings]
    if not arms:
        return None
    by_heads = len({total(arm) for arm in arms}) > 1
    rows = [_row(material, arm, by_heads) for arm in arms]
    panels = [
        _panel(rows, column, by_heads).properties(width=SIZE[0], height=SIZE[1], title=title)
        for column, title in COSTS.items()
        if all(row[column] is not None for row in rows)
    ]
    return Figure(
        name="cost",
        part="Cost",
        title=f"Time and memory against the number of {'heads' if by_heads else 'parameters'}",
        caption=join(
            "From a short timing of each arm with the machine to itself, apart from the sweep; the bar of a step time "
            "is the range of its repetitions.",
            "Memory is counted above what the process held before the model was built.",
            "All axes begin at 0, except that of parameters." if not by_heads else "The axes of cost begin at 0.",
            _executed(material, arms),
        ),
        chart=alt.hconcat(*panels, spacing=40),
    )


def _row(material: ReportData, arm: ArmResults, by_heads: bool) -> dict[str, Any]:
    timing = material.timings[arm.name]
    memory = timing.get("memory_bytes")
    low, high = timing.get("step_s_range") or (timing["step_s"],) * 2
    return {
        "arm": arm.label,
        "label": arm.look.point,
        "what": arm.look.scheme if by_heads and arm.look.scheme else arm.label,
        "colour": arm.colour,
        "x": total(arm) if by_heads else arm.shown.metrics.get("n_parameters", 0) / 1e6,
        "step_s": timing["step_s"],
        "low": low,
        "high": high,
        "memory_mib": None if memory is None else memory / 2**20,
        "tokens_per_s": timing.get("tokens_per_s"),
    }


def _panel(rows: list[dict[str, Any]], column: str, by_heads: bool) -> Any:
    import altair as alt

    places = [row["x"] for row in rows]
    reach = 0.3 * (max(places) - min(places)) or 1
    domain = [max(0, min(places) - reach), max(places) + reach]
    x = alt.X(
        "x:Q",
        title="heads in all layers" if by_heads else "parameters (millions)",
        scale=alt.Scale(domain=domain, nice=False),
    )
    top = 1.1 * max(row["high"] if column == "step_s" else row[column] or 0.0 for row in rows)
    y = alt.Y(f"{column}:Q", title=COSTS[column], scale=alt.Scale(domain=[0, top], nice=False))
    schemes = {row["what"]: row["colour"] for row in rows}
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=list(schemes), range=list(schemes.values())),
        legend=alt.Legend(title=None, orient="bottom", symbolType="circle", symbolStrokeWidth=0) if by_heads else None,
    )
    chart = alt.Chart(inline(rows)).encode(x=x, color=colour)
    tooltip = ["arm:N", "x:Q", "step_s:Q", "tokens_per_s:Q", "memory_mib:Q"]
    layers = [chart.mark_rule(strokeWidth=1.6).encode(y="low:Q", y2="high:Q")] if column == "step_s" else []
    layers.append(
        chart.mark_point(size=80, filled=True, opacity=0.75, stroke="white", strokeWidth=0.5).encode(
            y=y, tooltip=tooltip
        )
    )
    if not by_heads:
        (left, right), (width, height) = domain, SIZE
        named = [
            labels.Named(
                x=width * (row["x"] - left) / (right - left), y=height * (1 - row[column] / top), name=row["label"]
            )
            for row in rows
        ]
        chosen = labels.sides(named, width=width, height=height)
        layers += labels.text_layers(rows, chosen, {"x": x, "y": y, "color": colour})
    return alt.layer(*layers)


def _executed(material: ReportData, arms: Sequence[ArmResults]) -> str:
    found = [material.timings[arm.name].get("execution") or {} for arm in arms]
    devices = sorted({str(e["device"]) for e in found if e.get("device")})
    threads = sorted({e["threads"] for e in found if e.get("threads")})
    if not devices:
        return ""
    *others, most = threads or [0]
    of_threads = f", {''.join(f'{n} or ' for n in others)}{counted(most, 'thread')}" if most else ""
    return f"On {', '.join(devices)}{of_threads}."

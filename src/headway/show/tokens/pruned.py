"""Show: what the loss does when heads go and nothing is trained: by how many, by which rule, and when in training."""

from collections.abc import Sequence
from typing import Any

from headway.compare.tokens.without_training import PrunedAtOnce, pruned_at_once
from headway.show.report.laboratory import Statement
from headway.show.report.report_data import ReportData
from headway.show.shared.figure import WIDTH, Figure, Look, inline, keyed
from headway.show.shared.summary import SEEDS, over_seeds
from headway.show.shared.theme import ARM_COLOURS, QUIET, SOLID
from headway.words import counted, join, listed

_MUCH = 0.01
"""A share of the loss."""
_RISE = "rise of the evaluation loss (nats per token)"
_METHODS = {
    "random": (QUIET, (4, 3)),
    "magnitude": (ARM_COLOURS[7], SOLID),
    "output": (ARM_COLOURS[5], SOLID),
    "alike": (ARM_COLOURS[1], SOLID),
    "alike-either": (ARM_COLOURS[1], (4, 3)),
    "taylor": (ARM_COLOURS[0], SOLID),
    "ablation": (ARM_COLOURS[2], SOLID),
    "gates": (ARM_COLOURS[3], SOLID),
    "budget": (ARM_COLOURS[4], SOLID),
}
"""A method keeps its colour; those that draw are dashed: random heads, the floor of the others, and either of two."""
_EXPLAINED = {
    "random": "heads drawn at random",
    "magnitude": "the norm of what a head can write",
    "output": "what a head adds to the stream",
    "alike": "of the most alike two the one that adds less goes",
    "alike-either": "one of them, drawn, goes",
    "taylor": "Michel's importance",
    "ablation": "the exact effect of each",
    "gates": "learned gates with an L0 penalty",
    "budget": "a learned choice of so many",
}


def against_kept(material: ReportData) -> Figure | None:
    """The rise of the loss against the share of heads kept, a line per method; None without two shares of one."""
    found = [one for one in _found(material) if one.step == max(each.step for each in _found(material))]
    shares = {method: {one.kept for one in found if one.method == method} for method in _METHODS}
    if max(map(len, shares.values())) < 2:
        return None
    methods = [method for method in _METHODS if shares[method]]
    rows = [
        {"what": method, "kept": 100 * kept, "x": 100 * kept, **_spread(rises)}
        for method in methods
        for kept, rises in [
            (1.0, [0.0]),
            *((one.kept, list(one.rises.values())) for one in found if one.method == method),
        ]
    ]
    looks = [(method, *_METHODS[method]) for method in methods]
    return Figure(
        name="pruned",
        part="Outcome",
        title="What the loss does without some of the heads",
        caption=join(
            "Each point is the trained model with so many of its heads and no further training, judged on the same "
            "held-out sequences; the rise is that of the same seed.",
            _lines(material),
            "; ".join(f"{method}: {_EXPLAINED[method]}" for method in methods) + ".",
        ),
        chart=_lines_chart(rows, looks, title="heads kept (%)", reverse=True),
    )


def over_training(material: ReportData) -> Figure | None:
    """The rise of the loss against the step at which heads were taken; a line per share kept. None for one step."""
    found = _found(material)
    shares = sorted({round(one.kept, 3) for one in found}, reverse=True)
    if len({one.step for one in found}) < 2:
        return None
    rows = [
        {"what": f"{100 * one.kept:.0f} % of the heads kept", "x": one.step, **_spread(list(one.rises.values()))}
        for one in sorted(found, key=lambda one: one.step)
    ]
    names = dict.fromkeys(f"{100 * share:.0f} % of the heads kept" for share in shares)
    looks: list[Look] = [(name, ARM_COLOURS[at % len(ARM_COLOURS)], SOLID) for at, name in enumerate(names)]
    return Figure(
        name="pruned-over-training",
        part="Outcome",
        title="How many heads can go, and when in training",
        caption=join(
            "The model is pruned as it was at a training step, by Michel's importance measured there, and judged at "
            "once; the rise is against the same model with all of its heads. Near 0 these heads could go.",
            _lines(material),
        ),
        chart=_lines_chart(rows, looks, title="training step at which heads are taken", reverse=False),
    )


def prunable(material: ReportData) -> Statement | None:
    """How many heads can go at each step and the loss hardly rises, by the upper end of its interval.

    None where they were taken at one step, or where seeds are too few for an interval.
    """
    found = _found(material)
    steps = sorted({one.step for one in found})
    if len(steps) < 2 or material.n_seeds < SEEDS:
        return None
    said = []
    for step in steps:
        fitting = [1 - one.kept for one in found if one.step == step and _hardly(one)]
        said.append(
            f"{100 * max(fitting):.0f} % at step {step:,}" if fitting else f"none that was tried at step {step:,}"
        )
    sentence = "Of the shares that were tried, so many heads can go and the loss rises by no more than 1 %, at the "
    sentence += f"upper end of its 95 % interval over seeds: {listed(said)}"
    return Statement(sentence=sentence, colour=QUIET)


def _hardly(one: PrunedAtOnce) -> bool:
    """Whether the loss is known to rise by no more than that: a mean alone may be below it by the luck of its seeds."""
    return len(one.rises) >= SEEDS and over_seeds(list(one.rises.values())).high <= _MUCH * one.loss


def _found(material: ReportData) -> list[PrunedAtOnce]:
    finals = {arm.name: {run.seed: run.metrics for run in arm.runs} for arm in material.arms}
    steps = {arm.name: arm.shown.run.steps for arm in material.arms}
    return list(pruned_at_once(material.experiment.arms, finals, steps))


def _lines(material: ReportData) -> str:
    if material.n_seeds < SEEDS:
        return f"Mean of {counted(material.n_seeds, 'seed')}, no interval."
    return f"Mean of {counted(material.n_seeds, 'seed')}; the band is its 95 % interval (t)."


def _spread(rises: Sequence[float]) -> dict[str, float]:
    import numpy as np

    mean = over_seeds(np.array(rises))
    return {"rise": mean.mean, "low": mean.low, "high": mean.high, "seeds": len(rises)}


def _lines_chart(rows: Sequence[dict[str, Any]], looks: Sequence[Look], *, title: str, reverse: bool) -> Any:
    import altair as alt

    look = keyed("what", looks, nested=False)
    scale = alt.Scale(reverse=reverse, nice=False, zero=False) if reverse else alt.Scale(type="log", nice=False)
    ticks = sorted({row["x"] for row in rows})
    x = alt.X("x:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, format=",.0f"))
    base = alt.Chart(inline(rows)).encode(x=x)
    low, y = (alt.Y(f"{end}:Q", title=_RISE) for end in ("low", "rise"))
    tooltip = ["what:N", alt.Tooltip("x:Q", title=title), "rise:Q", "low:Q", "high:Q", "seeds:Q"]
    zero = alt.Chart(inline([{"rise": 0.0}])).mark_rule(color=QUIET, strokeDash=[1, 3]).encode(y=y)
    return alt.layer(
        zero,
        base.mark_area(opacity=0.14).encode(y=low, y2="high:Q", color=look["color"]),
        base.mark_line().encode(y=y, **look, tooltip=tooltip),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, color=look["color"], tooltip=tooltip),
    ).properties(width=WIDTH - 60, height=420)

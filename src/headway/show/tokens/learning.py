"""Show: the evaluation loss of language models during training, against tokens and against hours."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.declare.log_spaced import thinned
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.report.seed_series import per_seed
from headway.show.shared.figure import WIDTH, Figure, Look, inline, keyed
from headway.show.shared.theme import SOLID
from headway.show.tokens.finished_run import declared
from headway.show.tokens.ngram_rules import looks_within, values
from headway.words import counted, join, listed

METRIC = "eval_loss_nats"
POINTS = 150

LATE = 0.4
"""The second row shows training from this share of its steps on."""


def learning(material: ReportData) -> Figure | None:
    """Evaluation loss against the tokens trained on: whole, and the later part again; a column per group."""
    rows = {arm.name: list(_rows(arm, _tokens(arm))) for arm in material.arms}
    last = max((row["x"] for found in rows.values() for row in found), default=0.0)
    scale = 1e6 if last >= 1e6 else 1e3
    return _figure(
        material,
        {name: [{**row, "x": row["x"] / scale} for row in found] for name, found in rows.items()},
        name="learning",
        title="Evaluation loss during training",
        axis=f"tokens trained on ({'millions' if scale == 1e6 else 'thousands'})",
        note="Of arms that start from others, their own training alone."
        if any(arm.shown.run.spec.parent for arm in material.arms)
        else "",
    )


def hours(material: ReportData) -> Figure | None:
    """The same against hours, as the solo timings have them; None where an arm has no timing, or none differ."""
    steps = {arm.name: material.timings.get(arm.name, {}).get("step_s") for arm in material.arms}
    if any(step is None for step in steps.values()) or len(set(steps.values())) < 2:
        return None
    unit, seconds = _unit(max(float(steps[arm.name]) * arm.shown.run.steps for arm in material.arms))  # type: ignore[arg-type]
    rows = {arm.name: list(_rows(arm, lambda step, arm=arm: step * steps[arm.name] / seconds)) for arm in material.arms}
    return _figure(
        material,
        rows,
        name="learning-hours",
        title="Evaluation loss against time",
        axis=f"{unit} of training",
        note="Time is the number of steps times the step time that a short timing measured with the machine to itself.",
    )


def _unit(seconds: float) -> tuple[str, float]:
    return ("hours", 3600.0) if seconds >= 2 * 3600 else ("minutes", 60.0)


def _tokens(arm: ArmResults) -> Any:
    known = {record["step"]: record["tokens"] for record in arm.shown.records if record.get("tokens") is not None}
    per_step = declared(arm.shown).training.batch_size * declared(arm.shown).task.n_ctx
    return lambda step: known.get(int(step), step * per_step)


def _rows(arm: ArmResults, x_of: Any) -> Iterator[dict[str, Any]]:
    steps, losses = per_seed(arm, METRIC)
    for at in thinned(steps.tolist(), POINTS) if len(steps) else []:
        column, x = losses[:, at], x_of(int(steps[at]))
        yield {
            "what": _what(arm),
            "arm": arm.label,
            "step": steps[at],
            "x": x,
            "loss_nats": column.mean(),
            "low": column.min(),
            "high": column.max(),
        }


def _what(arm: ArmResults) -> str:
    """Its name in the legend: in a panel for each group, the scheme says it."""
    return arm.look.scheme if arm.look.scheme and arm.shown.run.group else arm.label


def _columns(material: ReportData) -> dict[str, list[ArmResults]]:
    """The arms of each panel: those of a group, with the arms of no group beside them in every one."""
    groups = material.experiment.groups
    columns = {name: [arm for arm in material.arms if arm.shown.run.group == name] for name in groups}
    columns = {name: arms for name, arms in columns.items() if arms}
    alone = [arm for arm in material.arms if arm.shown.run.group not in groups]
    if len(columns) < 2:
        return {"": list(material.arms)}
    return {name: [*arms, *alone] for name, arms in columns.items()}


def _figure(
    material: ReportData, rows: Mapping[str, list[dict[str, Any]]], *, name: str, title: str, axis: str, note: str
) -> Figure | None:
    import altair as alt

    every = [row for found in rows.values() for row in found]
    if not every:
        return None
    columns = _columns(material)
    later = [row for found in rows.values() for row in found if row["step"] >= LATE * found[-1]["step"]]
    references = list(values(material).values())
    whole = [
        0.97 * min([row["low"] for row in every] + references),
        1.03 * max([row["high"] for row in every] + references),
    ]
    zooms = max(sum(row["arm"] == one["arm"] for row in later) for one in later) > 1  # a curve, and not a point
    margin = 0.06 * (max(row["high"] for row in later) - min(row["low"] for row in later))
    near = [min(row["low"] for row in later) - margin, max(row["high"] for row in later) + margin]
    width = (WIDTH - 60) // len(columns) - 62 if len(columns) > 1 else (WIDTH - 60) // 2 - 20
    looks = _looks(material, whole)
    first = {
        title: _panel(material, arms, rows, looks, whole, axis=axis, width=width, title=title)
        for title, arms in columns.items()
    }
    zoomed = {
        title: _panel(material, arms, rows, looks, near, axis=axis, width=width, title="", late=True)
        for title, arms in (columns.items() if zooms else ())
    }
    grid = (
        alt.vconcat(alt.hconcat(*first.values()), alt.hconcat(*zoomed.values()))
        if len(columns) > 1 and zooms
        else alt.hconcat(*first.values(), *zoomed.values())
    )
    where = "below" if len(columns) > 1 else "right"
    alone = [arm.label for arm in material.arms if len(columns) > 1 and arm.shown.run.group is None]
    return Figure(
        name=name,
        part="Training",
        title=title,
        caption=join(
            f"Loss on {_sequences(material)}.",
            f"A line is the mean over {counted(material.n_seeds, 'seed')}; its band reaches from the smallest to the "
            "largest seed."
            if material.n_seeds > 1
            else "One seed, so no band.",
            f"A column per group{'; ' + listed(alone) + ' is drawn in each' if alone else ''}." if alone else "",
            f"{where.capitalize()}, the same from {100 * LATE:.0f} % of the training on, drawn larger."
            if zooms
            else "",
            note,
            f"Curves are thinned to at most {POINTS} points."
            if any(len(per_seed(arm, METRIC)[0]) > POINTS for arm in material.arms)
            else "",
        ),
        chart=grid,
    )


def _sequences(material: ReportData) -> str:
    counts = {
        (declared(arm.shown).evaluation.sequences_during, declared(arm.shown).evaluation.sequences)
        for arm in material.arms
    }
    if len(counts) > 1:
        return "the same held-out sequences"
    ((during, final),) = counts
    rest = "all" if final is None else f"{final:,}"
    return f"the same {during:,} held-out sequences; the final loss is that of {rest}"


def _looks(material: ReportData, domain: Sequence[float]) -> list[Look]:
    arms = {_what(arm): (_what(arm), arm.colour, _dash(arm)) for arm in material.arms}
    return [*arms.values(), *(look for look, _ in looks_within(material, domain))]


def _dash(arm: ArmResults) -> tuple[float, ...]:
    return SOLID if arm.shown.run.group else arm.look.dash


def _panel(
    material: ReportData,
    arms: Sequence[ArmResults],
    rows: Mapping[str, list[dict[str, Any]]],
    looks: Sequence[Look],
    domain: Sequence[float],
    *,
    axis: str,
    width: int,
    title: str,
    late: bool = False,
) -> Any:
    import altair as alt

    look = keyed("what", looks, nested=False)
    # Vega-Lite warns of a zero on a logarithmic axis, even of one that is refused.
    kind: dict[str, Any] = {"type": "linear", "zero": False} if late else {"type": "log"}
    scale = alt.Scale(domain=list(domain), nice=False, **kind)
    y_axis = alt.Axis(tickCount=5, minExtent=34)
    y = alt.Y("loss_nats:Q", title="evaluation loss (nats)", scale=scale, axis=y_axis)
    drawn = [row for arm in arms for row in rows[arm.name]]
    if late:
        drawn = [row for arm in arms for row in rows[arm.name] if row["step"] >= LATE * rows[arm.name][-1]["step"]]
    x = alt.X("x:Q", title=axis, scale=alt.Scale(nice=False, zero=not late), axis=alt.Axis(tickCount=6))
    base = alt.Chart(inline(drawn)).encode(x=x, color=look["color"], detail="arm:N")
    band_y = alt.Y("low:Q", title="evaluation loss (nats)", scale=scale, axis=y_axis)
    layers = [base.mark_area(opacity=0.18, clip=True).encode(y=band_y, y2="high:Q")] if material.n_seeds > 1 else []
    tooltip = ["arm:N", "step:Q", alt.Tooltip("x:Q", title=axis), "loss_nats:Q"]
    layers.append(base.mark_line(clip=True).encode(y=y, **look, tooltip=tooltip))
    references = looks_within(material, domain)
    if references:
        rules = alt.Chart(inline([{"what": name, "loss_nats": loss} for (name, _, _), loss in references]))
        layers.append(rules.mark_rule().encode(y=y, **look, tooltip=["what:N", "loss_nats:Q"]))
    return alt.layer(*layers).properties(width=width, height=230 if title else 260, title=title)

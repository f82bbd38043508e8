"""Show: what a model does without its heads, as tables: a row for each way of taking them away, and for each head."""

import numpy as np

from headway.heads.causes.ablated import Ablation
from headway.heads.causes.effect_findings import MATTERS, nats, share_that_is_told, ways_told, within
from headway.heads.causes.effects import interval
from headway.heads.causes.kinds import KINDS, Kind, named
from headway.show.shared.table import Row, Table
from headway.words import number

WAYS: dict[Kind, str] = {"zero": "set to zero", "mean": "at the mean", "resample": "resampled"}


def ways(found: Ablation) -> Table:
    """A row for each way: joint effect, share of it, heads that matter, and how estimates rank heads."""
    exact, told = found.exact, ways_told(found)
    columns = {
        "": [WAYS[kind] for kind in KINDS],
        "without any head": [
            within(exact.joint_mean(kind), [float(end) for end in interval(exact.joint[kind], exact.tokens)])
            for kind in KINDS
        ],
        "single effects of it": [percent(share_that_is_told(exact, kind)) for kind in KINDS],
        "heads that matter": [str(_mattering(found, kind)) for kind in KINDS],
    } | {
        f"rank by {said}": [_rank(values[kind]) if kind in told else "–" for kind in KINDS]
        for said, values in {
            "Michel": {kind: found.agreement[kind]["michel"] for kind in KINDS},
            "Michel, of sizes": found.agreement_of_sizes,
            "first order": {kind: found.agreement[kind]["first-order"] for kind in KINDS},
            "integrated": {kind: found.agreement[kind]["integrated"] for kind in KINDS},
        }.items()
    }
    low, high = map(float, interval(exact.loss, exact.tokens))
    caption = (
        f"The loss of the whole model is {within(found.loss_nats, (low, high))} nats per token. Changes are in nats "
        "per token, with 95 % intervals over sequences. A head matters from "
        f"{nats(MATTERS)} nats on, by an interval that holds for all heads at once. Ranks: rank correlation of an "
        "estimate with the exact effects of heads; of sizes: with these without their sign, which Michel's importance "
        "does not have. Where no head's effect is told from 0 there is nothing to rank."
    )
    rows = tuple(Row(cells=cells) for cells in zip(*columns.values(), strict=True))
    return Table(columns=tuple(columns), rows=rows, caption=caption)


def heads(found: Ablation) -> Table:
    """A row for each head, those that the loss rises most without, at their mean, first."""
    single = found.exact.single
    ends = {kind: single[kind].interval() for kind in KINDS}
    rows = []
    for (layer, head), _ in single["mean"].ranked():
        exact = [within(float(single[kind].mean[layer][head]), ends[kind][layer][head]) for kind in KINDS]
        first, along = (
            [number(float(effects[kind].mean[layer][head]), 2) for kind in KINDS]
            for effects in (found.first_order, found.integrated)
        )
        michel = number(float(found.michel[layer][head]), 2)
        rows.append(Row(cells=(named((layer, head)), *exact, michel, *first, *along)))
    columns = (
        "",
        *(WAYS[kind] for kind in KINDS),
        "Michel",
        *(f"first order, {kind}" for kind in KINDS),
        *(f"integrated, {kind}" for kind in KINDS),
    )
    caption = (
        "Changes of the loss without the head, in nats per token; intervals of 95 %, of each head on its own. First "
        "order and integrated are estimates of the same."
    )
    return Table(columns=columns, rows=tuple(rows), caption=caption)


def _mattering(found: Ablation, kind: Kind) -> int:
    ends = np.concatenate([*found.exact.single[kind].corrected_interval(), np.zeros((0, 2))])
    return int(((ends[:, 0] > MATTERS) | (ends[:, 1] < -MATTERS)).sum())


def percent(value: float) -> str:
    """A share as a whole number of per cent, which is never minus nothing.

    Examples:
        >>> percent(0.256), percent(-0.001), percent(float("nan"))
        ('26 %', '0 %', '–')
    """
    return f"{round(100 * value)} %".replace("-", "−") if np.isfinite(value) else "–"


def _rank(value: float) -> str:
    return nats(value) if np.isfinite(value) else "–"

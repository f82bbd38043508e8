"""Settle: what somebody writes: a margin, a budget; and whether what is judged can be settled at all."""

import math
import re
from dataclasses import dataclass

from headway.compare.look_plan import FEWEST
from headway.declare.document import MOST_SEEDS
from headway.declare.experiment import Experiment
from headway.declare.metrics import METRICS, YES_OR_NO, metric_name
from headway.errors import UserError, shortened

AT_MOST = 12
"""Seeds at which a plan ends where nobody says where."""

_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|m|h|d)")
_LONGEST_S = 10 * 365 * 86400.0
_MOST_RUNS = 10_000_000
_WITHOUT_SHARE = ("fraction", YES_OR_NO, "1")
"""Units of metrics that may be 0: a yes or a no, or a share of them, has no ratio to another."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What may be spent: seconds, or runs; None: it is not said."""

    seconds: float | None = None
    runs: int | None = None


def margin_of(text: object) -> float:
    """A margin in per cent.

    Raises:
        UserError: when it is none.

    Examples:
        >>> margin_of("0.5%"), margin_of("2 %")
        (0.5, 2.0)
    """
    said = f"until {shortened(str(text))}"
    found = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*%\s*", str(text))
    if not found:
        raise UserError(f"{said}: give the difference that matters in per cent, such as 0.5%")
    margin = float(found[1])
    if not margin > 0:
        raise UserError(f"{said}: no number of seeds shows that arms are equal; give what matters, such as 0.5%")
    if not margin < 100:
        raise UserError(f"{said}: everything is the same within 100 %; give the difference that matters, such as 0.5%")
    return margin


def at_most_of(given: object) -> int:
    """The seeds at which a plan ends.

    Raises:
        UserError: when it cannot end there.
    """
    if isinstance(given, bool) or not isinstance(given, int) or given < FEWEST:
        raise UserError(f"at most {given} seeds: nothing is settled with less than {FEWEST}; give {FEWEST} or more")
    if given > MOST_SEEDS:
        raise UserError(f"at most {given:,} seeds: there are {MOST_SEEDS:,}; give fewer")
    return given


def allowance_of(given: object) -> Allowance:
    """A budget: a time, or a number of runs.

    Raises:
        UserError: when it is neither, or nothing.

    Examples:
        >>> allowance_of("1h 30min").seconds, allowance_of("160").runs
        (5400.0, 160)
    """
    text = str(given).strip()
    if isinstance(given, bool) or not (re.fullmatch(r"\d{1,9}", text) or re.fullmatch(rf"({_TIME.pattern}\s*)+", text)):
        raise UserError(f"budget {shortened(text)}: give a time such as 90min or 2h, or a number of runs such as 160")
    if text.isdigit():
        if not 0 < int(text) <= _MOST_RUNS:
            raise UserError(f"budget {text}: give 1 to {_MOST_RUNS:,} runs")
        return Allowance(runs=int(text))
    seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in _TIME.findall(text))
    if not 0 < seconds <= _LONGEST_S:
        raise UserError(f"budget {shortened(text)}: give more than nothing, and less than ten years")
    return Allowance(seconds=seconds)


def check_metric(experiment: Experiment) -> None:
    """Nothing, when arms differ in per cent of what they are judged by.

    Raises:
        UserError: when the metric is a yes or a no, or a share of them; or has no better direction.
    """
    metric = METRICS[experiment.primary]
    if metric.unit in _WITHOUT_SHARE or metric.better is None:
        what = "a yes or a no" if metric.unit == YES_OR_NO else f"a share ({metric.unit})"
        raise UserError(
            f"arms of {experiment.name} are judged by {metric_name(metric.name)}, which is {what} and may be 0: no "
            "difference in per cent can be settled; say how many seeds"
        )


def check_verdicts(experiment: Experiment) -> None:
    """Nothing, when the document leaves it to the family's verdicts to say when it is settled.

    Raises:
        UserError: with paired verdicts, which know no looks.
    """
    if experiment.verdicts == "paired":
        raise UserError(
            "verdicts: paired judges each comparison once, at the full level, and cannot be looked at again and again; "
            "leave that key out, or say how many seeds"
        )
    if experiment.crossed:
        raise UserError(
            f"control {', '.join(experiment.crossed)}: questions are settled for arms without a control; leave "
            "controls out, and add their runs afterwards with a number of seeds"
        )

"""Compare: what a results directory answers, as sentences for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from headway.compare.xray_claims import in_short
from headway.declare.metrics import PRIMARY

MANY = 16
"""Verdicts from which on those under a control are left to the report."""


def answer(results: Mapping[str, Any]) -> Iterator[str]:
    """The verdicts on the primary metric, then what the curves through the arms and the learning rates say.

    Args:
        results: the content of `results.json`.
    """
    verdicts = [c for c in results["comparisons"] if c["metric"] in PRIMARY.values()]
    shown = [c for c in verdicts if c["control"] is None] if len(verdicts) > MANY else verdicts
    yield from (c["verdict"] for c in shown)
    if left := len(verdicts) - len(shown):
        yield f"{left} more verdicts, under controls, stand in the report"
    for fit in results["fits"]:
        if fit.get("sentence") and fit["control"] is None:
            yield f"{fit['sentence']} (fit {fit['form']})"
    yield from (c["sentence"] for c in results.get("plain_curve") or () if c["control"] is None)
    for rates in results.get("learning_rates") or ():
        yield rates["sentence"]
        yield from (c["verdict"] for c in rates["comparisons"] if c["changed"])
    yield from in_short(results.get("claims") or ())

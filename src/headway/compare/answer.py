"""Compare: what a results directory answers, as sentences for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from headway.compare.tokens.statement_verdicts import Verdict
from headway.compare.tokens.statements import in_words

MANY = 16
"""Verdicts from which on those under a control are left to the report."""


def answer(results: Mapping[str, Any]) -> Iterator[str]:
    """The verdicts on the primary metric, then what the curves through the arms and the learning rates say.

    Args:
        results: the content of `results.json`.
    """
    verdicts = [c for c in results["comparisons"] if c["metric"] == results["primary"]]
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


def in_short(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What holds, what does not and what cannot be told, in a sentence, and in others what is otherwise and why.

    A metric as published is held against Headway's own, without a control; under a control each metric is held against
    itself without it, so that a metric is not taken for what the control does.

    Args:
        found: what `claims` gave, as `results.json` has it.
    """
    plain = [entry for entry in found if entry["control"] is None]
    told = {entry["name"]: entry for entry in plain if not entry["as_published"]}
    by_metric = {(entry["name"], entry["metric"]): entry for entry in plain}
    by_verdict = {
        verdict: [e["short"] for e in told.values() if e["verdict"] == verdict] for verdict in get_args(Verdict)
    }
    parts = [f"{verdict}: {'; '.join(names)}" for verdict, names in by_verdict.items() if names]
    if parts:
        yield f"Published statements on heads. {'. '.join(part[:1].upper() + part[1:] for part in parts)}"
    for control in dict.fromkeys(entry["control"] for entry in found):
        changed = [
            f"{entry['short']} ({entry['verdict']}{_by(entry)})"
            for entry in found
            if entry["control"] == control and entry["name"] in told and entry["verdict"] != "cannot be told"
            if entry["verdict"] != _held_against(entry, told, by_metric)["verdict"]
        ]
        if changed:
            where = "by the metric as published" if control is None else f"under {control}"
            yield f"Otherwise {where}: {'; '.join(changed)}"


def _held_against(
    entry: Mapping[str, Any],
    told: Mapping[str, Mapping[str, Any]],
    by_metric: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Mapping[str, Any]:
    own = told[entry["name"]]
    return own if entry["control"] is None else by_metric.get((entry["name"], entry["metric"]), own)


def _by(entry: Mapping[str, Any]) -> str:
    return f" by {in_words(entry['metric'])}" if entry["as_published"] else ""

"""Compare: `results.json` of the first schema, in which every difference was judged by a paired t test."""

from collections.abc import Mapping
from typing import Any


def upgraded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Content of the first schema as that of the second, as far as it is what it should be; it is validated then.

    Examples:
        >>> one = {"n_pairs": 3, "difference": 0.1, "p": 0.2, "p_holm": 0.4, "seeds_for_1pct": 9, "metric": "loss"}
        >>> (found,) = upgraded({"schema": 1, "comparisons": [one]})["comparisons"]
        >>> found["rule"], found["estimate"], found["p_family"], found["outcome"], found["seeds_for_margin"]
        ('paired', 0.1, 0.4, 'open', [9])
    """
    compared, asked = (content.get(key, []) for key in ("comparisons", "contrasts"))
    rates = content.get("learning_rates", [])
    primary = _first_metric(compared)
    said = {
        "primary": primary,
        **content,
        "schema": 2,
        "comparisons": _each(compared, _comparison),
        "contrasts": _each(asked, _contrast),
    }
    if rates:
        said["learning_rates"] = _each(rates, lambda entry: _with_rates(entry, said["primary"]))
    return said


def _each(entries: Any, one: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    return [one(entry) if isinstance(entry, Mapping) else entry for entry in entries]


def _comparison(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in entry.items() if key not in ("p_holm", "seeds_for_1pct")}
    seeds, p, p_family = (entry.get(key) for key in ("seeds_for_1pct", "p", "p_holm"))
    return {
        "estimate": entry.get("difference"),
        "means": None,
        **dict.fromkeys(("se", "freedom", "bound", "detectable", "control", "interval")),
        **kept,
        "rule": "paired",
        "p_family": p_family,
        "seeds_for_margin": None if seeds is None else [seeds],
        "outcome": _outcome(entry.get("n_pairs"), p if p_family is None else p_family),
    }


def _contrast(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in entry.items() if key != "n_seeds"}
    return _comparison({**kept, "n_pairs": entry.get("n_seeds"), "difference": entry.get("estimate")})


def _with_rates(entry: Mapping[str, Any], metric: str) -> dict[str, Any]:
    compared = _each(entry.get("comparisons"), lambda one: _comparison({"metric": metric, **one}))
    return {**entry, "comparisons": compared}


def _outcome(n_pairs: Any, p: Any) -> str:
    if not isinstance(p, float | int):
        return "few" if n_pairs == 1 else "none"
    return "apart" if p < 0.05 else "open"


def _first_metric(comparisons: Any) -> str:
    """What arms were judged by in a file that does not say so: those comparisons come first."""
    first = comparisons[0] if isinstance(comparisons, list) and comparisons else None
    return str(first.get("metric", "")) if isinstance(first, Mapping) else ""

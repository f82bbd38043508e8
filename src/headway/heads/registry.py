"""Heads: every metric's function is registered under its entry in `declare.head_metrics.HEAD_METRICS`, once.

A new metric is an entry there (name, sentence, unit, null) and a function here that is decorated with the name; the
laws in `tests/laws/test_head_metrics.py` then hold it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from headway.declare.head_metrics import HEAD_METRICS

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The function of each metric by name, filled as the files that define them are imported."""


def metric(name: str) -> Callable[[F], F]:
    """Decorate a function as that of a declared metric."""
    assert name in HEAD_METRICS, f"{name} is not declared in declare/head_metrics.py"

    def register(function: F) -> F:
        assert name not in FUNCTIONS, f"{name} has a function already"
        FUNCTIONS[name] = function
        return function

    return register

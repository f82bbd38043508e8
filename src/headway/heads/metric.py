"""Heads: tables by name, of metrics' functions and what they are made of, and of terms; torch is not needed for them.

Every metric's function is registered under its entry in `declare.head_metrics.HEAD_METRICS`, once.

A new metric is an entry there (name, sentence, unit, null) and a function here that is decorated with the name; the
laws in `tests/laws/test_head_metrics.py` then hold it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from headway.config.head_metrics import HEAD_METRICS
from headway.config.lm.training import Better

if TYPE_CHECKING:
    from torch import Tensor

    from headway.models.trace import AttentionTrace

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The function of each metric by name, filled as the files that define them are imported."""

SUMS: dict[str, Callable[..., Any]] = {}
"""By name: what is added up over batches, a function of a subject; see `sums`."""

NULLS: dict[str, Callable[..., Any]] = {}
"""By metric: its null as a function of the sums that it names; metrics of patterns have that of even attention."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """A measure that is added to a loss, for one attention.

    Attributes:
        name: as in `training.regularizers`.
        better: whether heads are more different where it is high or low.
        measure: a number of an attention of two heads or more.
    """

    name: str
    better: Better
    measure: Callable[["AttentionTrace"], "Tensor"]

    @property
    def sign(self) -> int:
        """With which it is added to a loss that is minimised."""
        return -1 if self.better == "high" else 1

    def penalty(self, attention: "AttentionTrace") -> "Tensor":
        """The measure with its sign."""
        return self.sign * self.measure(attention)


TERMS: dict[str, Term] = {}
"""By the name of the metric; see `terms`."""


def metric(name: str) -> Callable[[F], F]:
    """Decorate a function as that of a declared metric."""
    assert name in HEAD_METRICS, f"{name} is not declared in config/head_metrics.py"

    def register(function: F) -> F:
        assert name not in FUNCTIONS, f"{name} has a function already"
        FUNCTIONS[name] = function
        return function

    return register

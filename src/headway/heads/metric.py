"""Tables of the functions of metrics, of their sums, and of regularisation terms, by name; no torch needed.

Every metric's function is registered once, under its entry in `headway.config.head_metrics.HEAD_METRICS`.

To add a metric, add an entry there (name, sentence, unit, null) and a function here decorated with the name. The laws
in `tests/laws/test_head_metrics.py` then check it.
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
"""Sums over batches by name: functions of a `MaskedAttention`, registered in `headway.heads.attention`."""

NULLS: dict[str, Callable[..., Any]] = {}
"""The null of each metric, as a function of the sums that it names; metrics of patterns have that of even attention."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """A measure of one attention that is added to a loss.

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
        """The sign of the term in a loss that is minimised."""
        return -1 if self.better == "high" else 1

    def penalty(self, attention: "AttentionTrace") -> "Tensor":
        """Return the measure with its sign."""
        return self.sign * self.measure(attention)


TERMS: dict[str, Term] = {}
"""Regularisation terms by the name of their metric."""


def metric(name: str) -> Callable[[F], F]:
    """Register the decorated function as that of a declared metric."""
    assert name in HEAD_METRICS, f"{name} is not declared in config/head_metrics.py"

    def register(function: F) -> F:
        assert name not in FUNCTIONS, f"{name} has a function already"
        FUNCTIONS[name] = function
        return function

    return register

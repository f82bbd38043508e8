"""In-context linear regression in one layer: its models, estimators and theory.

After He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734:

* `attention`: the models in torch; `circuits`: their QK and OV circuits, w and mu;
* `estimators`: kernel, gradient descent, debiased gradient descent, ridge, least squares (numpy);
* `theory`: the effective loss, mu*(w), eta*, the gradient flow, exact and limiting risks (numpy);
* `kernel_risk`: the true risk of heads of given w and mu, and the best single head (numpy);
* `second_head`: the gain from a second head in theory (numpy);
* `evaluation`: errors on prompts with their standard errors, and error against prompt length (numpy);
* `weights`: the arrays of a model by name, and their initial values; `fused`: the native trainer.

A module is imported when it is first used, so the theory needs no torch.

Examples:
    >>> import headway
    >>> round(headway.icl.theory.proportional_gd_risk(0.2, 3.0), 5)
    3.44444
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.icl import (
        attention,
        circuits,
        estimators,
        evaluation,
        fused,
        kernel_risk,
        second_head,
        theory,
        weights,
    )

__all__ = [
    "attention",
    "circuits",
    "estimators",
    "evaluation",
    "fused",
    "kernel_risk",
    "second_head",
    "theory",
    "weights",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"headway.icl.{name}")
    raise AttributeError(f"module 'headway.icl' has no attribute {name!r}; it has {', '.join(__all__)}")

"""Compare: which arms stand on one curve of loss against heads, read off their layouts.

A scheme is what a layout does from the first layer to the last. Arms whose runs differ in nothing but their heads
can be put on one curve.
"""

from collections.abc import Sequence
from typing import Any

from headway.declare.experiment import Arm, Experiment
from headway.declare.tokens.layout import HeadLayout
from headway.declare.tokens.run import TokensRun

SCHEMES = ("ascending", "constant", "descending")

_HEADS = ("n_heads", "n_kv_heads", "d_head")


def layout_of(arm: Arm) -> HeadLayout:
    """The head layout of an arm of the language-model laboratory."""
    return _text(arm).model.layout


def on_curves(experiment: Experiment, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Those of some arms, all without a control or all under one, that are put on a curve per scheme.

    Where the experiment has groups, those in no group are points to compare with and not to be fitted. None at all
    when more than the heads differs, or when all have as many heads.
    """
    chosen = [arm for arm in arms if arm.group is not None or not experiment.groups]
    alike = all(_but_heads(arm) == _but_heads(chosen[0]) for arm in chosen)
    several = len({layout_of(arm).total for arm in chosen}) > 1
    return tuple(arm for arm in chosen if arm.template.scheme) if alike and several else ()


def _but_heads(arm: Arm) -> dict[str, Any]:
    content = arm.spec(0).content()
    content["model"] = {key: value for key, value in content["model"].items() if key not in _HEADS}
    return content


def _text(arm: Arm) -> TokensRun:
    assert isinstance(arm.template, TokensRun)
    return arm.template

"""Declare: what makes a run of transformers one that is trained alone, and not with others as one batched program."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headway.declare.tokens.transformer import SOFTMAX

if TYPE_CHECKING:
    from headway.declare.tokens.run import TokensRun

ALONE: Mapping[str, tuple[str, Callable[["TokensRun"], bool]]] = {
    "model.dropout": (
        "dropout draws while it computes, from one generator of the process",
        lambda run: bool(run.model.dropout),
    ),
    "training.drophead": (
        "the heads that are dropped are drawn for each step of each run",
        lambda run: run.training.drophead is not None,
    ),
    "training.regularizers": (
        "regularizers read what every head does, which the batched program does not record",
        lambda run: bool(run.training.regularizers),
    ),
    "training.precision": (
        "bf16 rounds products of matrices otherwise where they are batched",
        lambda run: run.training.precision != "fp32",
    ),
    "training.optimizer": (
        "only AdamW's step is written for many runs at once",
        lambda run: run.training.optimizer != "adamw",
    ),
    "training.accumulate": (
        "a batch that is put through in parts is one that is large enough alone",
        lambda run: run.training.accumulate > 1,
    ),
    "model.attention": (
        "an attention of one's own need not be one that torch can batch over weights",
        lambda run: run.model.attention != SOFTMAX,
    ),
    "start": (
        "runs that start from others may each have heads of their own",
        lambda run: run.start is not None,
    ),
}
"""By the key that brings it: why, and whether a run has it. Each stands in docs/running.md."""


def why_alone(run: "TokensRun") -> tuple[str, ...]:
    """Why a run is trained alone, the key and its reason; none of those that can be trained together."""
    return tuple(f"{key}: {reason}" for key, (reason, has) in ALONE.items() if has(run))

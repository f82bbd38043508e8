"""Finished: which models are looked at, and the numbers of their heads."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.declare.head_metrics import HEAD_METRICS, REPEATED
from headway.declare.limits import MOST_MODELS
from headway.errors import UserError
from headway.finished.opened import Opened
from headway.finished.xray import xray
from headway.heads.model_on_text import AttentionHeads
from headway.heads.xray import XRay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headway.model.trace import Trace
    from headway.runs.folder import Run

EXPERIMENT = "experiment.yaml"
"""What a results directory has."""
_OF_FEW = ("patterns", "circuits")
"""Families of metrics that are measured on a text that is too short for the others."""


def models_in(paths: Sequence[Path]) -> list[Path]:
    """The models to be looked at: paths as they are, and of a results directory a finished run of each arm.

    Raises:
        UserError: for a results directory without a finished run of language models, or too many models for a page.
    """
    found = [model for path in paths for model in (_of_arms(path) if (path / EXPERIMENT).is_file() else [path])]
    check_number(found)
    return found


def check_number(found: Sequence[Path]) -> None:
    """Nothing, when a page holds so many models.

    Raises:
        UserError: when they are too many.
    """
    if len(found) > MOST_MODELS:
        raise UserError(
            f"{len(found)} models were asked for, and a page holds {MOST_MODELS} at most; give some of them, such as "
            f"{found[0]} and {found[1]}"
        )


def _of_arms(directory: Path) -> list[Path]:
    """The first finished run of each arm."""
    from headway.runs.store import Store

    first = first_of_arms(Store.open(directory).runs())
    if not first:
        raise UserError(
            f"{directory}: it has no finished run of a language model, and nothing else has tokens to look at; "
            "`headway run` finishes its runs"
        )
    return [run.path for run in first]


def first_of_arms(runs: "Iterable[Run]") -> "list[Run]":
    """The first finished run of language models of each arm."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.status == "done" and run.spec.n_ctx is not None:
            first.setdefault(run.name, run)
    return list(first.values())


def numbers(
    opened: Opened, tokens: np.ndarray, *, text: str, given: bool, attentions: Sequence[AttentionHeads], **options: Any
) -> XRay:
    """An x-ray on the text; of a text that is too short for one, what few tokens can say, and a note.

    Args:
        opened: the model, where it is to be.
        tokens: of the text.
        text: what it is called.
        given: whether these tokens are all there is, and no text of this name.
        attentions: those of the model.
        options: of `xray`.
    """
    widest = max(attention.d_head for attention in attentions)
    if tokens.size > 2 * widest:
        return xray(opened, tokens=tokens, **options) if given else xray(opened, text=text, **options)
    from headway.heads.examination import examine

    metrics = [
        name
        for name, declared in HEAD_METRICS.items()
        if declared.family in _OF_FEW
        and name not in REPEATED
        and (declared.family != "circuits" or opened.ours is not None)
    ]

    def traces() -> "Iterator[Trace]":
        yield opened.trace(tokens)

    scores = examine(traces(), metrics, trace=opened.traced, repetition=None, weights=opened.ours)
    note = (
        f"the text gives {tokens.size:,} tokens: too few to hold these heads against untrained ones, or to say which "
        f"are alike; more than {2 * widest:,} are needed"
    )
    parameters = f"{sum(p.numel() for p in opened.module.parameters()):,}"
    return XRay(
        name=opened.name,
        model={**opened.facts, "parameters": parameters},
        text=text,
        n_tokens=tokens.size,
        n_sequences=len(tokens),
        length=tokens.shape[1],
        attentions=tuple(attentions),
        scores=scores,
        notes=(note,),
    )

"""Finished: which models are looked at, and the numbers of their heads."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.declare.limits import MOST_MODELS
from headway.errors import UserError
from headway.finished.of_few import of_few
from headway.finished.opened import Opened
from headway.finished.to_read import ToRead
from headway.finished.xray import measured, xray
from headway.heads.model_on_text import AttentionHeads
from headway.heads.xray import XRay

if TYPE_CHECKING:
    from headway.runs.folder import Run

EXPERIMENT = "experiment.yaml"
"""What a results directory has."""


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
    opened: Opened,
    read: ToRead,
    *,
    given: bool,
    attentions: Sequence[AttentionHeads],
    draws: int | None,
    seed: int,
) -> XRay:
    """An x-ray on the text; of a text that is too short for one, what few tokens can say, and a note.

    Args:
        opened: the model, where it is to be.
        read: the text.
        given: whether these tokens are all there is, and no text of this name.
        attentions: those of the model.
        draws: as in `xray`.
        seed: as in `xray`.
    """
    if read.targets is not None:
        return measured(opened, read, draws, seed)
    if read.tokens.size <= 2 * max(attention.d_head for attention in attentions):
        return of_few(opened, read)
    if given:
        return xray(opened, tokens=read.tokens, draws=draws, seed=seed)
    return xray(opened, text=read.text, draws=draws, seed=seed)

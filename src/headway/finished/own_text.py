"""Finished: the text that a model is measured on where nobody gives one."""

from pathlib import Path
from typing import Any

from headway.declare.run import RunSpec
from headway.errors import UserError
from headway.finished.model_folder import model_folder


def brings_text(run: RunSpec) -> bool:
    """Whether a run of language models was trained on a text that can be read again, and nothing fetched for it."""
    from headway.data.tokens import hub
    from headway.declare.tokens.text import holds_ids

    found = _text_of(run)
    if run.n_ctx is None or found is None or holds_ids(found):
        return False
    return found != "tinystories" or hub.is_fetched(None)


def _text_of(run: RunSpec) -> Any:
    return getattr(run.task, "validation", None) or getattr(run.task, "corpus", None)


def own_text(model: object) -> str:
    """The text that a run is judged on, or else trained on.

    Args:
        model: its path; a model in memory brings none.

    Raises:
        UserError: for a model that has none, or one of ids.
    """
    if not isinstance(model, str | Path):
        raise UserError("a model in memory brings no text to read: give one with text=")
    from headway.declare.tokens.text import holds_ids
    from headway.runs.folder import Run

    folder, found = model_folder(model), None
    if folder.kind == "run":
        spec = Run.open(folder.path).spec
        if spec.n_ctx is None:
            raise UserError(
                f"{folder.asked}: it is a run of the in-context laboratory, which has no tokens to look at; give a run "
                "of a text"
            )
        found = _text_of(spec)
    if found is None:
        raise UserError(f"{folder.asked}: which text should it read? Give one with --text (in Python text=)")
    if holds_ids(found):
        raise UserError(f"{folder.asked}: its text {found} holds token ids; give a text with --text")
    return str(found)

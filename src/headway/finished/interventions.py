"""Finished: a model whose heads can be taken away, opened and checked before any number is given of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UserError
from headway.finished.measurable import check_measurable
from headway.finished.model_folder import model_folder
from headway.finished.opened import Opened
from headway.finished.opening import open_model, open_module

if TYPE_CHECKING:
    from headway.model.transformer import Transformer

_CHECKED = 32
"""Tokens that the check reads: whether a mask is on the right tensor shows on few."""


def open_to_intervene(model: "str | Path | Transformer", tokenizer: str | None, device: str) -> Opened:
    """A model of which heads can be taken away, on its device.

    Args:
        model: a path as of `open_model`, or one of Headway's models, which stays where it is.
        tokenizer: another than the folder's, or the model's.
        device: as of `find_device`; `auto` leaves a model in memory where it is.

    Raises:
        UserError: for a model of which heads cannot be taken away, saying what it is, or which has none.
    """
    from headway.model.transformer import Transformer
    from headway.train.device import find_device

    if isinstance(model, Transformer):
        opened = open_module(model, tokenizer)
        check_measurable(opened)
        return opened
    if not isinstance(model, str | Path):
        raise UserError(
            f"model: a path or one of Headway's models was expected, but a {type(model).__name__} was given; save it "
            "with save_pretrained and give the folder"
        )
    place, folder = find_device(device), model_folder(model)
    if folder.kind == "other":
        from headway.hf.reading import architecture_of

        raise UserError(not_yet(folder.name, architecture_of(folder.path)))
    opened = open_model(model, tokenizer)
    check_measurable(opened)
    opened.module.to(place)
    return opened


def not_yet(name: str, architecture: str) -> str:
    """Why heads of a model cannot be taken away, and what can be done with it."""
    return (
        f"{name} is a {architecture}: its heads can be measured (`headway xray`), but not yet taken away; Headway "
        "takes heads out of its own runs, of GPT-Neo, GPT-2, Llama and Mistral, and of folders of `headway export`"
    )


def check_sound(opened: Opened, tokens: "object") -> None:
    """Nothing, when gates and edits do to the model what they are said to do; on the beginning of a text.

    Raises:
        UserError: naming the check that failed.
    """
    import torch

    from headway.heads.causes.selfcheck import check_interventions

    own = opened.own
    place = next(own.parameters()).device
    check_interventions(own, torch.as_tensor(tokens, device=place)[:1, :_CHECKED])

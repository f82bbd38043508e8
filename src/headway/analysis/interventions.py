"""Models for interventions on heads, opened and checked before any number is reported.

`batched_text` gives a checked model a text in batches, with another text that supplies substitutes for heads.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headway.analysis.inputs import check_measurable
from headway.analysis.model import Opened, model_folder
from headway.analysis.open import open_model, open_module
from headway.analysis.text_pairs import TwoTexts
from headway.errors import UserError

if TYPE_CHECKING:
    from headway.causal.ablation import BatchedText
    from headway.causal.patch_result import PatchSite
    from headway.models.intervene import Intervenable
    from headway.models.transformer import Transformer


_CHECKED = 32
"""Tokens that the check reads: whether a mask is on the right tensor shows on few."""


def open_to_intervene(
    model: "str | Path | Transformer", tokenizer: str | None, device: str
) -> "tuple[Opened, Intervenable]":
    """A decoder whose heads can be masked and patched, on its device, and what that is done to: ours, or transformers'.

    Args:
        model: a path as of `open_model`, or one of Headway's models, which stays where it is.
        tokenizer: another than the folder's, or the model's.
        device: as of `find_device`; `auto` leaves a model in memory where it is.

    Raises:
        UserError: for a model of which heads cannot be masked, saying what it is, or which has none.
    """
    opened = _open(model, tokenizer, device)
    if opened.ours is not None:
        return opened, opened.ours
    architecture = opened.facts["architecture"]
    if opened.kind != "causal":
        what = {"encoder-decoder": "an encoder and a decoder over it"}.get(opened.kind, "an encoder")
        raise UserError(
            f"{opened.name} is a {architecture}, {what}: its heads can be measured (`headway xray`), but not yet taken "
            "away or patched, since what is measured is the loss of the next token; take a decoder"
        )
    from headway.hf.intervene import TheirDecoder

    return opened, TheirDecoder(opened.module)


def open_to_prune(model: "str | Path | Transformer", tokenizer: str | None, device: str) -> Opened:
    """A model of Headway's own, of which heads can be removed, on its device; otherwise as above.

    Raises:
        UserError: as `open_to_intervene`, and for a model that another library's code runs.
    """
    if isinstance(model, str | Path):
        folder = model_folder(model)
        if folder.kind == "other":
            from headway.hf.reading import architecture_of

            raise UserError(not_yet(folder.name, architecture_of(folder.path)))
    return _open(model, tokenizer, device)


def _open(model: "str | Path | Transformer", tokenizer: str | None, device: str) -> Opened:
    from headway.models.transformer import Transformer
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
    place = find_device(device)
    opened = open_model(model, tokenizer)
    check_measurable(opened)
    opened.module.to(place)
    return opened


def not_yet(name: str, architecture: str) -> str:
    """Return why heads of a model cannot be removed, and what can be done with it."""
    return (
        f"{name} is a {architecture}: its heads can be measured (`headway xray`) and, in a decoder, masked (`headway "
        "ablate`) and patched (`headway patch`), but not yet removed; Headway does that to its own runs, to GPT-Neo, "
        "GPT-2, Llama and Mistral, and to folders of `headway export`"
    )


def check_sound(
    model: "Intervenable", tokens: "object", sites: "tuple[PatchSite, ...]" = (), *, paths: bool = False
) -> None:
    """Raise an error if gates or edits change a model otherwise than they should, on the beginning of a text.

    Args:
        model: the model.
        tokens: the text.
        sites: what of heads will be patched, if anything.
        paths: whether paths between heads will be measured, too.

    Raises:
        UserError: naming the check that failed.
    """
    import torch

    from headway.causal.checks import check_interventions, check_patching

    place = next(model.parameters()).device
    some = torch.as_tensor(tokens, device=place)[:1, :_CHECKED]
    check_interventions(model, some)
    if sites:
        check_patching(model, some, sites, paths=paths)


BATCH = 1024
"""Tokens that are read together: gradients hold the whole pass of them."""


def batched_text(
    opened: Opened,
    own: "Intervenable",
    texts: TwoTexts,
    *,
    mean_over: str,
    seed: int,
    tell: Callable[[str], object] = lambda _: None,
) -> "BatchedText":
    """Read the other text, of a model that passed its checks.

    Args:
        opened: the model.
        own: what heads are taken away from.
        texts: both texts.
        mean_over: as in `substitutes`.
        seed: of which sequences stand in for which.
        tell: is given how long it takes, where that is long.

    Raises:
        UserError: for a model that fails a check, naming it, and texts that do not fit each other.
    """
    import torch

    from headway.causal.ablation import BatchedText
    from headway.causal.substitutes import OtherText

    check_sound(own, texts.inputs)
    place = next(opened.module.parameters()).device
    inputs, wanted = (torch.from_numpy(each).to(place) for each in (texts.inputs, texts.targets))
    other = inputs if texts.among else torch.from_numpy(texts.other_inputs).to(place)
    at_once = max(1, BATCH // texts.length)
    read = OtherText.read(own, inputs, other, mean_over=mean_over, seed=seed, at_once=at_once)
    return BatchedText(model=own, inputs=inputs, targets=wanted, other=read, at_once=at_once, tell=tell)

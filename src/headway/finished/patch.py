"""Finished: what a head of a finished model did on a clean text, put into a run of a corrupted one; `headway.patch`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.errors import UserError, near
from headway.finished.interventions import check_sound, open_to_intervene
from headway.finished.opened import Opened
from headway.heads.causes.patched import PATCH_SITES, Patching, PatchSite

if TYPE_CHECKING:
    import torch

    from headway.finished.opened import TokenIds
    from headway.heads.causes.patching import PatchMetric, TwoRuns
    from headway.model.transformer import Transformer


def patch(
    model: "str | Path | Transformer",
    clean: "str | TokenIds",
    corrupted: "str | TokenIds",
    *,
    metric: "PatchMetric",
    sites: str | Sequence[str] = PATCH_SITES,
    by_position: bool = False,
    paths: bool = True,
    tokenizer: str | None = None,
    device: str = "auto",
) -> Patching:
    """Put what each head did on a clean text into a run of a corrupted one, and see what a metric does.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face with a decoder; or one of Headway's models.
        clean: a text, or (sequence, pos) tokens, on which the model does what is asked about.
        corrupted: another of the same length, on which it does not; pairs, sequence by sequence.
        metric: from logits (sequence, pos, vocab) to a number for each sequence, such as the logit of the right answer
            less that of the wrong one.
        sites: what is put in, in turn: z (the context), q, k, v, pattern.
        by_position: whether each position is patched by itself, of queries, or of keys for k and v.
        paths: whether direct effects between heads are measured; where they cannot be, `no_paths` of what is found says
            why.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.

    Raises:
        UserError: for a model or texts that cannot be used, a metric that gives no number for each sequence, and a
            model that fails a check of what is done to it, naming the check.
    """
    from headway.heads.causes.patching import TwoRuns

    asked = sites_of(sites)
    opened, own = open_to_intervene(model, tokenizer, device)
    texts = [_tokens(opened, text, name) for text, name in ((clean, "clean"), (corrupted, "corrupted"))]
    check_sound(own, texts[0].cpu().numpy(), asked, paths=paths)
    return measured(TwoRuns(own, texts[0], texts[1], metric), asked, by_position=by_position, paths=paths)


def measured(runs: "TwoRuns", sites: tuple[PatchSite, ...], *, by_position: bool, paths: bool) -> Patching:
    """All that patching shows of two runs."""
    from headway.heads.causes.patch_estimates import cancelling, estimated_effects
    from headway.heads.causes.patching import patched_effects
    from headway.heads.causes.paths import head_paths, why_no_paths

    refused = why_no_paths(runs) if paths else None
    found = {site: patched_effects(runs, site, by_position=by_position) for site in sites}
    estimates = estimated_effects(runs, sites, by_position=by_position)
    return Patching(
        heads=found[sites[0]][0],
        clean=runs.values(runs.clean_tokens).cpu().numpy(),
        corrupted=runs.values(runs.tokens).cpu().numpy(),
        effects={site: effects.cpu().numpy() for site, (_, effects) in found.items()},
        estimates={site: effects.cpu().numpy() for site, effects in estimates.items()},
        cancels=cancelling(runs),
        paths=head_paths(runs) if paths and refused is None else None,
        no_paths=refused,
    )


def sites_of(sites: str | Sequence[str]) -> tuple[PatchSite, ...]:
    """What of a head is put in, in its order.

    Raises:
        UserError: for what is no site, or none.
    """
    given = (sites,) if isinstance(sites, str) else tuple(sites)
    for site in given:
        if site not in PATCH_SITES:
            raise UserError(f"sites: {site!r} is nothing of a head that can be patched; {near(str(site), PATCH_SITES)}")
    if not given:
        raise UserError(f"sites: none was given; choose from: {', '.join(PATCH_SITES)}")
    return tuple(site for site in PATCH_SITES if site in given)


def _tokens(opened: Opened, text: Any, name: str) -> "torch.Tensor":
    import torch

    if isinstance(text, str):
        if opened.tokenizer is None:
            raise UserError(
                f"{name}: a text was given, and {opened.name} has no tokenizer; give tokens, or a tokenizer"
            )
        text = np.asarray([opened.tokenizer.encode(text)])
    place = next(opened.module.parameters()).device
    return torch.as_tensor(opened.checked(text), device=place)

"""Heads: path patching: what a later head does with what an earlier one wrote, and nothing between them.

What a head wrote on the clean text is put into the stream that one later head reads, into its queries, keys or values
alone; everything else is as in the corrupted run. So an effect is that of a direct path.

Paper: Wang et al. 2023, arXiv 2211.00593 (the IOI circuit); Goldowsky-Dill et al. 2023, arXiv 2304.05969.
"""

from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from headway.errors import UserError
from headway.heads.causes.kinds import Head
from headway.heads.causes.patched import THROUGH, HeadPaths, Through
from headway.heads.causes.patching import TwoRuns, patched_context
from headway.model.edits import Edits
from headway.model.intervenable import Intervenable
from headway.model.trace import AttentionTrace
from headway.model.transformer import Transformer


def head_paths(runs: TwoRuns) -> HeadPaths:
    """Direct effects between all pairs of heads, the mean over examples.

    Raises:
        UserError: for a model of which they cannot be measured, saying why.
    """
    if (why := why_no_paths(runs.model)) is not None:
        raise UserError(f"{why}; leave paths out")
    model = cast(Transformer, runs.model)
    heads: list[Head] = [(of.layer, h) for of in runs.corrupted.attentions for h in range(of.z.shape[1])]
    place = {head: at for at, head in enumerate(heads)}
    base, n = runs.values(runs.tokens), len(heads)
    through = {name: np.full((n, n), np.nan) for name in THROUGH}
    to_output = np.zeros(n)
    with torch.no_grad():
        for clean, of in runs.pairs():
            change = clean.contributions() - of.contributions()
            for head in range(change.shape[1]):
                row = place[of.layer, head]
                last = runs.corrupted.streams[-1] + change[:, head]
                to_output[row] = float((runs.metric(model.read_out(last)).double() - base).mean())
                for later in (each for each in runs.corrupted.attentions if each.layer > of.layer):
                    for name, effects in _readers(runs, model, later, change[:, head]).items():
                        columns = [place[later.layer, reader] for reader in range(len(effects))]
                        through[name][row, columns] = (effects - base).mean(1).cpu().numpy()
    return HeadPaths(heads=tuple(heads), through=cast(dict[Through, np.ndarray], through), to_output=to_output)


def why_no_paths(model: Intervenable) -> str | None:
    """Why direct effects between heads of a model cannot be measured, in words; None: they can."""
    if not isinstance(model, Transformer):
        return (
            "paths between heads are not measured: another library's code runs this model, and what a later head would "
            "read from another stream, after a norm and whatever else stands between, cannot be told from outside"
        )
    if model.model.norm_place == "after" and model.model.norm != "none":
        return (
            "paths between heads are not measured: this model's norms come after its sub-layers, so that no head "
            "writes into the stream by itself"
        )
    return None


def _readers(runs: TwoRuns, model: Transformer, later: AttentionTrace, change: Tensor) -> dict[Through, Tensor]:
    """By input, the metric (reader, batch) when each head of a later layer reads a changed stream there."""
    seen: dict[str, Tensor] = {}
    edits: Edits = {(later.layer, name): partial(_noted, seen, name) for name in THROUGH}
    model.written(runs.corrupted.streams[later.layer] + change, later.layer, edits)
    changed = replace(later, q=seen["q"], k=seen["k"], v=seen["v"])
    return {
        name: runs.with_contexts(
            later.layer,
            [{head: patched_context(changed, later, head, name)} for head in range(later.z.shape[1])],
        )
        for name in THROUGH
    }


def _noted(seen: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    seen[name] = x
    return x

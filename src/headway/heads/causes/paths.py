"""Heads: path patching: what a later head does with what an earlier one wrote, and nothing between them.

What a head wrote on the clean text is put into the stream that one later head reads, into its queries, keys or values
alone; everything else is as in the corrupted run. So an effect is that of a direct path. A norm between heads and the
stream is part of the path.

Paper: Wang et al. 2023, arXiv 2211.00593 (the IOI circuit); Goldowsky-Dill et al. 2023, arXiv 2304.05969.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from headway.errors import UserError
from headway.heads.causes.continued import TheirRun
from headway.heads.causes.kinds import Head
from headway.heads.causes.patched import THROUGH, HeadPaths, Through
from headway.heads.causes.patching import TwoRuns, patched_context
from headway.model.edits import Site
from headway.model.trace import AttentionTrace
from headway.model.transformer import Transformer


def head_paths(runs: TwoRuns) -> HeadPaths:
    """Direct effects between all pairs of heads, the mean over examples.

    Raises:
        UserError: for a model of which they cannot be measured, saying why.
    """
    if (why := why_no_paths(runs)) is not None:
        raise UserError(f"{why}; leave paths out")
    heads: list[Head] = [(of.layer, h) for of in runs.corrupted.attentions for h in range(of.z.shape[1])]
    place = {head: at for at, head in enumerate(heads)}
    base, n = runs.values(runs.tokens), len(heads)
    through = {name: np.full((n, n), np.nan) for name in THROUGH}
    to_output = np.zeros(n)
    with torch.no_grad():
        for clean, of in runs.pairs():
            changes = _changes(runs, clean, of)
            rows = [place[of.layer, head] for head in range(len(changes))]
            for row, logits in zip(rows, runs.run.ends(changes), strict=True):
                to_output[row] = float((runs.metric(logits).double() - base).mean())
            for later in (each for each in runs.corrupted.attentions if each.layer > of.layer):
                columns = [place[later.layer, reader] for reader in range(later.z.shape[1])]
                for row, parts in zip(rows, runs.run.reads(later.layer, changes), strict=True):
                    for name, effects in _readers(runs, later, parts).items():
                        through[name][row, columns] = (effects - base).mean(1).cpu().numpy()
    return HeadPaths(heads=tuple(heads), through=cast(dict[Through, np.ndarray], through), to_output=to_output)


def _changes(runs: TwoRuns, clean: AttentionTrace, of: AttentionTrace) -> Sequence[Tensor]:
    """By how much each head of a layer, as on the clean text, changes the stream (batch, pos, d_model)."""
    if isinstance(runs.run, TheirRun) and (norm := runs.sums.norms.get(of.layer)) is not None:
        return list(runs.run.writes(of.layer, norm, [{head: z} for head, z in enumerate(clean.z.unbind(1))]))
    return (clean.contributions() - of.contributions()).unbind(1)


def why_no_paths(runs: TwoRuns) -> str | None:
    """Why direct effects between heads of a model cannot be measured, in words; None: they can."""
    why = _why_no_sum(runs)
    return None if why is None else f"paths between heads are not measured: {why}"


def _why_no_sum(runs: TwoRuns) -> str | None:
    model = runs.model
    if not isinstance(model, Transformer):
        why = runs.sums.why_not
        return None if why is None else f"what a head of this model writes does not reach later heads as it is ({why})"
    if not model.model.residual:
        return "this model has no residual stream in which what a head writes would reach later heads"
    if model.model.norm_place == "after" and model.model.norm != "none":
        return "this model's norms come after its sub-layers, so that no head writes into the stream by itself"
    return None


def _readers(runs: TwoRuns, later: AttentionTrace, parts: Mapping[Site, Tensor]) -> dict[Through, Tensor]:
    """By input, the metric (reader, batch) when each head of a later layer reads a changed stream there."""
    changed = replace(later, q=parts["q"], k=parts["k"], v=parts["v"])
    return {
        name: runs.with_contexts(
            later.layer,
            [{head: patched_context(changed, later, head, name)} for head in range(later.z.shape[1])],
        )
        for name in THROUGH
    }

"""Heads: what must hold on the model at hand before any number about patching it is given.

A patch of queries, keys, values or a pattern is a context that Headway computes, put in where contexts enter the output
projection. That is right only where the model itself computes the same: so each is held against a whole pass in which
the model's own attention is given other queries, keys or values.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from headway.heads.causes.patched import PATCH_SITES, PatchSite
from headway.heads.causes.patching import TwoRuns, patched_context
from headway.heads.causes.paths import why_no_paths
from headway.heads.causes.selfcheck import TOLERANCE, compare
from headway.model.edits import Edit, Edits, Site
from headway.model.intervenable import Intervenable, logits_of
from headway.model.trace import AttentionTrace

_INTO: tuple[Site, ...] = ("q", "k", "v")


def check_patching(
    model: Intervenable,
    tokens: Int[Tensor, "batch pos"],
    sites: tuple[PatchSite, ...],
    *,
    paths: bool = False,
    tolerance: float = TOLERANCE,
) -> None:
    """Nothing, when patches do to the model what they are said to do.

    In each layer that has heads:

    * every head's own context, and what is computed anew of its own parts, put in changes nothing;
    * the queries, keys or values of another text, given to the model's own attention for one head (for keys and values
      for all that read them), do what the contexts do that are computed of them;
    * contexts of the other text do what they do in a whole pass, and what its queries, keys and values do together.

    And where paths between heads can be measured, a stream to which nothing is added gives the queries, keys, values
    and logits that were there.

    Contexts are linear in values, so that patterns are right where values of another text are.

    Args:
        model: the model.
        tokens: a text; a short one will do.
        sites: what will be patched; of others nothing is checked.
        paths: whether paths will be measured, which are patches of queries, keys and values.
        tolerance: of what is compared, as a share of the largest.

    Raises:
        UserError: naming the check that failed, and by how much.
    """
    # Another text: the same tokens, backwards.
    runs = TwoRuns(model, tokens.flip(1), tokens, lambda logits: logits[:, -1, 0].float())
    with torch.no_grad():
        plain = logits_of(model, tokens)
        if paths and why_no_paths(runs) is None:
            sites = tuple(site for site in PATCH_SITES if site in {*sites, *_INTO})
            _nothing_added_changes_nothing(runs, plain, tolerance)
        for other, of in runs.pairs():
            _own_parts_change_nothing(runs, of, sites, plain, tolerance)
            _parts_are_what_the_model_computes(runs, other, of, sites, tolerance)


def _own_parts_change_nothing(
    runs: TwoRuns, of: AttentionTrace, sites: tuple[PatchSite, ...], plain: Tensor, tolerance: float
) -> None:
    heads = range(of.z.shape[1])
    patches = [{head: patched_context(of, of, head, site) for head in heads} for site in sites]
    for site, logits in zip(sites, runs.run.logits_with(of.layer, patches), strict=True):
        compare(
            f"in layer {of.layer} {site} as it was, put in for every head, changes nothing", logits, plain, tolerance
        )


def _nothing_added_changes_nothing(runs: TwoRuns, plain: Tensor, tolerance: float) -> None:
    added = "nothing added to the stream"
    for of in runs.corrupted.attentions:
        nothing = torch.zeros_like(of.contributions()[:, 0])
        (read,) = runs.run.reads(of.layer, [nothing])
        for site in _INTO:
            was = getattr(of, site)
            check = f"{added} before layer {of.layer} leaves its {site} as it was"
            compare(check, read[site][:, :, : was.shape[2]], was, tolerance)
        if of is runs.corrupted.attentions[-1]:
            (logits,) = runs.run.ends([nothing])
            compare(f"{added} at its end leaves the logits as they were", logits, plain, tolerance)


def _parts_are_what_the_model_computes(
    runs: TwoRuns, other: AttentionTrace, of: AttentionTrace, sites: tuple[PatchSite, ...], tolerance: float
) -> None:
    cases = dict(_cases(other, of, sites))
    patches = [contexts for contexts, _ in cases.values()]
    found = runs.run.logits_with(of.layer, patches)
    for (check, (_, edits)), logits in zip(cases.items(), found, strict=True):
        compare(f"in layer {of.layer} {check}", logits, logits_of(runs.model, runs.tokens, edits=edits), tolerance)


def _cases(
    other: AttentionTrace, of: AttentionTrace, sites: tuple[PatchSite, ...]
) -> Iterator[tuple[str, tuple[Mapping[int, Tensor], Edits]]]:
    """What is checked, by its name: contexts that are put in, and what does the same to the model's own attention."""
    layer, one = of.layer, of.z.shape[1] // 2
    for site in _INTO:
        if site in sites or (site == "v" and "pattern" in sites):
            kv = of.kv_of[one]
            readers = [one] if site == "q" else [head for head, its in enumerate(of.kv_of) if its == kv]
            edit = _exchanged(getattr(other, site), one if site == "q" else kv)
            yield (
                f"{site} of another text, given to the model's own attention, does what the context does that is "
                "computed of it",
                ({head: patched_context(other, of, head, site) for head in readers}, {(layer, site): edit}),
            )
    whole = dict(enumerate(other.z.unbind(1)))
    if "z" in sites:
        yield (
            "contexts of another text, put in for every head, do what they do in a whole pass",
            (whole, {(layer, "z"): _exchanged(other.z, slice(None))}),
        )
    if set(sites) & set(_INTO):
        yield (
            "queries, keys and values of another text do together what its contexts do, as nothing else decides where "
            "heads look (z and pattern alone, as sites and without paths, do not need that)",
            (whole, {(layer, site): _exchanged(getattr(other, site), slice(None)) for site in _INTO}),
        )


def _exchanged(value: Tensor, heads: int | slice) -> Edit:
    return partial(_exchange, value, heads)


def _exchange(value: Tensor, heads: int | slice, x: Tensor) -> Tensor:
    x = x.clone()
    # Keys that no query sees have no place in a trace.
    x[:, heads, : value.shape[2]] = value[:, heads]
    return x

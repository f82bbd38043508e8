"""Activation patching of a finished model's heads, from a clean text into a run of a corrupted text.

`patch` is `headway.patch`; `patch_texts` is the verb `headway patch`, for texts that a user writes. Its metric is that
of the token after the texts: the logit of the right answer less that of the wrong one. Without a wrong answer, the
metric is the logarithm of the right answer's probability.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from headway.analysis.evaluation import evaluating
from headway.analysis.inputs import described
from headway.analysis.model import Opened, tokens_of
from headway.analysis.open import open_model
from headway.analysis.text_pairs import TextPairs, Texts
from headway.base.text import counted
from headway.causal.checks import check_sound
from headway.causal.effects import Head
from headway.causal.patch_result import (
    PATCH_SITES,
    Asks,
    HeadPattern,
    PatchedModel,
    Patching,
    PatchSite,
    strongest_path,
)
from headway.causal.patching import (
    PatchMetric,
    TwoRuns,
    cancelling,
    estimated_effects,
    head_paths,
    patched_effects,
    why_no_paths,
)
from headway.errors import UserError, near

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds


def patch(
    model: "str | Path | torch.nn.Module | Opened",
    clean: "str | Sequence[str] | TokenIds",
    corrupted: "str | Sequence[str] | TokenIds",
    *,
    metric: PatchMetric,
    sites: str | Sequence[str] = PATCH_SITES,
    by_position: bool = False,
    paths: bool = True,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    device: str = "auto",
    trust_code: bool = False,
) -> Patching:
    """Patch each head's activation from a clean text into a run of a corrupted text, and measure a metric.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face with a decoder; or a decoder in memory, as
            for `headway.ablate`.
        clean: a text, several texts of one length, or (sequence, pos) tokens, on which the model does what is asked
            about; the model's tokenizer puts its special tokens around a text.
        corrupted: a text of equal length on which it does not, paired with `clean` sequence by sequence.
        metric: a function from logits (sequence, pos, vocab) to a number for each sequence, such as the logit of the
            right answer less that of the wrong one.
        sites: the sites to patch, in turn: z (the context), q, k, v, pattern.
        by_position: True to patch each position separately: of queries, or of keys for k and v.
        paths: True to measure direct effects between heads; if they cannot be measured, the result's `no_paths` gives
            the reason.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        trust_code: True to run code that comes with a Hugging Face folder, if the folder needs it.

    Raises:
        UserError: if the model or texts cannot be used; if the metric gives no number for each sequence; if the model
            fails a check of its interventions, which is named.
    """
    asked = sites_of(sites)
    opened = open_model(model, tokenizer, for_="intervene", device=device, trust_code=trust_code)
    tokens = tokens_of(opened, clean), tokens_of(opened, corrupted)
    with evaluating(opened.module):
        return measured(TwoRuns(opened.decoder, *tokens, metric), asked, by_position=by_position, paths=paths)


def measured(
    runs: TwoRuns, sites: tuple[PatchSite, ...], *, by_position: bool, paths: bool, asks: Asks | None = None
) -> Patching:
    """Measure all that patching shows of two runs of a model that passes its checks.

    Raises:
        UserError: if the model fails a check, which is named.
    """
    check_sound(runs.model, runs.clean_tokens, sites, paths=paths)
    refused = why_no_paths(runs) if paths else None
    estimates = estimated_effects(runs, sites, by_position=by_position)
    return Patching(
        heads=runs.heads,
        clean=runs.values(runs.clean_tokens).cpu().numpy(),
        corrupted=runs.values(runs.tokens).cpu().numpy(),
        effects={site: patched_effects(runs, site, by_position=by_position).cpu().numpy() for site in sites},
        estimates={site: estimate.cpu().numpy() for site, estimate in estimates.items()},
        cancels=cancelling(runs),
        paths=head_paths(runs) if paths and refused is None else None,
        no_paths=refused,
        asks=asks,
    )


def sites_of(sites: str | Sequence[str]) -> tuple[PatchSite, ...]:
    """Return the sites to patch, in their usual order.

    Raises:
        UserError: if a site is unknown, or none is given.
    """
    given = (sites,) if isinstance(sites, str) else tuple(sites)
    for site in given:
        if site not in PATCH_SITES:
            raise UserError(f"sites: a head has no site {site!r}; {near(str(site), PATCH_SITES)}")
    if not given:
        raise UserError(f"sites: none was given; choose from: {', '.join(PATCH_SITES)}")
    return tuple(site for site in PATCH_SITES if site in given)


def patch_texts(
    model: str | Path,
    *,
    clean: Texts,
    corrupted: Texts,
    answer: Texts,
    wrong: Texts | None = None,
    sites: Sequence[str] = PATCH_SITES,
    by_position: bool = False,
    paths: bool = True,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    device: str = "auto",
    trust_code: bool = False,
    tell: Callable[[str], object] = lambda _: None,
) -> PatchedModel:
    """Patch each head's activation from clean texts into runs of corrupted texts, and measure their answers.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face.
        clean: a text after which the answer is right, or one for each pair.
        corrupted: a text of as many tokens for each pair, after which the answer is wrong.
        answer: the right continuation, one for all pairs or one for each; only its first token counts.
        wrong: the wrong continuation; None: the metric is the logarithm of the answer's probability.
        sites: the sites to patch, as for `headway.patch`.
        by_position: True to patch each position separately, as for `headway.patch`.
        paths: True to measure direct effects between heads, as for `headway.patch`.
        tokenizer: the tokenizer, as for `headway.patch`.
        device: the device, as for `headway.patch`.
        trust_code: True to run code that comes with a Hugging Face folder, as for `headway.patch`.
        tell: the function that is given the steps of the work.

    Raises:
        UserError: if `headway.patch` would raise it; if the texts of a pair do not fit, naming the pair and its tokens;
            if two answers begin alike.
    """
    asked = sites_of(sites)
    opened = open_model(model, tokenizer, for_="intervene", device=device, trust_code=trust_code)
    pairs = TextPairs.of(opened, clean, corrupted, answer, wrong)
    pairs.check_lengths(opened, by_position=by_position)
    tokens = pairs.tensors(opened)
    with evaluating(opened.module):
        runs = TwoRuns(opened.decoder, *tokens, pairs.metric)
        tell(f"patching {counted(sum(opened.decoder.n_heads), 'head')}, {', '.join(asked)} in turn ...")
        patching = measured(runs, asked, by_position=by_position, paths=paths, asks=pairs.asks)
        patterns = tuple(_pattern(runs, head, len(pairs.clean[0])) for head in _heads_shown(patching))
    return PatchedModel(
        name=opened.name,
        model=opened.described(),
        text=pairs.texts,
        n_tokens=2 * sum(map(len, pairs.clean)),
        n_sequences=2 * pairs.n,
        length=tokens[0].shape[1],
        attentions=tuple(map(described, runs.clean.attentions)),
        scores={},
        notes=tuple(filter(None, (patching.no_paths, *pairs.notes()))),
        metric=pairs.metric_in_words(),
        clean=pairs.written(pairs.clean),
        corrupted=pairs.written(pairs.corrupted),
        positions=pairs.positions(),
        patching=patching,
        patterns=patterns,
    )


def _heads_shown(patching: Patching) -> tuple[Head, ...]:
    path = strongest_path(patching)
    if path is not None:
        return (path.writer, path.reader)
    effects = next(iter(patching.effects.values()))
    return (patching.heads[int(abs(effects.mean(-1)).reshape(len(effects), -1).sum(1).argmax())],)


def _pattern(runs: TwoRuns, head: Head, length: int) -> HeadPattern:
    """Return a head's pattern on the first pair of texts."""
    layer, number = head
    pair = next(pair for pair in runs.pairs() if pair[0].layer == layer)
    clean, corrupted = (attention.patterns(slice(number, number + 1))[0, 0, :length, :length] for attention in pair)
    return HeadPattern(head=head, clean=clean.cpu().double().numpy(), corrupted=corrupted.cpu().double().numpy())

"""Finished: patching a finished model between texts that one writes; what the verb `headway patch` is.

The metric is that of the token after the texts: the logit of the right answer less that of the wrong one, or without a
wrong one the logarithm of the right one's probability.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.finished.interventions import check_sound, open_to_intervene
from headway.finished.patch import measured, sites_of
from headway.finished.text_pairs import TextPairs
from headway.finished.to_read import described
from headway.heads.causes.patched import PATCH_SITES
from headway.heads.causes.patched_model import HeadPattern, PatchedModel, strongest_path
from headway.words import counted

if TYPE_CHECKING:
    from headway.heads.causes.kinds import Head
    from headway.heads.causes.patched import Patching
    from headway.heads.causes.patching import TwoRuns


def patch_texts(
    model: str | Path,
    *,
    clean: str | Sequence[str],
    corrupted: str | Sequence[str],
    answer: str | Sequence[str],
    wrong: str | Sequence[str] | None = None,
    sites: Sequence[str] = PATCH_SITES,
    by_position: bool = False,
    paths: bool = True,
    tokenizer: str | None = None,
    device: str = "auto",
    tell: Callable[[str], object] = lambda _: None,
) -> PatchedModel:
    """Put what each head did on clean texts into runs of corrupted ones, and see what their answers do.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face.
        clean: a text after which the answer is right, or one for each pair.
        corrupted: of each pair one of as many tokens, after which it is not.
        answer: what should follow, one for all pairs or one for each; of several tokens the first.
        wrong: what should not; None: the metric is the logarithm of the answer's probability.
        sites: as of `headway.patch`, like all that follow.
        by_position: see there.
        paths: see there.
        tokenizer: see there.
        device: see there.
        tell: is given what is done.

    Raises:
        UserError: as `headway.patch`; for pairs that do not fit, saying which and its tokens, and answers that begin
            alike.
    """
    from headway.heads.causes.patching import TwoRuns

    asked = sites_of(sites)
    opened, own = open_to_intervene(model, tokenizer, device)
    given = TextPairs.of(opened, clean, corrupted, answer, wrong)
    given.check_lengths(opened, by_position=by_position)
    tokens = given.tensors(opened)
    check_sound(own, tokens[0].cpu().numpy(), asked, paths=paths)
    runs = TwoRuns(own, *tokens, given.metric)
    of_pairs = f", {counted(given.n, 'pair')} of texts" if given.n > 1 else ""
    tell(f"patching {counted(sum(own.n_heads), 'head')}, {', '.join(asked)} in turn{of_pairs} ...")
    patching = measured(runs, asked, by_position=by_position, paths=paths)
    return PatchedModel(
        name=opened.name,
        model={**opened.facts, "parameters": f"{sum(p.numel() for p in own.parameters()):,}"},
        text=given.texts,
        n_tokens=2 * sum(map(len, given.clean)),
        n_sequences=2 * given.n,
        length=tokens[0].shape[1],
        attentions=tuple(map(described, runs.clean.attentions)),
        scores={},
        notes=(*([] if patching.no_paths is None else [patching.no_paths]), *given.notes()),
        metric=given.said(),
        clean=given.written(given.clean),
        corrupted=given.written(given.corrupted),
        positions=given.positions(),
        patching=patching,
        patterns=tuple(_pattern(runs, head, len(given.clean[0])) for head in _heads_shown(patching)),
    )


def _heads_shown(patching: "Patching") -> tuple["Head", ...]:
    path = strongest_path(patching)
    if path is not None:
        return (path.writer, path.reader)
    effects = next(iter(patching.effects.values()))
    totals = abs(effects.mean(-1)).reshape(len(effects), -1).sum(1)
    return (patching.heads[int(totals.argmax())],)


def _pattern(runs: "TwoRuns", head: "Head", length: int) -> HeadPattern:
    """Of the first pair."""
    layer, number = head
    found = []
    for trace in (runs.clean, runs.corrupted):
        attention = next(each for each in trace.attentions if each.layer == layer)
        found.append(attention.patterns(slice(number, number + 1))[0, 0, :length, :length].cpu().double().numpy())
    return HeadPattern(head=head, clean=found[0], corrupted=found[1])

"""Finished: patching a finished model between two texts that one writes; what the verb `headway patch` is.

The metric is that of the token after the texts: the logit of the right answer less that of the wrong one, or without a
wrong one the logarithm of the right one's probability.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UserError
from headway.finished.interventions import check_sound, open_to_intervene
from headway.finished.opened import Opened
from headway.finished.patch import measured, sites_of
from headway.finished.to_read import described
from headway.finished.token_words import token_words
from headway.heads.causes.patched import PATCH_SITES
from headway.heads.causes.patched_model import HeadPattern, PatchedModel, strongest_path
from headway.words import counted

if TYPE_CHECKING:
    import torch

    from headway.heads.causes.kinds import Head
    from headway.heads.causes.patched import Patching, PatchSite
    from headway.heads.causes.patching import TwoRuns
    from headway.model.intervenable import Intervenable


def patch_texts(
    model: str | Path,
    *,
    clean: str,
    corrupted: str,
    answer: str,
    wrong: str | None = None,
    sites: Sequence[str] = PATCH_SITES,
    by_position: bool = False,
    paths: bool = False,
    tokenizer: str | None = None,
    device: str = "auto",
    tell: Callable[[str], object] = lambda _: None,
) -> PatchedModel:
    """Put what each head did on a clean text into a run of a corrupted one, and see what its answer does.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face.
        clean: a text after which the answer is right.
        corrupted: one of as many tokens, after which it is not.
        answer: what should follow; of several tokens the first.
        wrong: what should not; None: the metric is the logarithm of the answer's probability.
        sites: as of `headway.patch`, like all that follow.
        by_position: see there.
        paths: see there.
        tokenizer: see there.
        device: see there.
        tell: is given what is done.

    Raises:
        UserError: as `headway.patch`; for texts of different lengths, saying their tokens, and answers that begin
            alike.
    """
    asked = sites_of(sites)
    opened, own = open_to_intervene(model, tokenizer, device)
    given = _Asked.of(opened, clean, corrupted, answer, wrong)
    runs = given.runs(opened, own, asked, paths=paths)
    tell(f"patching {counted(sum(own.n_heads), 'head')}, {', '.join(asked)} in turn ...")
    patching = measured(runs, asked, by_position=by_position, paths=paths)
    return PatchedModel(
        name=opened.name,
        model={**opened.facts, "parameters": f"{sum(p.numel() for p in own.parameters()):,}"},
        text=f"{clean!r} and {corrupted!r}",
        n_tokens=2 * len(given.clean),
        n_sequences=2,
        length=len(given.clean),
        attentions=tuple(map(described, runs.clean.attentions)),
        scores={},
        notes=(*([] if patching.no_paths is None else [patching.no_paths]), *given.notes()),
        metric=given.said(),
        clean=tuple(given.words[token] for token in given.clean),
        corrupted=tuple(given.words[token] for token in given.corrupted),
        patching=patching,
        patterns=tuple(_pattern(runs, head) for head in _heads_shown(patching)),
    )


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Two texts and answers, as tokens, and what is written for each token."""

    clean: list[int]
    corrupted: list[int]
    right: list[int]
    wrong: list[int] | None
    words: dict[int, str]

    @classmethod
    def of(cls, opened: Opened, clean: str, corrupted: str, answer: str, wrong: str | None) -> "_Asked":
        """From what somebody wrote.

        Raises:
            UserError: for texts of different lengths, and answers that are none.
        """
        tokens = {name: opened.encoder.whole(text) for name, text in (("clean", clean), ("corrupted", corrupted))}
        _check_texts(opened, tokens)
        right = _following(opened, clean, answer, "answer")
        other = None if wrong is None else _following(opened, clean, wrong, "wrong")
        if other is not None and right[0] == other[0]:
            raise UserError(
                f"answer {answer!r} and wrong {wrong!r} begin with the same token; give two that differ in it"
            )
        words = token_words(opened, [*tokens["clean"], *tokens["corrupted"], right[0], *(other or [])[:1]])
        return cls(**tokens, right=right, wrong=other, words=words)

    def runs(self, opened: Opened, own: "Intervenable", sites: "tuple[PatchSite, ...]", *, paths: bool) -> "TwoRuns":
        """Both runs, of a model that was checked.

        Raises:
            UserError: for a model that fails a check of what is done to it, naming the check.
        """
        import torch

        from headway.heads.causes.patching import TwoRuns

        place = next(opened.module.parameters()).device
        pair = [torch.as_tensor(opened.checked([ids]), device=place) for ids in (self.clean, self.corrupted)]
        check_sound(own, pair[0].cpu().numpy(), sites, paths=paths)
        return TwoRuns(own, pair[0], pair[1], self._metric)

    def _metric(self, logits: "torch.Tensor") -> "torch.Tensor":
        last, right = logits[:, -1].float(), self.right[0]
        return last.log_softmax(1)[:, right] if self.wrong is None else last[:, right] - last[:, self.wrong[0]]

    def said(self) -> str:
        """The metric, in words."""
        right = self.words[self.right[0]]
        if self.wrong is None:
            return f"the logarithm of the probability of [{right}] after the text, in nats"
        return f"the logit of [{right}] after the text less that of [{self.words[self.wrong[0]]}]"

    def notes(self) -> Iterator[str]:
        """What limits what is found."""
        for name, tokens in (("answer", self.right), ("wrong", self.wrong or [])):
            if len(tokens) > 1:
                yield f"{name} has {len(tokens)} tokens; its first, [{self.words[tokens[0]]}], is asked about"
        yield "one pair of texts says what happens on these texts, and nothing of others: there is no interval"


def _check_texts(opened: Opened, tokens: dict[str, list[int]]) -> None:
    """Nothing, when positions of two texts can be exchanged, and there is something to be restored.

    Raises:
        UserError: for texts of different lengths, saying their tokens, of fewer than two, or the same.
    """
    lengths = {name: len(ids) for name, ids in tokens.items()}
    if len(set(lengths.values())) == 1 and lengths["clean"] > 1:
        if tokens["clean"] == tokens["corrupted"]:
            raise UserError(
                "the clean and the corrupted text are the same, so there is nothing to be restored; give two that "
                "differ in what is asked about"
            )
        return
    said = {
        name: " ".join(f"[{word}]" for word in (token_words(opened, ids)[token] for token in ids))
        for name, ids in tokens.items()
        for ids in [ids[:40]]
    }
    raise UserError(
        f"the clean text has {lengths['clean']} tokens and the corrupted one {lengths['corrupted']}; give two texts of "
        f"one number of tokens, at least 2, that differ in what is asked about. Clean: {said['clean']}. Corrupted: "
        f"{said['corrupted']}"
    )


def _following(opened: Opened, text: str, answer: str, what: str) -> list[int]:
    """The tokens of an answer after a text: by itself some tokenizers would write it with another first token."""
    encoder = opened.encoder
    before, both = list(encoder.encode(text)), list(encoder.encode(text + answer))
    if both[: len(before)] != before or len(both) == len(before):
        raise UserError(
            f"{what} {answer!r}: it adds no token of its own to the clean text; give a word as it follows the text, "
            "with the space before it, and end the text without one"
        )
    return [int(token) for token in both[len(before) :]]


def _heads_shown(patching: "Patching") -> tuple["Head", ...]:
    path = strongest_path(patching)
    if path is not None:
        return (path.writer, path.reader)
    effects = next(iter(patching.effects.values()))
    totals = abs(effects.mean(-1)).reshape(len(effects), -1).sum(1)
    return (patching.heads[int(totals.argmax())],)


def _pattern(runs: "TwoRuns", head: "Head") -> HeadPattern:
    layer, number = head
    found = []
    for trace in (runs.clean, runs.corrupted):
        attention = next(each for each in trace.attentions if each.layer == layer)
        found.append(attention.patterns(slice(number, number + 1))[0, 0].cpu().double().numpy())
    return HeadPattern(head=head, clean=found[0], corrupted=found[1])

"""Finished: what the heads of a run did at steps whose weights it kept: circuits, compositions, patterns that fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headway.finished.shown_patterns import Patterns, SeenModel, ShownPatterns
from headway.heads.packed import PackedPatterns
from headway.heads.view import KeptStep
from headway.words import counted

if TYPE_CHECKING:
    from headway.runs.folder import Run


_SMOOTHER = 2
"""How much better early patterns pack, at best."""


@dataclass(frozen=True, kw_only=True)
class KeptSteps:
    """What the heads did then.

    Attributes:
        steps: ascending.
        cuts: what was left out, in sentences.
    """

    steps: tuple[KeptStep, ...] = ()
    cuts: tuple[str, ...] = ()


def kept_steps(
    run: "Run | None",
    steps: Sequence[int],
    seen: SeenModel,
    shown: ShownPatterns,
    tokens: Sequence[int],
    *,
    below: str,
    composed: bool,
) -> KeptSteps:
    """Open the run's model at each of these steps, and look at what is shown of the finished one.

    Args:
        run: that trained the model; None: nobody kept anything.
        steps: whose weights it kept.
        seen: the finished model.
        shown: its patterns, and the room that they left.
        tokens: between which circuits are read.
        below: why there is no more room, in words.
        composed: whether compositions are wanted.

    Raises:
        ResultsError: when kept weights are damaged.
    """
    from headway.heads.compositions import compositions
    from headway.heads.token_circuits import in_tokens, token_circuits

    if run is None or not steps:
        return KeptSteps()
    n = _fitting(shown, len(steps))
    found = []
    for step in steps:
        then = _at(run, step, seen)
        own = then.opened.own
        found.append(
            KeptStep(
                step=step,
                circuits=token_circuits(own, tokens) if in_tokens(own) else None,
                composition=compositions(own) if composed else None,
                patterns={
                    (name, at): packed
                    for at, sequence in enumerate(shown.sequences[:n])
                    for name, packed in then.packed(sequence).items()
                },
            )
        )
    fitted = _cut(found, n, shown.room)
    few, many = max((1 + at for step in fitted for _, at in step.patterns), default=0), len(shown.sequences)
    what = f"patterns of {few} of {counted(many, 'sequence')}" if few else "no patterns"
    said = f"while it trained, {what} are kept, {below}"
    return KeptSteps(steps=fitted, cuts=(said,) if few < many else ())


def _at(run: "Run", step: int, seen: SeenModel) -> SeenModel:
    """The model as it was at a step, to be seen as the finished one is."""
    device = next(seen.opened.module.parameters()).device
    model = run.model(step).to(device).eval()
    return replace(seen, opened=replace(seen.opened, module=model, ours=model, traced=model.trace))


def _fitting(shown: ShownPatterns, n_steps: int) -> int:
    """How many sequences may fit at every step: early patterns, which are smooth, pack better than those of the end."""
    left = _SMOOTHER * shown.room
    for at in range(len(shown.sequences)):
        left -= n_steps * sum(len(packed.data) for (_, number), packed in shown.patterns.items() if number == at)
        if left < 0:
            return at
    return len(shown.sequences)


def _cut(steps: Sequence[KeptStep], n: int, room: int) -> tuple[KeptStep, ...]:
    """The same with the patterns of as many sequences as do fit."""
    while n and sum(len(packed.data) for step in steps for packed in step.patterns.values()) > room:
        n -= 1
        steps = [replace(step, patterns=_below(step.patterns, n)) for step in steps]
    return tuple(steps)


def _below(patterns: Patterns, n: int) -> dict[tuple[str, int], PackedPatterns]:
    return {key: packed for key, packed in patterns.items() if key[1] < n}

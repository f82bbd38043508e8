"""The exact effect of every head, and of several together, on the loss by zero, mean and resample ablation.

Effects do not add up: a head that stands in for another matters only without it, and one that feeds another shares its
effect. So the joint effect of all heads stands beside the single ones, and pairs have an interaction.

A text is read in batches, since gradients hold a whole pass.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headway.base.text import duration
from headway.causal.ablation_result import Faithfulness
from headway.causal.attribution import Attribution, attribute, integrated
from headway.causal.checks import check_sound
from headway.causal.effects import (
    KINDS,
    ExactEffects,
    Head,
    HeadEffects,
    Kind,
    MeanOver,
    TokenCounts,
    joined,
    mean_over_tokens,
    over_documents,
)
from headway.causal.faithfulness import DRAWS, faithfulness
from headway.causal.removal import losses_by_kind
from headway.causal.substitutes import (
    Intervenable,
    OtherText,
    StandIn,
    Substitutes,
    Tokens,
    check_targets,
    counted,
    heads_of,
)


def ablate(model: Intervenable, inputs: Tokens, targets: Tokens, stand_ins: Substitutes) -> ExactEffects:
    """Return the exact effects of every head, and of all together.

    Args:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: the substitutes for heads on this text.

    """
    heads = heads_of(model)
    sets = [*((head,) for head in heads), tuple(heads)]
    losses, by_kind = losses_by_kind(model, inputs, targets, stand_ins, sets)
    tokens, ends = counted(targets).cpu().numpy(), np.cumsum(model.n_heads)[:-1]
    single, joint = {}, {}
    for kind, part in by_kind.items():
        changes = (part - losses.whole).cpu().numpy()
        single[kind] = HeadEffects(per_sequence=tuple(np.split(changes[:-1], ends)), tokens=tokens)
        joint[kind] = changes[-1]
    return ExactEffects(
        loss=losses.whole.cpu().numpy(), single=single, joint=joint, forward_passes=losses.forward_passes
    )


def changes_without(
    model: Intervenable,
    inputs: Tokens,
    targets: Tokens,
    stand_ins: Substitutes,
    sets: Sequence[tuple[Head, ...]],
    kinds: Sequence[Kind] = KINDS,
) -> dict[Kind, Float[np.ndarray, "set batch"]]:
    """Return the change of the loss without each set of heads, in nats per token of each sequence."""
    losses, by_kind = losses_by_kind(model, inputs, targets, stand_ins, sets, kinds)
    return {kind: (part - losses.whole).cpu().numpy() for kind, part in by_kind.items()}


BATCH = 1024
"""Tokens that are read together: gradients hold the whole pass of them."""
_LONG = 10.0
"""The duration in seconds from which on a message estimates the rest."""

Batch = tuple[Tokens, Tokens, Substitutes]


@dataclass(frozen=True, kw_only=True)
class BatchedText:
    """A text, and another text whose contexts stand in for heads.

    Attributes:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        other: the other text, read.
        at_once: the number of sequences that are read together.
        tell: the function that is given the expected time as a sentence, if that is long.
        documents: the document of each sequence, the unit of intervals; None: each sequence is a document.
    """

    model: Intervenable
    inputs: Tokens
    targets: Tokens
    other: OtherText
    at_once: int
    tell: Callable[[str], object] = lambda _: None
    documents: Int[np.ndarray, " batch"] | None = None

    @classmethod
    def read(
        cls,
        model: Intervenable,
        inputs: Tokens,
        targets: Tokens,
        others: Int[Tensor, "others pos"],
        *,
        mean_over: MeanOver = "positions",
        seed: int = 0,
    ) -> "BatchedText":
        """Check a model, and read the other text.

        Args:
            model: the model.
            inputs: the text.
            targets: the tokens after each position; -1 where none is counted.
            others: the other text; or `inputs` themselves, as of `OtherText.read`.
            mean_over: the mean over `positions` (and sequences), or over sequences per position.
            seed: the random seed of the choice of donors.

        Raises:
            UserError: if the model fails a check, which is named, the texts do not fit each other, or a sequence has no
                target.
        """
        check_targets(targets)
        check_sound(model, inputs)
        at_once = max(1, BATCH // inputs.shape[1])
        other = OtherText.read(model, inputs, others, mean_over=mean_over, seed=seed, at_once=at_once)
        return cls(model=model, inputs=inputs, targets=targets, other=other, at_once=at_once)

    def exact(self) -> ExactEffects:
        """Return the exact effects of `ablate` over the whole text."""
        return self._units(ExactEffects.joined([ablate(self.model, *batch) for batch in self._told("exact effects")]))

    def attributed(self) -> Attribution:
        """Return the estimates of `attribute` over the whole text."""
        return joined([attribute(self.model, *batch) for batch in self._batches()])

    def integrated(self) -> dict[Kind, HeadEffects]:
        """Return the integrated gradients of `integrated` over the whole text."""
        return joined([integrated(self.model, *batch) for batch in self._batches()])

    def without(self, sets: Sequence[tuple[Head, ...]]) -> dict[Kind, Float[np.ndarray, "set batch"]]:
        """Return the change of the loss without each set of heads over the whole text."""
        batches = self._told("heads together")
        return self._units(joined([changes_without(self.model, *batch, sets) for batch in batches]))

    def first_without(self, sets: Sequence[tuple[Head, ...]]) -> Float[np.ndarray, " set"]:
        """Return the mean change of the loss without each set of heads at their mean, on the first batch."""
        changes = changes_without(self.model, *next(self._batches()), sets, ("mean",))
        return mean_over_tokens(changes["mean"], self._tokens[: self.at_once])

    def reference_error(self, heads: Sequence[Head]) -> dict[Head, tuple[float, float]]:
        """Return what a quarter of the other text adds to the effect of each head at its mean, and a standard error.

        Both are in nats per token; below 4 sequences of the other text there are none. If the error of a mean over N
        sequences shifts an effect by c / N, a third of the first number is still in the effect with all of them; if by
        c / sqrt(N), as in models that saturate, all of it is.
        """
        if not self.other.quarters:
            return {}
        sets = [(head,) for head in heads]

        def effects(mean: StandIn) -> Float[np.ndarray, " head"]:
            pieces = zip(self.inputs.split(self.at_once), self.targets.split(self.at_once), strict=True)
            changes = joined([changes_without(self.model, *piece, {"mean": mean}, sets, ("mean",)) for piece in pieces])
            return mean_over_tokens(changes["mean"], self._tokens)

        whole, quarters = effects(self.other.mean), np.stack([effects(mean) for mean in self.other.quarters])
        more, error = quarters.mean(0) - whole, quarters.std(0, ddof=1) / np.sqrt(len(quarters))
        return dict(zip(heads, zip(more.tolist(), error.tolist(), strict=True), strict=True))

    def faithfulness(
        self, heads: Sequence[Head], *, kinds: Sequence[Kind] = KINDS, draws: int = DRAWS, seed: int = 0
    ) -> dict[Kind, Faithfulness]:
        """Return the faithfulness of a circuit over the whole text."""
        batches = self._told("the circuit")
        return self._units(faithfulness(self.model, batches, heads, kinds=kinds, draws=draws, seed=seed))

    def _units(self, found: Any) -> Any:
        """Return results over the units of intervals."""
        return found if self.documents is None else over_documents(found, self._tokens, self.documents)

    @property
    def _tokens(self) -> TokenCounts:
        return counted(self.targets).cpu().numpy()

    def _batches(self) -> Iterator[Batch]:
        for start in range(0, len(self.inputs), self.at_once):
            here = slice(start, start + self.at_once)
            yield self.inputs[here], self.targets[here], self.other.stand_ins(self.model, here)

    def _told(self, what: str) -> Iterator[Batch]:
        """Yield the batches; after the first, report how long the others will take."""
        n, began = -(-len(self.inputs) // self.at_once), time.perf_counter()
        for at, batch in enumerate(self._batches()):
            if at == 1 and (left := (time.perf_counter() - began) * (n - 1)) > _LONG:
                self.tell(f"{what}: about {duration(left)} more")
            yield batch

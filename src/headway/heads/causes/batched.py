"""Heads: effects and estimates of every head on a text that is read in batches, since gradients hold a whole pass."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headway.heads.causes.ablation import ablate, interactions
from headway.heads.causes.attribution import Attribution, attribute, integrated
from headway.heads.causes.effects import ExactEffects, HeadEffects
from headway.heads.causes.faithful import Faithfulness
from headway.heads.causes.faithfulness import DRAWS, faithfulness_in_batches
from headway.heads.causes.kinds import KINDS, Head, Kind
from headway.heads.causes.other_text import OtherText
from headway.heads.causes.substitutes import Substitutes
from headway.model.intervenable import Intervenable
from headway.words import duration

_LONG = 10.0
"""Seconds from which on it is said how long it will take."""

Batch = tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"], Substitutes]


@dataclass(frozen=True, kw_only=True)
class BatchedText:
    """A text, and another one that stands in for heads.

    Attributes:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        other: the other text, read.
        at_once: sequences that are read together.
        tell: is given how long it takes, where that is long.
    """

    model: Intervenable
    inputs: Int[Tensor, "batch pos"]
    targets: Int[Tensor, "batch pos"]
    other: OtherText
    at_once: int
    tell: Callable[[str], object] = lambda _: None

    def exact(self) -> ExactEffects:
        """As `ablate`, of the whole text."""
        return ExactEffects.joined([ablate(self.model, *batch) for batch in self._told("exact effects")])

    def attributed(self) -> Attribution:
        """As `attribute`, of the whole text."""
        return Attribution.joined([attribute(self.model, *batch) for batch in self._batches()])

    def integrated(self) -> dict[Kind, HeadEffects]:
        """As `integrated`, of the whole text."""
        parts = [integrated(self.model, *batch) for batch in self._batches()]
        return {kind: HeadEffects.joined([part[kind] for part in parts]) for kind in KINDS}

    def interactions(self, pairs: Sequence[tuple[Head, Head]]) -> dict[Kind, Float[np.ndarray, "pair batch"]]:
        """As `interactions`, of the whole text."""
        parts = [interactions(self.model, *batch, pairs) for batch in self._told("pairs")]
        return {kind: np.concatenate([part[kind] for part in parts], axis=1) for kind in KINDS}

    def faithfulness(
        self, heads: Sequence[Head], *, kinds: Sequence[Kind] = KINDS, draws: int = DRAWS, seed: int = 0
    ) -> dict[Kind, Faithfulness]:
        """As `faithfulness_in_batches`, of the whole text."""
        batches = self._told("the circuit")
        return faithfulness_in_batches(self.model, batches, heads, kinds=kinds, draws=draws, seed=seed)

    def _batches(self) -> Iterator[Batch]:
        for start in range(0, len(self.inputs), self.at_once):
            some = range(start, min(start + self.at_once, len(self.inputs)))
            here = slice(some.start, some.stop)
            yield self.inputs[here], self.targets[here], self.other.stand_ins(self.model, some)

    def _told(self, what: str) -> Iterator[Batch]:
        """The batches; after the first, how long the others will take."""
        n, began = -(-len(self.inputs) // self.at_once), time.perf_counter()
        for at, batch in enumerate(self._batches()):
            if at == 1 and (left := (time.perf_counter() - began) * (n - 1)) > _LONG:
                self.tell(f"{what}: about {duration(left)} more")
            yield batch

"""Heads: another text, from which contexts stand in for heads of a model that reads a long one, batch by batch.

`substitutes` says the same of two texts at once; here its mean is taken once, and of its sequences only those are read
again whose contexts are asked for.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headway.heads.causes.kinds import MeanOver
from headway.heads.causes.substitutes import (
    StandIn,
    Substitutes,
    check_mean_over,
    contexts_of,
    donors_among,
    donors_of,
    mean_axes,
    substitutes_of,
)
from headway.model.intervenable import Intervenable


@dataclass(frozen=True, kw_only=True)
class OtherText:
    """Sequences of another text and the mean context of each head on them."""

    tokens: Int[Tensor, "others span"]
    mean: StandIn
    mean_over: MeanOver
    seed: int
    donors: tuple[int, ...]
    """The sequence of it whose contexts each sequence of the text gets when resampled."""

    @classmethod
    def read(
        cls,
        model: Intervenable,
        inputs: Int[Tensor, "batch pos"],
        other: Int[Tensor, "others span"],
        *,
        mean_over: str = "positions",
        seed: int = 0,
        at_once: int = 8,
    ) -> "OtherText":
        """One forward pass of another text.

        Args:
            model: the model.
            inputs: the text whose loss is measured, all of it.
            other: sequences of another text, at least as long; or `inputs` themselves, where these are all that there
                are, and then each sequence gets another one's contexts.
            mean_over: as in `substitutes`.
            seed: of the choice of donors.
            at_once: sequences that are read together.

        Raises:
            UserError: as `substitutes`.
        """
        over = check_mean_over(mean_over)
        donors = donors_among(len(inputs), seed) if other is inputs else donors_of(inputs, other, seed)
        tokens = other[:, : inputs.shape[1]]
        total: list[Tensor | None] = [None] * len(model.n_heads)
        for some in tokens.split(at_once):
            for layer, z in enumerate(contexts_of(model, some)):
                if z is not None:
                    here, before = z.double().mean(mean_axes(over), keepdim=True) * len(some), total[layer]
                    total[layer] = here if before is None else before + here
        some_type = next(model.parameters()).dtype
        mean = tuple(None if sums is None else (sums / len(tokens)).to(some_type) for sums in total)
        return cls(tokens=tokens, mean=mean, mean_over=over, seed=seed, donors=donors)

    def stand_ins(self, model: Intervenable, some: range) -> Substitutes:
        """What stands in for heads on some sequences of the text."""
        donors = self.donors[some.start : some.stop]
        chosen = torch.tensor(donors, device=self.tokens.device)
        return substitutes_of(
            mean=self.mean,
            resampled=contexts_of(model, self.tokens[chosen]),
            mean_over=self.mean_over,
            seed=self.seed,
            donors=donors,
        )

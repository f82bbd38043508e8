"""Substitutes: the contexts that replace those of an ablated head, and the loss of each sequence.

Three kinds stand side by side, since they change the answer more than any method does. Zero is a context that most
models have never seen. The mean over another text removes only what varies. Resampling takes what the head does on a
sequence of another text, which stays a thing that the head does.

A long text is read batch by batch. The mean over the other text is then taken once, and only those of its sequences are
read again whose contexts are asked for.

Logits of all tokens at once are often the largest array of a forward pass, so the loss takes them a few rows at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.base import rng
from headway.causal.effects import Head, Kind, MeanOver, every_head
from headway.errors import UserError, near
from headway.models.trace import Edits
from headway.models.transformer import Gates, Transformer

if TYPE_CHECKING:
    from headway.hf.intervene import TheirDecoder

Intervenable: TypeAlias = "Transformer | TheirDecoder"
"""A decoder whose heads can be masked and patched: Headway's own, or one of transformers.

Law: gates of 1 and edits that change nothing change no bit; gate 0 is the model without that head's rows of W_O.
"""


Tokens = Int[Tensor, "batch pos"]
"""Tokens of some sequences, or the targets at their positions; a target of -1 does not count."""


def logits_of(
    model: Intervenable, tokens: Tokens, gates: Gates | None = None, edits: Edits | None = None
) -> Float[Tensor, "batch pos vocab"]:
    """Return the logits of a text, with gates and edits of the heads."""
    return model.read_out(model.hidden(tokens, gates=gates, edits=edits)[0])


StandIn = Mapping[int, Tensor]
"""A tensor that broadcasts to z (batch, head, pos, d_head), for each layer that has heads."""


Substitutes = Mapping[Kind, StandIn]
"""The contexts that stand in for each head, by kind."""


_AXES: Mapping[MeanOver, tuple[int, ...]] = {"positions": (0, 2), "per-position": (0,)}
"""The axes of z (batch, head, pos, d_head) that a mean is over."""


def check_mean_over(mean_over: str) -> MeanOver:
    """Return what the mean is taken over; raise UserError for an unknown name.

    Raises:
        UserError: if the name is another one.
    """
    if mean_over not in _AXES:
        raise UserError(f"mean {mean_over!r} is not a kind of mean; {near(mean_over, _AXES)}")
    return cast(MeanOver, mean_over)


def donors_of(inputs: Tokens, other: Int[Tensor, "others span"], seed: int) -> tuple[int, ...]:
    """Return a sequence of the other text for each of the text: all different where there are enough.

    Raises:
        UserError: when the other text is shorter, or a sequence would be its own donor.
    """
    batch, length = inputs.shape
    if other.shape[1] < length or not len(other):
        raise UserError(
            f"the other text has {len(other)} sequences of {other.shape[1]} tokens, but the text has sequences of "
            f"{length}; give one sequence or more, at least as long"
        )
    draw = rng.generator(seed, "donors of contexts")
    donors = np.concatenate([draw.permutation(len(other)) for _ in range(-(-batch // len(other)))])

    def own(at: int, donor: int) -> bool:
        return at < batch and torch.equal(inputs[at], other[donor, :length])

    for at in range(batch):
        if not own(at, donors[at]):
            continue
        # Exchanged with a sequence that keeps another's contexts too, or with a donor that nobody has.
        free = [i for i in range(len(donors)) if not own(at, donors[i]) and not own(i, donors[at])]
        if free:
            donors[[at, free[0]]] = donors[[free[0], at]]
        elif others := [donor for donor in range(len(other)) if not own(at, donor)]:
            donors[at] = others[0]
        else:
            raise UserError(
                f"sequence {at} is in the other text, too, which has no other sequence; it would replace itself, and "
                "no head would seem to matter. Give another text"
            )
    return tuple(donors[:batch].tolist())


def donors_among(n: int, seed: int) -> tuple[int, ...]:
    """Return another sequence of the same text for each, all different: one cycle through all of them.

    Raises:
        UserError: if there is a single sequence.

    Examples:
        >>> sorted(donors_among(4, 0)), any(at == donor for at, donor in enumerate(donors_among(4, 0)))
        ([0, 1, 2, 3], False)
    """
    if n < 2:
        raise UserError("a single sequence has no other sequence as replacement; give two or more")
    order = rng.generator(seed, "donors among themselves").permutation(n)
    donors = np.empty(n, int)
    donors[order] = np.roll(order, 1)
    return tuple(donors.tolist())


def contexts_of(model: Intervenable, tokens: Tokens) -> dict[int, Tensor]:
    """Return z (batch, head, pos, d_head) of every layer that has heads."""
    contexts: dict[int, Tensor] = {}
    with torch.no_grad():
        model.hidden(tokens, edits={(i, "z"): partial(contexts.setdefault, i) for i in layers_with_heads(model)})
    return contexts


def layers_with_heads(model: Intervenable) -> list[int]:
    """Return the layers that have heads."""
    return [i for i, n in enumerate(model.n_heads) if n]


def heads_of(model: Intervenable) -> list[Head]:
    """Return all heads of a model."""
    return every_head(model.n_heads)


def without(heads: Iterable[Head], stand_in: StandIn) -> Edits:
    """Return the edits that replace the contexts of ablated heads by their substitutes."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    return {(layer, "z"): partial(_replaced, stand_in[layer], some) for layer, some in by_layer.items()}


def _replaced(stand_in: Tensor, heads: list[int], z: Tensor) -> Tensor:
    result = z.clone()
    result[:, heads] = stand_in.expand_as(z)[:, heads]
    return result


QUARTERS = 4


@dataclass(frozen=True, kw_only=True)
class OtherText:
    """Sequences of another text and the mean context of each head on them."""

    tokens: Int[Tensor, "others span"]
    mean: StandIn
    donors: tuple[int, ...]
    """The sequence of the other text whose contexts each sequence of the text gets when resampled."""
    quarters: tuple[StandIn, ...]
    """The mean contexts of each quarter of the other text, which show the error of `mean`; none below 4 sequences."""

    @classmethod
    def read(
        cls,
        model: Intervenable,
        inputs: Tokens,
        other: Int[Tensor, "others span"],
        *,
        mean_over: MeanOver = "positions",
        seed: int = 0,
        at_once: int = 8,
    ) -> "OtherText":
        """Return the other text after one forward pass of it.

        Args:
            model: the model.
            inputs: the text whose loss is measured, all of it.
            other: sequences of another text, at least as long; or `inputs` themselves, where these are all that there
                are, and then each sequence gets another one's contexts.
            mean_over: the axes of the mean: `positions` (and sequences), or sequences per position.
            seed: the random seed of the choice of donors, which are all different if there are enough.
            at_once: sequences that are read together.

        Raises:
            UserError: when the other text is shorter, or a sequence would be its own donor.
        """
        axes = _AXES[mean_over]
        donors = donors_among(len(inputs), seed) if other is inputs else donors_of(inputs, other, seed)
        tokens = other[:, : inputs.shape[1]]
        parts = tokens.tensor_split(QUARTERS) if len(tokens) >= QUARTERS else (tokens,)
        totals = [_total_contexts(model, part.split(at_once), axes) for part in parts]
        whole = {layer: torch.stack([total[layer] for total in totals]).sum(0) for layer in totals[0]}
        dtype = next(model.parameters()).dtype

        def mean(total: StandIn, n: int) -> StandIn:
            return {layer: (z / n).to(dtype) for layer, z in total.items()}

        quarters = tuple(mean(total, len(part)) for total, part in zip(totals, parts, strict=True))
        return cls(
            tokens=tokens, mean=mean(whole, len(tokens)), donors=donors, quarters=quarters if len(parts) > 1 else ()
        )

    def stand_ins(self, model: Intervenable, some: slice) -> Substitutes:
        """Return the substitutes for heads on some sequences of the text."""
        zero = {layer: z.new_zeros(1, 1, 1, 1) for layer, z in self.mean.items()}
        resampled = contexts_of(model, self.tokens[list(self.donors[some])])
        return {"zero": zero, "mean": self.mean, "resample": resampled}


def _total_contexts(model: Intervenable, texts: Iterable[Tensor], axes: tuple[int, ...]) -> dict[int, Tensor]:
    """Return the sum over sequences of the mean of each head's context over some axes."""
    total: dict[int, Tensor] = {}
    for some in texts:
        for layer, z in contexts_of(model, some).items():
            total[layer] = total.get(layer, 0) + z.double().mean(axes, keepdim=True) * len(some)
    return total


_LOGITS = 4 << 20
"""The number of logits that are held at once; more would only leave the processor's cache."""


def sequence_losses(
    model: Intervenable, stream: Float[Tensor, "batch pos d_model"], targets: Tokens
) -> Float[Tensor, " batch"]:
    """Return mean cross-entropy in nats per token of each sequence, in float32.

    The mean is over the targets that are not -1.

    Law: their mean, weighted by `counted` tokens, is `mean_nll` of the logits.

    Args:
        model: the model that reads out the logits.
        stream: the stream after the last layer, before the final norm.
        targets: the tokens after each position; -1 where none is counted.
    """
    rows = (targets.flatten() != -1).nonzero()[:, 0]
    streams, wanted = stream.flatten(0, 1), targets.flatten()[rows]
    losses = torch.zeros(targets.numel(), dtype=torch.float64, device=stream.device)
    size = max(1, _LOGITS // model.vocab_size)
    for some, tokens in zip(rows.split(size), wanted.split(size), strict=True):
        logits = model.read_out(streams[some][None])[0].float()
        losses[some] = (logits.logsumexp(1) - logits.gather(1, tokens[:, None])[:, 0]).double()
    return losses.unflatten(0, targets.shape).sum(1) / counted(targets)


def counted(targets: Tokens) -> Int[Tensor, " batch"]:
    """Return how many tokens of each sequence count."""
    return (targets != -1).sum(1)


def check_targets(targets: Tokens) -> None:
    """Raise UserError if a sequence has no target.

    Raises:
        UserError: naming the first one.
    """
    empty = (counted(targets) == 0).nonzero()
    if len(empty):
        raise UserError(
            f"sequence {int(empty[0, 0])} has no target that counts (all are -1), so no head can matter to it; leave "
            "it out"
        )

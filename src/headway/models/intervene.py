"""Model: what is asked of a decoder of which heads are taken away: of Headway's own, and of what others wrote.

A decoder of transformers becomes one in `headway.hf.intervene`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.models.edits import Edits, Site
from headway.models.trace import Trace
from headway.models.transformer import Gates, Transformer


@dataclass(frozen=True, kw_only=True)
class StreamSums:
    """Whether what heads write is added to one stream, and reaches every later layer as it is."""

    why_not: str | None
    """In words; None: it does."""
    norms: Mapping[int, nn.Module]
    """By layer what it goes through before it is added, where it goes through something."""


@runtime_checkable
class KeptPass(Protocol):
    """A pass that was made, from any layer of which on it can be made again."""

    @property
    def logits(self) -> Float[Tensor, "batch pos vocab"]:
        """Of the whole model."""

    @property
    def repeats(self) -> bool:
        """Whether copies of its text can go through the layers side by side."""

    def again(self, layer: int, edits: Edits, copies: int = 1) -> Float[Tensor, "copies_batch pos vocab"]:
        """The logits with edits of this layer and later ones, which concern copies of the text, side by side."""

    def writes(
        self, layer: int, norm: nn.Module, edits: Edits, copies: int = 1
    ) -> Float[Tensor, "copies_batch pos d_model"]:
        """What a norm between a layer's heads and the stream gives, in copies of the text, side by side."""

    def reads(
        self, layer: int, change: Float[Tensor, "copies_batch pos d_model"]
    ) -> Mapping[Site, Float[Tensor, "copies_batch head pos d_head"]]:
        """Queries, keys and values of a layer whose stream is changed, in copies of the text, side by side."""

    def ends(self, change: Float[Tensor, "copies_batch pos d_model"]) -> Float[Tensor, "copies_batch pos vocab"]:
        """The logits where the stream after the last layer is changed, in copies of the text, side by side."""

    def share(self, layer: int) -> float:
        """Of a whole pass, about what `again` computes."""


@runtime_checkable
class TheirModel(Protocol):
    """A decoder that others wrote, whose heads can be gated and edited.

    Contexts are as they enter the output projection; queries, keys and values as they enter the attention function.

    Law: gates of 1 and edits that change nothing change no bit; gate 0 is the model without that head's rows of W_O.
    """

    vocab_size: int

    @property
    def training(self) -> bool:
        """Whether it is in training mode."""

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer; 0 for one without."""

    @property
    def dropout(self) -> float:
        """The share of entries that it drops at random in training mode."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same, by name."""

    def hidden(
        self, tokens: Int[Tensor, "batch pos"], gates: Gates | None = None, *, edits: Edits | None = None
    ) -> tuple[Tensor, Trace | None]:
        """What `read_out` makes logits of, (batch, pos, width), and None.

        Args:
            tokens: the text.
            gates: per layer what multiplies the heads' contexts; broadcasts to (batch, head).
            edits: what stands in for q, k, v and z of the heads; z after the gates.
        """

    def read_out(self, stream: Tensor) -> Float[Tensor, "batch pos vocab"]:
        """Logits, position by position."""

    def trace(self, tokens: Int[Tensor, "batch pos"]) -> Trace:
        """What every head does with a text."""

    def kept(self, tokens: Int[Tensor, "batch pos"]) -> KeptPass:
        """A whole pass, and what each layer gave in it."""

    def stream_sums(self, tokens: Int[Tensor, "batch pos"]) -> StreamSums:
        """Whether what heads write reaches later layers as it is."""

    def outputs(self, tokens: Int[Tensor, "batch pos"]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Of each layer what its heads write by their own slices of W_O, summed, and what its projection gives.

        The bias is in neither.
        """

    def without(
        self, tokens: Int[Tensor, "batch pos"], keep: Sequence[Bool[Tensor, " head"]]
    ) -> Float[Tensor, "batch pos vocab"]:
        """The logits of a model in which the heads that go have no rows of W_O left."""


Intervenable = Transformer | TheirModel
"""A decoder of which heads can be taken away and patched, whoever wrote it."""


def logits_of(
    model: Intervenable, tokens: Int[Tensor, "batch pos"], gates: Gates | None = None, edits: Edits | None = None
) -> Float[Tensor, "batch pos vocab"]:
    """The logits of a text, with gates and edits of the heads."""
    return model.read_out(model.hidden(tokens, gates=gates, edits=edits)[0])

"""The interface of decoders whose heads can be removed: Headway's own models, and those of others.

`headway.hf.intervene` gives a decoder of transformers this interface.
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
    """The finding whether heads' outputs are added to one stream and reach every later layer unchanged."""

    why_not: str | None
    """The reason if they are not; None if they are."""
    norms: Mapping[int, nn.Module]
    """The norm, by layer, that the heads' output goes through before it is added, if there is one."""


@runtime_checkable
class KeptPass(Protocol):
    """A kept forward pass that can be repeated from any layer on."""

    @property
    def logits(self) -> Float[Tensor, "batch pos vocab"]:
        """The logits of the whole model."""

    @property
    def repeats(self) -> bool:
        """True if copies of the text can go through the layers side by side."""

    def again(self, layer: int, edits: Edits, copies: int = 1) -> Float[Tensor, "copies_batch pos vocab"]:
        """Return the logits with edits of this layer and later ones, for copies of the text side by side."""

    def writes(
        self, layer: int, norm: nn.Module, edits: Edits, copies: int = 1
    ) -> Float[Tensor, "copies_batch pos d_model"]:
        """Return the output of a norm between a layer's heads and the stream, for copies of the text side by side."""

    def reads(
        self, layer: int, change: Float[Tensor, "copies_batch pos d_model"]
    ) -> Mapping[Site, Float[Tensor, "copies_batch head pos d_head"]]:
        """Return queries, keys and values of a layer whose stream is changed, for copies of the text side by side."""

    def ends(self, change: Float[Tensor, "copies_batch pos d_model"]) -> Float[Tensor, "copies_batch pos vocab"]:
        """Return the logits for changed streams after the last layer, for copies of the text side by side."""

    def share(self, layer: int) -> float:
        """Return about which share of a whole pass `again` computes from a layer on."""


@runtime_checkable
class TheirModel(Protocol):
    """A decoder that others wrote, whose heads can be gated and edited.

    Contexts are as they enter the output projection; queries, keys and values as they enter the attention function.

    Law: gates of 1 and edits that change nothing change no bit; gate 0 is the model without that head's rows of W_O.
    """

    vocab_size: int

    @property
    def training(self) -> bool:
        """True if the model is in training mode."""

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer; 0 for one without."""

    @property
    def dropout(self) -> float:
        """The share of entries that dropout zeroes in training mode."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the weights of the model."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the weights of the model by name."""

    def hidden(
        self, tokens: Int[Tensor, "batch pos"], gates: Gates | None = None, *, edits: Edits | None = None
    ) -> tuple[Tensor, Trace | None]:
        """Return the tensor that `read_out` turns into logits, (batch, pos, width), and None.

        Args:
            tokens: the text.
            gates: per layer what multiplies the heads' contexts; broadcasts to (batch, head).
            edits: what stands in for q, k, v and z of the heads; z after the gates.
        """

    def read_out(self, stream: Tensor) -> Float[Tensor, "batch pos vocab"]:
        """Return logits, position by position."""

    def trace(self, tokens: Int[Tensor, "batch pos"]) -> Trace:
        """Return what every head does with a text."""

    def kept(self, tokens: Int[Tensor, "batch pos"]) -> KeptPass:
        """Return a whole pass with the outputs of each layer."""

    def stream_sums(self, tokens: Int[Tensor, "batch pos"]) -> StreamSums:
        """Return whether what heads write reaches later layers unchanged."""

    def outputs(self, tokens: Int[Tensor, "batch pos"]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each layer's sum of its heads' outputs by their slices of W_O, and its projection's output.

        Neither contains the bias.
        """

    def without(
        self, tokens: Int[Tensor, "batch pos"], keep: Sequence[Bool[Tensor, " head"]]
    ) -> Float[Tensor, "batch pos vocab"]:
        """Return the logits of a model in which the removed heads have no rows of W_O."""


Intervenable = Transformer | TheirModel
"""A decoder whose heads can be removed and patched, whoever wrote it."""


def logits_of(
    model: Intervenable, tokens: Int[Tensor, "batch pos"], gates: Gates | None = None, edits: Edits | None = None
) -> Float[Tensor, "batch pos vocab"]:
    """Return the logits of a text, with gates and edits of the heads."""
    return model.read_out(model.hidden(tokens, gates=gates, edits=edits)[0])

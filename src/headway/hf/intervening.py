"""Models: a decoder of transformers whose heads can be taken away and patched; its code stays as it is.

The contexts of a layer's heads are what enters its output projection: (batch, pos, heads times d_head), whatever the
architecture. Which linear map that is has been seen in a recorded pass (`recording`), not read off a name. So a hook
before it is the one place where contexts are gated and edited. Queries, keys and values are edited where they enter the
attention function (`attending`), and nowhere else is anything changed.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.errors import UserError
from headway.hf.attending import attending
from headway.hf.kept_pass import TheirPass
from headway.hf.stream_sums import stream_sums
from headway.hf.tracing import recorded_pass, trace, traceable
from headway.model.edits import Edits, edited
from headway.model.intervenable import StreamSums
from headway.model.trace import Trace

_SEEN = 16
"""Tokens of the pass in which the output projections are seen."""
_SAME = 1e-5
"""Relative difference of logits that rounding may leave; a token that is seen changes them by more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Heads:
    """Where the heads of a layer enter its output projection."""

    projection: nn.Linear | Conv1D
    path: str
    """Of the attention."""
    n_heads: int
    d_head: int

    def split(self, entered: Tensor, batch: int) -> Float[Tensor, "batch head pos d_head"]:
        """The contexts of the heads in what the projection reads."""
        return entered.reshape(batch, -1, self.n_heads, self.d_head).transpose(1, 2)


class TheirDecoder:
    """A decoder of transformers as `headway.model.intervenable` asks; nothing of it is changed, moved or copied.

    Its `hidden` gives logits, and `read_out` gives them back: between the last layer and the logits some architectures
    scale or cap, which is theirs to know.

    Raises:
        UserError: for a model that cannot be traced, or whose heads cannot be told from its output projections.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        traceable(model)
        self.model = model
        self.vocab_size: int = model.get_input_embeddings().num_embeddings
        self._heads = _heads_of(model, self.vocab_size)
        self._layers = _layers_of(model, [heads.path for heads in self._heads.values()])
        takes = inspect.signature(model.forward).parameters
        self._options: dict[str, Any] = {"use_cache": False} if "use_cache" in takes else {}
        self._check_causal()

    def _check_causal(self) -> None:
        """Nothing, when no logit depends on a later token: else the loss of the next one says nothing of heads.

        Raises:
            UserError: when one does.
        """
        tokens = _tokens(self.model, self.vocab_size)
        other = tokens.clone()
        other[:, -1] = (other[:, -1] + 1) % self.vocab_size
        with torch.no_grad():
            one, two = (self.hidden(each)[0][:, :-1] for each in (tokens, other))
        if not bool((one - two).abs().max() <= _SAME * one.abs().max()):
            raise UserError(
                f"{type(self.model).__name__}: its heads can be measured (`headway xray`), but not yet taken away or "
                "patched: it sees what comes later, as an encoder does, so that the loss of the next token says "
                "nothing of them; take a decoder"
            )

    @property
    def training(self) -> bool:
        """Whether it is in training mode."""
        return self.model.training

    @property
    def dropout(self) -> float:
        """The largest share that any part of it drops."""
        return max((m.p for m in self.model.modules() if isinstance(m, nn.Dropout)), default=0.0)

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer; 0 for one without."""
        return tuple(heads.n_heads if (heads := self._heads.get(i)) else 0 for i in range(max(self._heads) + 1))

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""
        return self.model.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same, by name."""
        return self.model.named_parameters()

    def hidden(
        self, tokens: Int[Tensor, "batch pos"], gates: Sequence[Tensor] | None = None, *, edits: Edits | None = None
    ) -> tuple[Float[Tensor, "batch pos vocab"], None]:
        """The logits, with gates and edits of the heads."""
        with ExitStack() as stack:
            if any(site != "z" for _, site in edits or ()):
                paths = {heads.path: layer for layer, heads in self._heads.items()}
                stack.enter_context(attending(self.model, paths, edits or {}))
            for layer, heads in self._heads.items():
                gate = None if gates is None else gates[layer]
                if gate is not None or (layer, "z") in (edits or ()):
                    change = partial(_changed, heads, layer, gate, edits, len(tokens))
                    stack.callback(heads.projection.register_forward_pre_hook(change).remove)
            return self.model(input_ids=tokens, **self._options).logits, None

    def read_out(self, stream: Tensor) -> Tensor:
        """Logits are what `hidden` gives."""
        return stream

    def trace(self, tokens: Int[Tensor, "batch pos"]) -> Trace:
        """What every head does with a text."""
        return trace(self.model, tokens)

    def kept(self, tokens: Int[Tensor, "batch pos"]) -> TheirPass:
        """A whole pass, and what each layer gave in it."""
        return TheirPass.of(lambda read, edits: self.hidden(read, edits=edits)[0], self._layers, tokens)

    def stream_sums(self, tokens: Int[Tensor, "batch pos"]) -> StreamSums:
        """Whether what heads write reaches later layers as it is."""
        written = {
            each.layer: (self._heads[each.layer].projection, each.contributions().sum(1))
            for each in self.trace(tokens).attentions
        }
        return stream_sums(self._layers, lambda: self.hidden(tokens), written)

    def outputs(self, tokens: Int[Tensor, "batch pos"]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Of each layer what its heads write by their own slices of W_O, summed, and what its projection gives.

        The contexts are those that the attention function returned; the bias is in neither.
        """
        wrote: dict[int, Tensor] = {}
        with ExitStack() as stack:
            for layer, heads in self._heads.items():
                keep = partial(_keep, wrote, layer)
                stack.callback(heads.projection.register_forward_hook(keep).remove)
            contexts = {each.layer: each.z for each in self.trace(tokens).attentions}
        for layer, heads in self._heads.items():
            W_O = _by_input(heads.projection).unflatten(0, (heads.n_heads, heads.d_head))
            bias = heads.projection.bias
            written = wrote[layer].reshape(*tokens.shape, -1)
            total = torch.einsum("bhqd,hdm->bqm", contexts[layer], W_O)
            yield layer, total, written if bias is None else written - bias

    def without(
        self, tokens: Int[Tensor, "batch pos"], keep: Sequence[Bool[Tensor, " head"]]
    ) -> Float[Tensor, "batch pos vocab"]:
        """The logits of a model in which the heads that go have no rows of W_O left: they are zero."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        arrays: dict[str, Tensor] = {}
        for layer, heads in self._heads.items():
            weight = heads.projection.weight
            stays = keep[layer].to(weight.device).repeat_interleave(heads.d_head)
            left = _by_input(heads.projection) * stays[:, None]
            arrays[names[id(weight)]] = left.T if isinstance(heads.projection, nn.Linear) else left
        found = functional_call(self.model, arrays, (), {"input_ids": tokens, **self._options})
        logits: Tensor = found.logits
        return logits


def _heads_of(model: PreTrainedModel, vocab_size: int) -> dict[int, _Heads]:
    """By layer, seen in a pass of different tokens.

    Raises:
        UserError: when a layer has two attentions, or one projection is that of several.
    """
    name = type(model).__name__
    with torch.no_grad():
        seen, recorded = recorded_pass(model, {"input_ids": _tokens(model, vocab_size)})
    found: dict[int, _Heads] = {}
    for attention, call in zip(seen.attentions, recorded.calls, strict=True):
        other = found.get(attention.layer)
        if other is not None or any(call.projection is heads.projection for heads in found.values()):
            raise UserError(
                f"{name}: heads cannot be taken away or patched, for its layers share attentions ({attention.name}); "
                "measure them with `headway xray`"
            )
        assert isinstance(call.projection, nn.Linear | Conv1D), "nothing else was hooked"
        found[attention.layer] = _Heads(
            projection=call.projection,
            path=attention.name,
            n_heads=attention.z.shape[1],
            d_head=attention.z.shape[3],
        )
    return found


def _tokens(model: PreTrainedModel, vocab_size: int) -> Int[Tensor, "batch pos"]:
    """Different ones, of which nothing is asked but to be read."""
    return ((1 + 7 * torch.arange(_SEEN, device=next(model.parameters()).device)) % vocab_size)[None]


def _layers_of(model: PreTrainedModel, paths: Sequence[str]) -> tuple[nn.Module, ...]:
    """The list of layers in which all attentions are, by the first number in their paths; else nothing."""
    parents = {_before_number(path) for path in paths}
    parent = parents.pop() if len(parents) == 1 else None
    found = None if parent is None else model.get_submodule(parent)
    return tuple(found) if isinstance(found, nn.ModuleList) else ()


def _before_number(path: str) -> str | None:
    parts = path.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return None if at is None else ".".join(parts[:at])


def _changed(
    heads: _Heads, layer: int, gate: Tensor | None, edits: Edits | None, batch: int, _: nn.Module, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """What enters an output projection, with a gate on its heads and edited."""
    entered, *rest = args
    z = heads.split(entered, batch)
    if gate is not None:
        z = z * gate.broadcast_to(z.shape[:2])[:, :, None, None]
    z = edited(z, edits, layer, "z")
    return z.transpose(1, 2).reshape(entered.shape), *rest


def _keep(wrote: dict[int, Tensor], layer: int, _: nn.Module, __: tuple[Any, ...], output: Tensor) -> None:
    wrote[layer] = output


def _by_input(projection: nn.Linear | Conv1D) -> Tensor:
    return projection.weight.T if isinstance(projection, nn.Linear) else projection.weight

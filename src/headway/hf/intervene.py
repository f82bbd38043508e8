"""Decoders of transformers whose heads can be removed and patched; their code stays unchanged.

The contexts of a layer's heads are the input of its output projection: (batch, pos, heads times d_head), whatever the
architecture. A recorded pass (`recorder`) shows which linear map that is; no name is trusted. So a hook before that
map is the one place where contexts are gated and edited. Queries, keys and values are edited where they enter the
attention function (`interface`). That is after norms and rotary turns, whatever the architecture; masks, caps and
biases stay the function's own. Nothing else is changed.

A pass can be made again from any layer on. The layers below are shared: after a whole pass was kept, they give their
kept outputs and are not computed again.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.errors import UserError
from headway.hf.interface import intercepted, own_function
from headway.hf.recorder import by_input, longest_text, recorded_pass, trace, traceable
from headway.hf.stream_sums import SAME, StreamSums, answering, keep_output, same, stream_sums, with_added
from headway.models.trace import READ, Edits, Site, Trace, edited

_LOGITS = 1 << 24
"""The most entries of the logits of copies that are held at once."""

Contexts = Mapping[int, Float[Tensor, "batch pos d_head"]]
"""Replaced contexts by head of a layer."""
Logits = Float[Tensor, "batch pos vocab"]
Stream = Float[Tensor, "batch pos d_model"]
Tokens = Int[Tensor, "batch pos"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TheirPass:
    """A kept forward pass of a model of transformers that can be repeated from any layer on."""

    decoder: "TheirDecoder"
    tokens: Tokens
    logits: Logits
    outputs: tuple[Any, ...]
    """The outputs of each layer; empty if passes can only be made whole."""

    @cached_property
    def repeats(self) -> bool:
        """True if copies of the text can go through the layers side by side: all kept outputs are by text."""
        return all(_by_text(output, len(self.tokens)) for output in self.outputs)

    def again(self, layer: int, edits: Edits, copies: int = 1) -> Float[Tensor, "copies_batch pos vocab"]:
        """Return the logits with edits of this layer and later ones, for copies of the text side by side."""
        with ExitStack() as stack:
            for module, output in zip(self.decoder.layers[:layer], self.outputs, strict=False):
                # A copy each time, since later layers may write into it.
                stack.enter_context(answering(module, partial(_copied, output, copies)))
            return self.decoder.hidden(self.tokens.repeat(copies, 1), edits=edits)[0]

    def share(self, layer: int) -> float:
        """Return about which share of a whole pass `again` computes from a layer on."""
        return 1 - layer / len(self.outputs) if self.outputs else 1.0

    def logits_with(self, layer: int, patches: Sequence[Contexts]) -> Iterator[Logits]:
        """Yield the logits with each of some patches of a layer."""
        for some in self._groups(patches):
            yield from self.again(layer, {(layer, "z"): partial(_patched, some)}, len(some)).chunk(len(some))

    def writes(self, layer: int, norm: nn.Module, patches: Sequence[Contexts]) -> Iterator[Stream]:
        """Yield how each of some patches changes the output of a norm between a layer's heads and the stream."""
        was = self._normed(layer, norm, {}, 1)
        for some in self._groups(patches):
            normed = self._normed(layer, norm, {(layer, "z"): partial(_patched, some)}, len(some))
            yield from (part - was for part in normed.chunk(len(some)))

    def _normed(self, layer: int, norm: nn.Module, edits: Edits, copies: int) -> Tensor:
        """Return the output of a norm between a layer's heads and the stream, for copies of the text side by side."""
        gave: list[Tensor] = []

        def stop(_: nn.Module, __: tuple[Any, ...], output: Tensor) -> None:
            gave.append(output)
            raise _SeenAll

        with suppress(_SeenAll), norm.register_forward_hook(stop):
            self.again(layer, edits, copies)
        return gave[0]

    def reads(self, layer: int, changes: Sequence[Stream]) -> Iterator[Mapping[Site, Tensor]]:
        """Yield queries, keys and values of a layer with each of some changes of the stream before it."""
        for some in self._groups(changes):
            seen: dict[Site, Tensor] = {}
            edits: Edits = {(layer, site): partial(_noted, seen, site) for site in READ}
            add = partial(with_added, torch.cat(list(some)))
            with suppress(_SeenAll), self.decoder.layers[layer].register_forward_pre_hook(add, with_kwargs=True):
                self.again(layer, edits, len(some))
            for copies in zip(*(x.chunk(len(some)) for x in seen.values()), strict=True):
                yield dict(zip(seen, copies, strict=True))

    def ends(self, changes: Sequence[Stream]) -> Iterator[Logits]:
        """Yield the logits with each of some changes of the stream after the last layer."""
        for some in self._groups(changes):
            last, change = _copied(self.outputs[-1], len(some)), torch.cat(list(some))
            changed = (last[0] + change, *last[1:]) if isinstance(last, tuple) else last + change
            with answering(self.decoder.layers[-1], partial(_copied, changed, 1)):
                logits = self.again(len(self.decoder.layers) - 1, {}, len(some))
            yield from logits.chunk(len(some))

    def _groups(self, things: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield groups as large as can go side by side."""
        at_once = max(1, _LOGITS // self.logits.numel()) if self.repeats else 1
        for start in range(0, len(things), at_once):
            yield things[start : start + at_once]


def _patched(patches: Sequence[Contexts], z: Tensor) -> Tensor:
    parts = [part.clone() for part in z.chunk(len(patches))]
    for part, patch in zip(parts, patches, strict=True):
        for head, context in patch.items():
            part[:, head] = context
    return torch.cat(parts)


class _SeenAll(Exception):
    """A signal that everything wanted of a pass has been seen."""


def _noted(seen: dict[Site, Tensor], site: Site, x: Tensor) -> Tensor:
    seen[site] = x
    if len(seen) == len(READ):
        raise _SeenAll
    return x


def _by_text(output: Any, batch: int) -> bool:
    if isinstance(output, tuple):
        return all(_by_text(each, batch) for each in output)
    return len(output) == batch if isinstance(output, Tensor) and output.ndim else output is None


def _copied(output: Any, copies: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_copied(each, copies) for each in output)
    if not isinstance(output, Tensor):
        return output
    return output.clone() if copies == 1 else output.repeat(copies, *[1] * (output.ndim - 1))


_SEEN = 16
"""The most tokens of the pass that finds the output projections."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Heads:
    """The projection of a layer, and how the heads' contexts enter it."""

    projection: nn.Linear | Conv1D
    attention: nn.Module
    path: str
    """The path of the attention."""
    n_heads: int
    d_head: int


class TheirDecoder:
    """A decoder of transformers whose heads can be masked and patched; nothing of it is changed or copied.

    Its `hidden` gives logits, and `read_out` returns them unchanged: between the last layer and the logits some
    architectures scale or cap, which only their own code knows.

    Raises:
        UserError: if the model cannot be traced, or its output projections do not separate its heads.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        traceable(model)
        self.model = model
        self.vocab_size: int = model.get_input_embeddings().num_embeddings
        takes = inspect.signature(model.forward).parameters
        options = {"use_cache": False, "return_dict": True}
        self._options: dict[str, Any] = {name: value for name, value in options.items() if name in takes}
        self._few_tokens = _tokens(model, self.vocab_size)
        self._check_answers()
        self._heads = _heads_of(model, self._few_tokens)
        self.layers = _layers_of(model, [heads.path for heads in self._heads.values()])
        self._check_causal()

    def _check_answers(self) -> None:
        """Raise UserError if the model gives no logits of the next token.

        Raises:
            UserError: naming the class that does.
        """
        with torch.no_grad():
            output = self.model(input_ids=self._few_tokens, **self._options)
        logits = getattr(output, "logits", None)
        if not isinstance(logits, Tensor) or logits.ndim != 3 or logits.shape[1] != self._few_tokens.shape[1]:
            raise UserError(
                f"{type(self.model).__name__}: it gives no logits of the next token, so `headway xray` can measure its "
                "heads, but Headway cannot ablate or patch them; load it with AutoModelForCausalLM.from_pretrained"
            )

    @cached_property
    def only_streams(self) -> bool:
        """True if a layer reads nothing of the layers before it but the stream.

        Layers that share keys and values (Gemma 3n and 4) read more. So each layer is tried once with kept outputs
        below it, on a few tokens.
        """
        with torch.no_grad():
            whole = self._kept_whole(self._few_tokens)
            return all(_goes_on(whole, layer) for layer in range(1, len(whole.outputs)))

    def _check_causal(self) -> None:
        """Raise UserError if a logit depends on a later token: next-token losses would say nothing of heads.

        Raises:
            UserError: when one does.
        """
        tokens, other = self._few_tokens, self._few_tokens.clone()
        other[:, -1] = (other[:, -1] + 1) % self.vocab_size
        with torch.no_grad():
            one, two = (self.hidden(each)[0][:, :-1] for each in (tokens, other))
        if not bool((one - two).abs().max() <= SAME * one.abs().max()):
            raise UserError(
                f"{type(self.model).__name__}: `headway xray` can measure its heads. Ablation and patching measure the "
                "loss of the next token, which an encoder sees; use a decoder"
            )

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer; 0 for one without."""
        return tuple(heads.n_heads if (heads := self._heads.get(i)) else 0 for i in range(max(self._heads) + 1))

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the weights of the model."""
        return self.model.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the weights of the model by name."""
        return self.model.named_parameters()

    def hidden(
        self, tokens: Tokens, gates: Sequence[Tensor] | None = None, *, edits: Edits | None = None
    ) -> tuple[Logits, None]:
        """Return the logits, with gates and edits of the heads."""
        with ExitStack() as stack:
            edits = edits or {}
            if any(site != "z" for _, site in edits):
                layers = {heads.attention: layer for layer, heads in self._heads.items()}
                stack.enter_context(intercepted(self.model, partial(_attended, layers, edits)))
            for layer, heads in self._heads.items():
                gate = None if gates is None else gates[layer]
                if gate is not None or (layer, "z") in edits:
                    change = partial(_changed, heads, layer, gate, edits, len(tokens))
                    stack.enter_context(heads.projection.register_forward_pre_hook(change))
            return self.model(input_ids=tokens, **self._options).logits, None

    def read_out(self, stream: Tensor) -> Tensor:
        """Return logits unchanged, since `hidden` gives logits."""
        return stream

    def trace(self, tokens: Tokens) -> Trace:
        """Return what every head does with a text."""
        return trace(self.model, tokens)

    def kept(self, tokens: Tokens) -> TheirPass:
        """Return a whole pass with the output of each layer, if passes can be made again from a layer on."""
        found = self._kept_whole(tokens)
        return found if self.only_streams else replace(found, outputs=())

    def _kept_whole(self, tokens: Tokens) -> TheirPass:
        outputs: list[Any] = []
        with ExitStack() as stack:
            for layer in self.layers:
                stack.enter_context(layer.register_forward_hook(partial(keep_output, outputs)))
            logits, _ = self.hidden(tokens)
        # A layer that is called twice has two outputs.
        whole = tuple(outputs) if len(outputs) == len(self.layers) else ()
        return TheirPass(decoder=self, tokens=tokens, logits=logits, outputs=whole)

    def stream_sums(self, tokens: Tokens) -> StreamSums:
        """Return whether what heads write reaches later layers unchanged."""
        written = {
            each.layer: (self._heads[each.layer].projection, each.contributions().sum(1))
            for each in self.trace(tokens).attentions
        }
        if not self.only_streams:
            why = "a layer reads more from earlier layers than the residual stream, such as shared keys and values"
            return StreamSums(why_not=why, norms={})
        return stream_sums(self.layers, lambda: self.hidden(tokens), written)

    def outputs(self, tokens: Tokens) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each layer's sum of its heads' outputs by their slices of W_O, and its projection's output.

        The contexts are those that the attention function returned. Neither contains the bias.
        """
        wrote: dict[int, list[Tensor]] = {layer: [] for layer in self._heads}
        with ExitStack() as stack:
            for layer, heads in self._heads.items():
                stack.enter_context(heads.projection.register_forward_hook(partial(keep_output, wrote[layer])))
            contexts = {each.layer: each.z for each in self.trace(tokens).attentions}
        for layer, heads in self._heads.items():
            W_O = by_input(heads.projection.weight, heads.projection).unflatten(0, (heads.n_heads, heads.d_head))
            bias = heads.projection.bias
            written = wrote[layer][-1].reshape(*tokens.shape, -1)
            total = torch.einsum("bhqd,hdm->bqm", contexts[layer], W_O)
            yield layer, total, written if bias is None else written - bias

    def without(self, tokens: Tokens, keep: Sequence[Bool[Tensor, " head"]]) -> Logits:
        """Return the logits of a model whose removed heads have rows of zeros in W_O."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        arrays: dict[str, Tensor] = {}
        for layer, heads in self._heads.items():
            weight, stays = heads.projection.weight, keep[layer].repeat_interleave(heads.d_head).to(tokens.device)
            left = by_input(weight, heads.projection) * stays[:, None]
            arrays[names[id(weight)]] = by_input(left, heads.projection)
        logits: Tensor = functional_call(self.model, arrays, (), {"input_ids": tokens, **self._options}).logits
        return logits


def _goes_on(whole: TheirPass, layer: int) -> bool:
    """Return whether a pass from a layer on gives the logits of the whole pass."""
    try:
        return same(whole.again(layer, {}), whole.logits)
    except (LookupError, TypeError, AttributeError, ValueError, RuntimeError):
        return False  # it lacks what the layers below would have left for it


def _heads_of(model: PreTrainedModel, tokens: Tokens) -> dict[int, _Heads]:
    """Return the heads of each layer, found in a pass of different tokens.

    Raises:
        UserError: when a layer has two attentions, or one projection is that of several.
    """
    name = type(model).__name__
    with torch.no_grad():
        seen, recorded = recorded_pass(model, {"input_ids": tokens})
    found: dict[int, _Heads] = {}
    for attention, call in zip(seen.attentions, recorded.calls, strict=True):
        if attention.layer in found or any(call.projection is heads.projection for heads in found.values()):
            raise UserError(
                f"{name}: heads cannot be ablated or patched, since its layers share attentions ({attention.name}); "
                "measure them with `headway xray`"
            )
        found[attention.layer] = _Heads(
            projection=call.projection,
            attention=call.module,
            path=attention.name,
            n_heads=attention.z.shape[1],
            d_head=attention.z.shape[3],
        )
    if not found:
        raise UserError(
            f"{name}: Headway cannot ablate or patch heads of this object, since its attention does not use "
            "transformers' AttentionInterface; give its folder, or remove hooks and changed parts"
        )
    return found


def _tokens(model: PreTrainedModel, vocab_size: int) -> Tokens:
    """Return different tokens that only have to be readable."""
    n_tokens = min(_SEEN, longest_text(model, None) or _SEEN)
    return ((1 + 7 * torch.arange(n_tokens, device=next(model.parameters()).device)) % vocab_size)[None]


def _layers_of(model: PreTrainedModel, paths: Sequence[str]) -> tuple[nn.Module, ...]:
    """Return the list of layers that holds all attentions, by the first number in their paths; else nothing."""
    first_numbers = [re.match(r"(.+?)\.\d+(\.|$)", path) for path in paths]
    parents = {match and match[1] for match in first_numbers}
    parent = parents.pop() if len(parents) == 1 else None
    layers = None if parent is None else model.get_submodule(parent)
    return tuple(layers) if isinstance(layers, nn.ModuleList) else ()


def _attended(
    layers: Mapping[nn.Module, int],
    edits: Edits,
    implementation: str,
    module: nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *rest: Any,
    **options: Any,
) -> Any:
    """Compute attention with edited queries, keys and values, the latter two by KV head."""
    layer = layers[module]
    q, k, v = edited(q, edits, layer, "q"), edited(k, edits, layer, "k"), edited(v, edits, layer, "v")
    return own_function(module, implementation)(module, q, k, v, *rest, **options)


def _changed(
    heads: _Heads, layer: int, gate: Tensor | None, edits: Edits | None, batch: int, _: nn.Module, args: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the input of an output projection with its heads gated and edited."""
    entered, *rest = args
    z = entered.reshape(batch, -1, heads.n_heads, heads.d_head).transpose(1, 2)
    if gate is not None:
        z = z * gate.broadcast_to(z.shape[:2])[:, :, None, None]
    z = edited(z, edits, layer, "z")
    return z.transpose(1, 2).reshape(entered.shape), *rest

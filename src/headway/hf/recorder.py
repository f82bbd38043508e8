"""Traces of a model of Hugging Face: what every head does with a text, in the `Trace` of all models.

The model computes what it always computes; Headway keeps the input and the output of its attention function. The output
projection is the linear layer whose input shares memory with the attention's output. The next sum of two tensors of
that shape adds the projection's output to the residual stream. No architecture needs code of its own.
"""

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.pytorch_utils import Conv1D

from headway.errors import UserError
from headway.hf.interface import OutputMap, Sums, attentions, intercepted, output_map, own_function
from headway.hf.read import CONVERTED, converted
from headway.models.attention import sees
from headway.models.trace import AttentionTrace, Trace

_HIDDEN = -1e4
"""The largest bias of a hidden key: transformers adds -inf or the least number of the type."""

_OTHERS_STATES = ("key_value_states", "encoder_hidden_states", "cross_attention_states")
"""The arguments through which an attention gets states other than its queries'."""


CACHES = ("past_key_value", "past_key_values", "layer_past")
"""The arguments in which an attention finds and stores keys and values."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A computed attention that can be computed again."""

    module: nn.Module
    arguments: Mapping[str, Any]
    x: Tensor
    """The stream that its queries are made of."""
    W_O: Tensor
    projection: nn.Linear
    output_map: OutputMap | None = None


@contextmanager
def recording(model: PreTrainedModel) -> Iterator["AttentionRecorder"]:
    """Record every attention of the passes within a block, in their order.

    The model's outputs keep their bits. Afterwards no hook is left and its implementation is what it was. An attention
    is named by the path of its module (`#2` if it is called again), and its `layer` is the first number in that path.

    Raises:
        UserError: if heads compute something that a trace cannot express; it is raised in the pass.
    """
    recorder = AttentionRecorder(model)
    with ExitStack() as stack:
        for module in recorder.names:
            stack.enter_context(module.register_forward_pre_hook(recorder.enter, with_kwargs=True))
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D):
                stack.enter_context(module.register_forward_hook(recorder.projected))
        stack.enter_context(intercepted(model, recorder.attend))
        stack.enter_context(Sums(recorder.summed))
        yield recorder
        recorder.complete()


@dataclass(frozen=True, kw_only=True)
class _Computed:
    """An attention whose output projection has not been seen yet."""

    module: nn.Module
    attention: AttentionTrace
    """The record but for the projection."""
    dropout: float


class AttentionRecorder:
    """A recorder of attentions, one after the other: entered, computed, projected, and added to the stream.

    Attributes:
        attentions: the attentions of the passes so far, in their order.
        calls: the calls that compute each of them again.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.kind, self.names, self._model = type(model).__name__, attentions(model), model
        self.attentions: list[AttentionTrace] = []
        self.calls: list[Call] = []
        self._times: Counter[nn.Module] = Counter()
        self._given: dict[str, Any] = {}
        self._computed: _Computed | None = None
        self._projected: Tensor | None = None

    def enter(self, module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note the arguments before a module that attends is called."""
        self._given = _by_name(module, args, options)

    def attend(
        self,
        implementation: str,
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Any]:
        """Call the attention function in its place, and keep its inputs and its output."""
        self.complete()
        returned, weights = own_function(module, implementation)(module, q, k, v, attention_mask, **options)
        returned = returned.contiguous()
        causal, bias, scale = (options.get(name) for name in ("is_causal", "position_bias", "scaling"))
        causal = getattr(module, "is_causal", True) if causal is None else causal
        n_heads, n_queries = q.shape[1:3]
        if implementation == "sdpa" and attention_mask is None and causal and n_queries > 1:
            # The function then hides later keys itself, counting from the first key, and cuts off unseen keys.
            k, v, attention_mask = k[:, :, :n_queries], v[:, :, :n_queries], sees(n_queries, n_queries, None, q.device)
        mask, bias = _mask_and_bias(attention_mask, bias, (len(q), n_queries, k.shape[2]))
        name, layer = self._named(module)
        attention = AttentionTrace(
            name=name,
            layer=layer,
            kind=self._kind_of(causal),
            q=q,
            k=k,
            v=v,
            z=returned.transpose(1, 2),
            kv_of=tuple(head * k.shape[1] // n_heads for head in range(n_heads)),
            W_O=torch.empty(*returned.shape[2:], 0),  # until the projection is known
            b_O=None,
            scale=q.shape[3] ** -0.5 if scale is None else float(scale),
            softcap=options.get("softcap"),
            mask=mask,
            bias=bias,
            sinks=options.get("s_aux"),
        )
        self._computed = _Computed(module=module, attention=attention, dropout=options.get("dropout") or 0.0)
        return returned, weights

    def _kind_of(self, causal: bool) -> Literal["self", "encoder", "cross"]:
        if any(self._given.get(name) is not None for name in _OTHERS_STATES):
            return "cross"
        return "self" if causal else "encoder"

    def projected(self, module: nn.Linear, args: tuple[Any, ...], output: Tensor) -> None:
        """Check after a linear map whether it read the output of attention, and so is the output projection."""
        computed, entered = self._computed, args[0] if args else None
        if computed is None or not isinstance(entered, Tensor):
            return
        z, weight = computed.attention.z, by_input(module.weight, module)
        of_heads = z.shape[1::2]
        if _memory(entered) != _memory(z) or len(weight) != of_heads.numel():
            return
        # Under autocast both factors have different types.
        attention = replace(computed.attention, W_O=weight.to(z.dtype).unflatten(0, of_heads), b_O=module.bias)
        if not computed.dropout and not _tells(attention):
            raise UserError(
                f"{self.kind} cannot be traced: the heads of {attention.name} do not return softmax(q k) v, so a "
                "trace would not contain everything that decides their weights"
            )
        self.attentions.append(attention)
        arguments = {name: None if name in CACHES else value for name, value in self._given.items()}
        x = next(value for value in self._given.values() if isinstance(value, Tensor))
        self.calls.append(Call(module=computed.module, arguments=arguments, x=x, W_O=attention.W_O, projection=module))
        self._computed, self._projected = None, output

    def summed(self, one: Tensor, other: Tensor) -> None:
        """Check before a sum whether it adds the projection's output to the stream."""
        o = self._projected
        if o is None:
            return
        if any(x.shape[-1:] != o.shape[-1:] or x.numel() != o.numel() for x in (one, other)):
            return
        # An in-place sum might overwrite what was projected before it is compared with the other.
        output = output_map(o, other) or output_map(o, one)
        if output is not None:
            self.attentions[-1] = output.applied(self.attentions[-1])
            self.calls[-1] = replace(self.calls[-1], output_map=output)
            self._projected = None

    def complete(self) -> None:
        """Finish the previous attention, which must have been projected and added to the stream."""
        if self._computed is not None:
            raise UserError(
                f"{self.kind} cannot be traced: a gate or a norm stands between the heads of "
                f"{self._computed.attention.name} and a Linear or Conv1D, so no head has a contribution of its own"
            )
        o, self._projected = self._projected, None
        # One position cannot show a norm; dropout hides it.
        if o is not None and not self._model.training and o.numel() > o.shape[-1]:
            raise UserError(
                f"{self.kind} cannot be traced: {self.attentions[-1].name} changes the result of its output projection "
                "by more than a norm or a factor, so no head has a contribution of its own"
            )

    def again(self, at: int, parameters: Mapping[str, Tensor], W_O: Tensor, b_O: Tensor | None) -> AttentionTrace:
        """Compute an attention again by its place, with other parameters by name, and another W_O and b_O."""
        call, first = self.calls[at], self.attentions[at]
        self._given = dict(call.arguments)
        try:
            with intercepted(self._model, self.attend):
                functional_call(call.module, dict(parameters), (), dict(call.arguments))
            assert self._computed is not None
            attention = replace(self._computed.attention, name=first.name, layer=first.layer, W_O=W_O, b_O=b_O)
        finally:
            self._computed = None
        return attention if call.output_map is None else call.output_map.applied(attention)

    def _named(self, module: nn.Module) -> tuple[str, int]:
        path, before = self.names[module], self._times[module]
        self._times[module] += 1
        number = re.search(r"(?<![^.])\d+(?![^.])", path)  # a part of the path, not one of a name such as data2vec
        return f"{path}#{before + 1}" if before else path, (int(number[0]) if number else 0) + before


def _by_name(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a module's call by name, further ones included."""
    signature = inspect.signature(module.forward)
    arguments = signature.bind(*args, **options).arguments
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= arguments.pop(parameter.name, {})
    return dict(arguments)


def by_input(weight: Tensor, of: nn.Module) -> Tensor:
    """Return the weight of a linear map as (input, output), or put it back: a Linear has the other order."""
    return weight.T if isinstance(of, nn.Linear) else weight


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _mask_and_bias(
    given: Tensor | None, position_bias: Tensor | None, shape: tuple[int, int, int]
) -> tuple[Tensor | None, Tensor | None]:
    """Return the keys that are seen and the bias, from a mask, boolean or added to the logits."""
    mask, biases = given, [position_bias]
    if given is not None and given.dtype != torch.bool:
        mask = given > _HIDDEN
        biases.append(given.masked_fill(~mask, 0))
    some = [bias for bias in biases if bias is not None and bias.any()]
    return _fitted(mask, shape), _fitted(sum(some[1:], start=some[0]) if some else None, shape)


def _fitted(tensor: Tensor | None, shape: tuple[int, int, int]) -> Tensor | None:
    """Return a mask as (query, key), (batch, query, key) or (batch, head, query, key), without a copy."""
    if tensor is None or tensor.ndim == 2:
        return tensor
    batch, n_queries, n_keys = shape
    fitted = tensor[..., :n_keys].expand(batch, -1, n_queries, n_keys)
    return fitted[:, 0] if fitted.shape[1] == 1 else fitted


def _tells(attention: AttentionTrace) -> bool:
    """Return whether the trace reproduces the contexts of the last query, within the coarsest precision."""
    with torch.no_grad():
        exact = replace(attention, q=attention.q.float(), k=attention.k.float())
        weights = exact.weights(exact.logits(queries=slice(-1, None)))
        expected, contexts = weights @ attention.v[:, list(attention.kv_of)].float(), attention.z[:, :, -1:]
        # NaN where the query sees nothing, or weights are no numbers; there nothing is compared.
        finite = expected.isfinite()
        return not bool((expected - contexts)[finite].norm() > 0.05 * contexts[finite].norm())


def trace(model: PreTrainedModel, inputs: Mapping[str, Any] | Int[Tensor, "batch pos"]) -> Trace:
    """Return what every head does with a text, by a recorded pass without the read-out.

    Dropout follows the model's mode. The `rows` that count come from the inputs' `attention_mask`; those of a decoder
    that reads an encoder come from their `decoder_attention_mask`. Names and layers of attentions are those of
    `recording`. A decoder that is given nothing reads the encoder's tokens, each one later, as in training.

    Args:
        model: a model of any architecture, device and precision. A GPT-Neo, and a model that Headway exported, are read
            into Headway's own model each time: for many texts, use `headway.hf.load` once.
        inputs: the inputs of the model, by name, or tokens alone.

    Raises:
        UserError: before anything runs, if the model cannot be traced, or the tokens are invalid or outside its
            vocabulary; in the pass, if heads compute something that a trace cannot express.
    """
    traceable(model)
    given = dict(inputs) if isinstance(inputs, Mapping) else inputs_of(inputs)
    check_tokens(model, given)
    if model.config.model_type in CONVERTED:
        return _trace_converted(model, given)
    return recorded_pass(model, _with_positions(model, given))[0]


def _with_positions(model: PreTrainedModel, given: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with positions that count from the first token that is no padding, as in `generate`.

    Raises:
        UserError: when a decoder is given padding before a text and takes no positions.
    """
    mask = given.get("attention_mask")
    if mask is None or mask.ndim != 2 or "position_ids" in given or model.config.is_encoder_decoder:
        return given
    if bool(mask[:, 0].all()) or _counts_from_text(model):
        return given
    if "position_ids" in inspect.signature(model.base_model.forward).parameters:
        return given | {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    raise UserError(
        f"{type(model).__name__} cannot be traced with padding before a text: it would count positions from the "
        "padding; pad on the right"
    )


def _counts_from_text(model: PreTrainedModel) -> bool:
    """Return whether a model finds itself where a text begins (RoBERTa, by its padding tokens), or is an encoder."""
    causal, masked = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return any(_padded_positions(model)) or model.config.model_type not in causal.keys() - masked.keys()


def _padded_positions(model: PreTrainedModel) -> Iterator[tuple[nn.Embedding, int]]:
    """Yield the tables of positions that have a row for padding, and its number."""
    for name, module in model.named_modules():
        if "position" in name and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            yield module, module.padding_idx


def recorded_pass(model: PreTrainedModel, given: dict[str, Any]) -> tuple[Trace, AttentionRecorder]:
    """Return a pass without the read-out, and how each of its attentions can be computed again."""
    if model.config.is_encoder_decoder:
        given = _with_something_to_decode(model, given)
    with recording(model) as recorded:
        # Only the whole model makes a decoder's inputs from labels.
        (model if "labels" in given else model.base_model)(**given)
    decoded = "decoder_attention_mask" if model.config.is_encoder_decoder else "attention_mask"
    masks = {"self": given.get(decoded), "cross": given.get(decoded), "encoder": given.get("attention_mask")}
    attentions = []
    for each in recorded.attentions:
        mask = masks[each.kind]
        # A mask may belong to other queries.
        rows = mask.bool() if mask is not None and mask.shape == (each.q.shape[0], each.q.shape[2]) else None
        attentions.append(replace(each, rows=rows))
    return Trace(attentions=tuple(attentions)), recorded


def traceable(model: PreTrainedModel) -> None:
    """Raise UserError if `trace` cannot begin; nothing is run.

    Raises:
        UserError: saying why the model cannot be traced.
    """
    kind = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UserError(
            f"a model of transformers was expected, but a {kind} was given; for Headway's own models use "
            "model.trace(tokens), and for a wrapper its inner model"
        )
    if getattr(model, "is_quantized", False):
        raise UserError(f"{kind} cannot be traced: its weights are quantized; load it without quantization")
    if model.config.model_type in CONVERTED or attentions(model):
        return
    closed = sorted({type(module).__name__ for module in model.modules() if "Attention" in type(module).__name__})
    if closed:
        raise UserError(
            f"{kind} cannot be traced: its attention ({', '.join(closed)}) does not go through transformers' "
            "AttentionInterface; take an architecture whose attention does"
        )
    raise UserError(f"{kind} cannot be traced: it has no attention; its layers are of another kind (state-space, say)")


def check_tokens(model: PreTrainedModel, given: Mapping[str, Any]) -> None:
    """Raise UserError if the model cannot read the tokens.

    Raises:
        UserError: if the tokens are invalid or outside the model's vocabulary.
    """
    for name in ("input_ids", "decoder_input_ids", "labels"):
        if (tokens := given.get(name)) is None:
            continue
        whole = isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dtype != torch.bool
        if not whole or tokens.ndim != 2 or not tokens.numel():
            was = f"{tokens.dtype} of shape {tuple(tokens.shape)}" if isinstance(tokens, Tensor) else repr(tokens)[:60]
            raise UserError(
                f"{name}: a tensor of whole numbers, (sequence, position), was expected, with at least one of each; "
                f"it is {was}. A tokenizer gives one with return_tensors='pt'"
            )
        reader = model if name == "input_ids" else model.get_decoder()
        n_tokens = getattr(reader.get_input_embeddings(), "num_embeddings", None)
        if n_tokens is None:
            raise UserError(f"{name}: {type(model).__name__} reads no tokens; give its inputs as a mapping")
        least = -100 if name == "labels" else 0  # labels of -100 are left out of the loss
        outside = tokens[(tokens < least) | (tokens >= n_tokens)]
        if len(outside):
            raise UserError(
                f"{name}: token {int(outside[0])} is outside the vocabulary of {type(model).__name__}, which has "
                f"tokens 0 to {n_tokens - 1}; use the model's own tokenizer"
            )


def inputs_of(tokens: Int[Tensor, "batch pos *side"]) -> dict[str, Tensor]:
    """Return the arguments of a model's call: tokens, or pairs of a source and a target, which end in -100s."""
    if getattr(tokens, "ndim", 2) != 3:
        return {"input_ids": tokens}
    source, target = (side[:, side.ge(0).any(0)] for side in tokens.unbind(2))
    return {
        "input_ids": source.clamp(min=0),
        "attention_mask": source.ge(0).long(),
        "labels": target,
        "decoder_attention_mask": target.ge(0).long(),
    }


def start_token(model: PreTrainedModel) -> int:
    """Return the token with which a decoder over an encoder begins."""
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    starts = (getattr(model.config, name, None) for name in names)
    return next((int(token) for token in starts if token is not None), 0)


def _with_something_to_decode(model: PreTrainedModel, given: dict[str, Any]) -> dict[str, Any]:
    if "input_ids" not in given or any(
        name in given for name in ("decoder_input_ids", "decoder_inputs_embeds", "labels")
    ):
        return given
    given = dict(given)
    for name, first in (("input_ids", start_token(model)), ("attention_mask", 1)):
        if (its := given.get(name)) is not None:
            given[f"decoder_{name}"] = functional.pad(its[:, :-1], (1, 0), value=first)
    return given


def _trace_converted(model: PreTrainedModel, given: dict[str, Any]) -> Trace:
    kind = type(model).__name__
    if other := set(given) - {"input_ids", "attention_mask"}:
        raise UserError(
            f"{kind} is traced as Headway's own model, which takes input_ids and attention_mask; leave out "
            f"{', '.join(sorted(other))}"
        )
    mask = given.get("attention_mask")
    rows = None if mask is None else mask.bool()
    if rows is not None and (rows[:, 1:] & ~rows[:, :-1]).any():
        raise UserError(f"{kind} is traced as Headway's own model, which takes padding after a text; pad on the right")
    return converted(model).trace(given["input_ids"], rows)


def longest_text(model: PreTrainedModel, tokenizer: Any) -> int | None:
    """Return the least length among its configuration, its position embeddings and its tokenizer."""
    config = model.config.get_text_config()
    bounds = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    # RoBERTa counts positions from the padding token's number on.
    bounds += [table.num_embeddings - padding - 1 for table, padding in _padded_positions(model)]
    bounds.append(getattr(tokenizer, "model_max_length", None))
    return min((int(bound) for bound in bounds if bound is not None and 0 < bound < 1e9), default=None)

"""Models: the attentions of a model of transformers recorded while it runs.

The model computes what it always computes; what goes into its attention function and what comes out is kept. The
output projection is the linear map whose input lies in the memory of what that function returned, so no architecture
needs code of its own.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.errors import UserError
from headway.hf.interface import attentions, intercepted, own_function
from headway.model.attention import sees
from headway.model.trace import AttentionTrace

_HIDDEN = -1e4
"""What is added to the logits of hidden keys, at most: transformers takes -inf or the least number of the type."""

_OTHERS_STATES = ("key_value_states", "encoder_hidden_states", "cross_attention_states")
"""The arguments through which an attention is given other states than its queries'."""


@contextmanager
def recording(model: PreTrainedModel) -> Iterator[list[AttentionTrace]]:
    """Every attention of the passes within, in their order.

    The model's outputs keep their bits; after it no hook is left and its implementation is what it was. An attention
    is named by the path of its module (`#2` where it is called again), and its `layer` is the first number in there.

    Raises:
        UserError: in the pass, for heads that do what a trace cannot say.
    """
    recorder = _Recorder(model)
    with ExitStack() as stack:
        for module in recorder.names:
            stack.callback(module.register_forward_pre_hook(recorder.enter, with_kwargs=True).remove)
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D):
                stack.callback(module.register_forward_pre_hook(recorder.project).remove)
        stack.enter_context(intercepted(model, recorder.attend))
        yield recorder.recorded
        recorder.complete()


@dataclass(frozen=True, kw_only=True)
class _Computed:
    """An attention whose output projection has not been seen yet."""

    name: str
    returned: Tensor
    trace: Callable[..., AttentionTrace]
    dropout: float


class _Recorder:
    """One attention after the other: entered, computed, and projected."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.kind, self.names = type(model).__name__, attentions(model)
        self.recorded: list[AttentionTrace] = []
        self._calls: Counter[nn.Module] = Counter()
        self._crosses = False
        self._computed: _Computed | None = None

    def enter(self, module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Before a module that attends: is it a cross-attention?"""
        given = inspect.signature(module.forward).bind(*args, **options).arguments
        self._crosses = any(given.get(name) is not None for name in _OTHERS_STATES)

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
        """In place of the attention function: call it, and keep what went in and what came out."""
        self.complete()
        returned, weights = own_function(module, implementation)(module, q, k, v, attention_mask, **options)
        returned = returned.contiguous()
        causal, bias, scale = (options.get(name) for name in ("is_causal", "position_bias", "scaling"))
        causal = getattr(module, "is_causal", True) if causal is None else causal
        n_queries = q.shape[2]
        if implementation == "sdpa" and attention_mask is None and causal and n_queries > 1:
            # Then it hides by itself what is later, counting from the first key, and cuts off what none sees.
            k, v, attention_mask = k[:, :, :n_queries], v[:, :, :n_queries], sees(n_queries, n_queries, None, q.device)
        mask, bias = _mask_and_bias(attention_mask, bias, (len(q), n_queries, k.shape[2]))
        name, layer = self._named(module)
        trace = partial(
            AttentionTrace,
            name=name,
            layer=layer,
            kind="cross" if self._crosses else "self" if causal else "encoder",
            q=q,
            k=k,
            v=v,
            z=returned.transpose(1, 2),
            kv_of=tuple(head * k.shape[1] // q.shape[1] for head in range(q.shape[1])),
            scale=q.shape[3] ** -0.5 if scale is None else float(scale),
            softcap=options.get("softcap"),
            mask=mask,
            bias=bias,
        )
        self._computed = _Computed(name=name, returned=returned, trace=trace, dropout=options.get("dropout") or 0.0)
        return returned, weights

    def project(self, module: nn.Linear, args: tuple[Any, ...]) -> None:
        """Before a linear map: does it read what the attention returned?"""
        computed, entering = self._computed, args[0] if args else None
        if computed is None or not isinstance(entering, Tensor) or _memory(entering) != _memory(computed.returned):
            return
        by_input = module.weight.T if isinstance(module, nn.Linear) else module.weight
        of_heads = tuple(computed.returned.shape[2:])
        if len(by_input) != of_heads[0] * of_heads[1]:
            return
        # Under autocast it is of another type than what it is multiplied with.
        W_O = by_input.to(computed.returned.dtype).unflatten(0, of_heads)
        attention = computed.trace(W_O=W_O, b_O=module.bias)
        if not computed.dropout and not _tells(attention):
            raise UserError(
                f"{self.kind} cannot be traced: the heads of {attention.name} do not return softmax(q k) v; something "
                "that a trace cannot say (sinks, for one) has a share of their weights"
            )
        self.recorded.append(attention)
        self._computed = None

    def complete(self) -> None:
        """The attention before must have been projected."""
        if self._computed is not None:
            raise UserError(
                f"{self.kind} cannot be traced: what the heads of {self._computed.name} return is not what a "
                "Linear or Conv1D reads (a gate or a norm comes between), so what each head contributes cannot be said"
            )

    def _named(self, module: nn.Module) -> tuple[str, int]:
        path, before = self.names[module], self._calls[module]
        self._calls[module] += 1
        number = re.search(r"\d+", path)
        return f"{path}#{before + 1}" if before else path, (int(number[0]) if number else 0) + before


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _mask_and_bias(
    given: Tensor | None, position_bias: Tensor | None, shape: tuple[int, int, int]
) -> tuple[Tensor | None, Tensor | None]:
    """A mask, boolean or added to the logits, and a bias, as what is seen and what is added to its logits."""
    mask, biases = given, [] if position_bias is None else [position_bias]
    if given is not None and given.dtype != torch.bool:
        mask = given > _HIDDEN
        biases.append(given.masked_fill(~mask, 0))
    biases = [bias for bias in biases if bias.any()]
    return _fitted(mask, shape), _fitted(sum(biases[1:], start=biases[0]) if biases else None, shape)


def _fitted(tensor: Tensor | None, shape: tuple[int, int, int]) -> Tensor | None:
    """(query, key), (batch, query, key), or with heads that differ (batch, head, query, key); no copy."""
    if tensor is None or tensor.ndim == 2:
        return tensor
    batch, n_queries, n_keys = shape
    fitted = tensor[..., :n_keys].expand(batch, -1, n_queries, n_keys)
    return fitted[:, 0] if fitted.shape[1] == 1 else fitted


def _tells(attention: AttentionTrace) -> bool:
    """Whether the contexts of the last query are what the trace says, as far as the coarsest precision can tell."""
    with torch.no_grad():
        exact = replace(attention, q=attention.q.float(), k=attention.k.float())
        weights = exact.logits(queries=slice(-1, None)).softmax(3)
        expected, found = weights @ attention.v[:, list(attention.kv_of)].float(), attention.z[:, :, -1:]
        # NaN where the query sees nothing, or weights are no numbers; there nothing is compared.
        told = expected.isfinite()
        return not bool((expected - found)[told].norm() > 0.05 * found[told].norm())

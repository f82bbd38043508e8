"""The attention function of a model of transformers, how Headway replaces it, and how its output enters the stream.

A module that attends asks transformers' registry for the attention function that its configuration names. So a name
registered for one pass, for attention and for masks alike, reaches every architecture. Registered for attention alone,
transformers would make no masks, and padding and windows would be lost.

Most models add the output of the projection to the stream as it is. Some norm it first (Gemma 2 and 3, OLMo 2), some
multiply it (Granite). Headway does not rely on a model's code but watches what is added (`recorder`). Either the added
vector is W_O's output times a number at each position times a weight for each entry, or the heads' parts in it cannot
be determined.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from headway.models.trace import AttentionTrace

_SUMS = (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__)
_REGISTRY, _EAGER = "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"


def attentions(model: nn.Module) -> dict[nn.Module, str]:
    """Return the modules that ask the registry for their attention function, with their paths."""
    return {module: name for name, module in model.named_modules() if _asking(type(module))}


def own_function(module: nn.Module, implementation: str) -> Callable[..., Any]:
    """Return the function a module would have called: its architecture's own, or the library's.

    The implementation is one of transformers' names.
    """
    method = _asking(type(module))
    assert method is not None
    eager = next(name for name in method.__code__.co_names if name.endswith(_EAGER))
    function: Callable[..., Any] = method.__globals__[_REGISTRY].get_interface(
        implementation, method.__globals__[eager]
    )
    return function


@contextmanager
def intercepted(model: PreTrainedModel, attend: Callable[..., Any]) -> Iterator[None]:
    """Call `attend(implementation, module, q, k, v, mask, **options)` for attention within a block.

    The implementation is the model's own, and so are its masks: sdpa or eager. An implementation that computes without
    masks (flash) or compiles (flex) becomes sdpa, or eager for a model without sdpa.
    """
    names: dict[str, str] = {}
    with ExitStack() as stack:
        for config in _configs(model):
            own = config._attn_implementation
            if own not in ("sdpa", "eager"):
                own = "sdpa" if model._supports_sdpa else "eager"
            if own not in names:
                # A name of its own: another thread may be tracing another model.
                names[own] = f"headway-{id(names):x}-{len(names)}"
                _register(stack, AttentionInterface, names[own], partial(attend, own))
                _register(stack, AttentionMaskInterface, names[own], ALL_MASK_ATTENTION_FUNCTIONS[own])
            # The setter would overwrite the configurations inside of this one, which may differ.
            stack.callback(setattr, config, "_attn_implementation_internal", config._attn_implementation)
            config._attn_implementation_internal = names[own]
        yield


class Sums(TorchFunctionMode):
    """A mode that reports every sum of two tensors before it is made, since a summand may be overwritten."""

    def __init__(self, tell: Callable[[Tensor, Tensor], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Report a sum, and call the function."""
        if function in _SUMS and len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            self._tell(args[0], args[1])
        return function(*args, **(kwargs or {}))


def _asking(kind: type[nn.Module]) -> FunctionType | None:
    """Return the method of a class that asks the registry, nearly always `forward`."""
    for base in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for member in vars(base).values():
            method = inspect.unwrap(member) if isinstance(member, FunctionType) else None
            names = method.__code__.co_names if isinstance(method, FunctionType) else ()
            if _REGISTRY in names and any(name.endswith(_EAGER) for name in names):
                return method
    return None


def _configs(model: nn.Module) -> list[PretrainedConfig]:
    """Return every configuration that a module holds, and those inside of them, once each."""
    held: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    configs: dict[int, PretrainedConfig] = {}
    while held:
        config = held.pop()
        if isinstance(config, PretrainedConfig) and id(config) not in configs:
            configs[id(config)] = config
            held += [getattr(config, name, None) for name in config.sub_configs]
    return list(configs.values())


def _register(stack: ExitStack, registry: Any, name: str, function: Callable[..., Any]) -> None:
    registry.register(name, function)
    stack.callback(registry._global_mapping.pop, name)


_NOISE = 0.02
"""The relative error that low precision may leave."""
_EXACT = 1e-5
"""The relative error of a multiple in float32; lower precision is fitted as a norm of almost constant gain."""
_FEW = 1e-3
"""The variation over positions below which a gain counts as constant, and is then in the weight."""
_TURNS = 20


@dataclass(frozen=True, kw_only=True)
class OutputMap:
    """A map from the projection's output o to the stream: `gain(o) weight (o - mean) + bias`."""

    weight: Float[Tensor, " d_model"] | None = None
    """The weight of each entry; None: the output is added as it is."""
    slope: float = 0.0
    """1 / gain^2 is slope times the mean square of o, less its mean if that is taken out, plus offset."""
    offset: float = 1.0
    centred: bool = False

    def applied(self, attention: AttentionTrace) -> AttentionTrace:
        """Return the attention as it adds to the stream; the weight and the mean go into W_O and b_O."""
        if self.weight is None:
            return attention
        W_O, b_O = self._weighted(attention.W_O), None if attention.b_O is None else self._weighted(attention.b_O)
        if not self.slope:
            return replace(attention, W_O=W_O * self.offset**-0.5, b_O=None if b_O is None else b_O * self.offset**-0.5)
        plain = torch.einsum("bhqd,hdm->bqm", attention.z, attention.W_O)
        whole = plain if attention.b_O is None else plain + attention.b_O
        return replace(attention, W_O=W_O, b_O=b_O, gain=self.gain(whole.float()).to(attention.z.dtype))

    def gain(self, o: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos"]:
        """Return the factor of all entries, position by position."""
        return (self.slope * _less_mean(o, self.centred).square().mean(-1) + self.offset).rsqrt()

    def _weighted(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        return (_less_mean(x.float(), self.centred) * self.weight).to(x.dtype)


def output_map(projected: Tensor, added: Tensor) -> OutputMap | None:
    """Return the map from W_O's output to the added vectors; None if there is no such map, or no evidence.

    One position alone is too little evidence.
    """
    o, y = (x.detach().reshape(-1, x.shape[-1]).float() for x in (projected, added))
    rows = o.isfinite().all(1) & y.isfinite().all(1) & o.any(1)
    o, y = o[rows], y[rows]
    if torch.equal(o, y):
        return OutputMap()
    if len(o) < 2:
        return None
    weight = (y * o).sum(0) / o.square().sum(0).clamp(min=1e-30)
    if (y - o * weight).norm() <= _EXACT * y.norm():
        return OutputMap(weight=weight)
    return _fitted(o, y, centred=False) or _fitted(o, y, centred=True)


def _fitted(o: Float[Tensor, "rows d_model"], y: Float[Tensor, "rows d_model"], *, centred: bool) -> OutputMap | None:
    """Return gain and weight, fitted in turns by least squares; their product converges in a few turns."""
    x = _less_mean(o, centred).double()
    y = y.double()
    gain = x.square().mean(1).clamp(min=1e-30).rsqrt()
    weight, bias = torch.zeros_like(x[0]), torch.zeros_like(x[0])
    for _ in range(_TURNS):
        u = x * gain[:, None]
        weight = ((y - bias) * u).sum(0) / u.square().sum(0).clamp(min=1e-30)
        bias = (y - u * weight).mean(0) if centred else bias
        v = x * weight
        gain = ((y - bias) * v).sum(1) / v.square().sum(1).clamp(min=1e-30)
    if not bool((gain > 0).all()):
        gain, weight = -gain, -weight
    if not bool((gain > 0).all()) or (y - bias - x * gain[:, None] * weight).norm() > _NOISE * y.norm():
        return None
    if float(gain.std() / gain.mean()) < _FEW:
        return OutputMap(weight=(weight * gain.mean()).float(), centred=centred)
    size = x.square().mean(1)
    columns = torch.stack((size, torch.ones_like(size)), 1) * gain.square()[:, None]
    slope, offset = torch.linalg.lstsq(columns, torch.ones_like(gain)[:, None]).solution[:, 0].clamp(min=0).tolist()
    fitted = OutputMap(weight=weight.float(), slope=slope, offset=offset, centred=centred)
    gain_fitted = fitted.gain(o.to(torch.float32)).double()
    return fitted if (gain_fitted - gain).norm() <= _NOISE * gain.norm() else None


def _less_mean(x: Tensor, centred: bool) -> Tensor:
    return x - x.mean(-1, keepdim=True) if centred else x

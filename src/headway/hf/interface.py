"""Models: where a model of transformers computes its attention, and how another function gets in between.

A module that attends asks transformers' registry for the attention function that its configuration names. So a name
registered for one pass, for attention and for masks alike, reaches every architecture; for attention alone,
transformers would make no masks, and padding and windows would be lost.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

_SUMS = (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__)
_REGISTRY, _EAGER = "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"


def attentions(model: nn.Module) -> dict[nn.Module, str]:
    """The modules that ask the registry for their attention function, with their paths."""
    return {module: name for name, module in model.named_modules() if _asking(type(module))}


def own_function(module: nn.Module, implementation: str) -> Callable[..., Any]:
    """What the module would have called under an implementation: its architecture's own function, or everyone's."""
    method = _asking(type(module))
    assert method is not None
    eager = next(name for name in method.__code__.co_names if name.endswith(_EAGER))
    function: Callable[..., Any] = method.__globals__[_REGISTRY].get_interface(
        implementation, method.__globals__[eager]
    )
    return function


@contextmanager
def intercepted(model: PreTrainedModel, attend: Callable[..., Any]) -> Iterator[None]:
    """Within, modules call `attend(implementation, module, q, k, v, mask, **options)` for their attention.

    The implementation is the model's own, and so are its masks: sdpa or eager. Where it is another one, which computes
    without masks (flash) or compiles (flex), it is sdpa, or eager for a model that knows no sdpa.
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
    """Tells of every sum of two tensors before it is made, since one of them may be overwritten."""

    def __init__(self, tell: Callable[[Tensor, Tensor], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass it on."""
        if function in _SUMS and len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            self._tell(args[0], args[1])
        return function(*args, **(kwargs or {}))


def _asking(kind: type[nn.Module]) -> FunctionType | None:
    """The method of a class that asks the registry, nearly always `forward`."""
    for base in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for member in vars(base).values():
            method = inspect.unwrap(member) if isinstance(member, FunctionType) else None
            names = method.__code__.co_names if isinstance(method, FunctionType) else ()
            if _REGISTRY in names and any(name.endswith(_EAGER) for name in names):
                return method
    return None


def _configs(model: nn.Module) -> list[PretrainedConfig]:
    """Every configuration that a module holds, and those inside of them, once each."""
    held: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    found: dict[int, PretrainedConfig] = {}
    while held:
        config = held.pop()
        if isinstance(config, PretrainedConfig) and id(config) not in found:
            found[id(config)] = config
            held += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


def _register(stack: ExitStack, registry: Any, name: str, function: Callable[..., Any]) -> None:
    registry.register(name, function)
    stack.callback(registry._global_mapping.pop, name)

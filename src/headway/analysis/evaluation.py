"""The state in which a finished model computes while Headway reads it; afterwards everything is as it was.

* `plain_torch`: torch without autocast, inference mode, compiled code and low-precision products;
* `evaluating`: a module in evaluation mode, within plain torch.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_WITHIN: ContextVar[bool] = ContextVar("within plain torch", default=False)


@contextmanager
def plain_torch() -> Iterator[None]:
    """Compute in float32, eagerly and with gradients on request, within a block.

    A caller may be inside of `torch.inference_mode`, of autocast, or of another default type or device. A block within
    a block changes nothing.
    """
    if _WITHIN.get():
        yield
        return
    import torch

    outside = _WITHIN.set(True)
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float32)
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("highest")
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            if "torch._dynamo" in sys.modules:  # nothing is compiled without it, and its import is slow
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            yield
    finally:
        _WITHIN.reset(outside)


@contextmanager
def evaluating(module: "torch.nn.Module") -> Iterator[None]:
    """Compute in plain torch, with a module and all its parts in evaluation mode, within a block."""
    modes = {each: each.training for each in module.modules()}
    with plain_torch():
        module.eval()
        try:
            yield
        finally:
            for each, mode in modes.items():
                each.training = mode

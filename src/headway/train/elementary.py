"""Train: elementary functions on a processor whose bits do not depend on which thread comes first.

torch has MKL compute exp, log and the like of many numbers, each thread its part. MKL chooses how at a function's
first call, and before 2025.0 a thread that comes in while another is choosing computes its part with fewer digits: the
first large exp of a process then has other bits, now and then (pytorch/pytorch issue 188792; 1 run in 40 here, with two
threads on a busy machine). So each is called once by one thread before any thread can race: where a device is asked
for, and where a model is opened. A module that is called without either is as torch leaves it.
"""

from functools import cache

import torch

OF_MKL = (
    torch.acos,
    torch.asin,
    torch.atan,
    torch.cos,
    torch.erf,
    torch.erfc,
    torch.erfinv,
    torch.exp,
    torch.log,
    torch.log10,
    torch.log2,
    torch.sin,
    torch.sqrt,
    torch.tan,
    torch.tanh,
    torch.trunc,
)
"""What torch has MKL compute where it is built with it; elsewhere the calls do no harm."""


@cache
def settle_elementary_functions() -> None:
    """Have MKL choose how it computes each, in both precisions; a second call does nothing."""
    for dtype in (torch.float32, torch.float64):
        half = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for function in OF_MKL:
            function(half)

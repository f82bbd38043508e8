"""The device on which torch computes: its precision, instruction sets and memory.

fp32 means fp32: on a GPU, matrix products are not rounded to TF32. bf16 rounds the inputs of matrix products, by
torch's autocast; weights, optimizer state, norms and the loss stay fp32. `Meter` measures the memory of a model, apart
from the memory that its process held before the model was built.

`settle_elementary_functions` makes exp, log and similar functions reproducible on a CPU. torch lets several threads
compute them in MKL. MKL chooses its code at the first call; before version 2025.0, a thread that enters during this
choice computes fewer digits. The first large exp of a process then sometimes has other bits (pytorch/pytorch issue
188792; 1 run in 40 here, with two threads on a busy machine). So one thread calls each function once before other
threads can race: when a device is asked for, and when a model is opened. Modules used without either are unprotected.
"""

import ctypes
import re
from functools import cache
from pathlib import Path

import psutil
import torch

from headway.base.torch_setup import uncompiled
from headway.errors import UserError
from headway.train.process_memory import forget_peak, give_freed_memory_back, peak_bytes

_NAMES = "acos asin atan cos erf erfc erfinv exp log log10 log2 sin sqrt tan tanh trunc"
OF_MKL = tuple(getattr(torch, name) for name in _NAMES.split())
"""The functions that torch computes with MKL, if it is built with MKL; else calling them does no harm."""


@cache
def settle_elementary_functions() -> None:
    """Have MKL choose how it computes each, in both precisions; a second call does nothing."""
    for dtype in (torch.float32, torch.float64):
        half = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for function in OF_MKL:
            function(half)


def find_device(asked: str) -> torch.device:
    """The device of `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`, on which computing can begin.

    Raises:
        UserError: when there is no such device.
    """
    settle_elementary_functions()  # on a machine with a GPU too, the processor computes some of what is recorded
    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = asked.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise UserError(f"device {asked}: there is no such device; choose from auto, cpu, cuda and cuda:N")
    if kind == "cuda" and (not torch.cuda.is_available() or int(number or 0) >= torch.cuda.device_count()):
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        raise UserError(f"device {asked}: torch sees {seen} GPUs here; take cpu, or install torch for your GPU")
    return torch.device(asked)


@cache
def instruction_sets() -> dict[str, str]:
    """Return the instruction set of each library that computes for torch on this processor, as reported by the library.

    Environment variables lower them (ATEN_CPU_CAPABILITY, MKL_ENABLE_INSTRUCTIONS, MKL_CBWR), and so do virtual
    machines. Sums in another order have other last bits. MKL is left out where torch was built without it.
    """
    sets = {"ATen": torch.backends.cpu.get_cpu_capability(), "MKL": _of_mkl()}
    return {library: name for library, name in sets.items() if name}


class _MklVersion(ctypes.Structure):
    """`MKLVersion` of `mkl_types.h`."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("major", "minor", "update")),
        *((name, ctypes.c_char_p) for name in ("status", "build", "processor", "platform")),
    )


def _of_mkl() -> str:
    """The processor for which MKL has chosen its code; nothing where torch is built without MKL."""
    if not torch.backends.mkl.is_available():
        return ""
    try:
        torch_cpu = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return ""
    for name in ("mkl_serv_get_version", "MKL_Get_Version"):  # inside torch's library, or a library of its own
        if function := getattr(torch_cpu, name, None):
            function.argtypes, function.restype = (ctypes.POINTER(_MklVersion),), None
            function(ctypes.byref(version := _MklVersion()))
            said = (version.processor or b"").decode().replace("Intel(R) ", "").replace(" enabled processors", "")
            return re.sub(r"\w+ \w+ Extensions [\d. ]*\(([^)]+)\)", r"\1", said)
    return ""


def check_precision(precision: str, device: torch.device) -> None:
    """Look whether the device has what a precision needs.

    Raises:
        UserError: when it has not: a run in another precision would be another run.
    """
    if precision == "bf16" and not _has_bf16(device):
        raise UserError(
            f"training.precision bf16: this {'GPU' if device.type == 'cuda' else 'processor'} has no bf16 arithmetic; "
            "take fp32, or a machine that has it (processors: AVX-512 BF16, AMX or ARM's BF16; GPUs: since Ampere)"
        )


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.12
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


class Meter:
    """Measures from when it is made, which is before the model is built.

    On a GPU, what torch allocated there counts; otherwise the resident memory of the process. What torch loads of
    itself at a first use (80 MB) is loaded here. Compiling a model takes memory that training it does not:
    `begin_training`, after the first step, forgets that peak where the system can (Linux).
    """

    def __init__(self, device: torch.device) -> None:
        _use_once(device)
        give_freed_memory_back()  # or the model would use it, and seem to take less
        self._device, self._on_gpu = device, device.type == "cuda"
        self._before = torch.cuda.memory_allocated(device) if self._on_gpu else psutil.Process().memory_info().rss
        self._forgotten = 0

    def begin_training(self) -> None:
        """The first step is done."""
        self._forgotten = peak_bytes()
        give_freed_memory_back()
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats(self._device)
        forget_peak()

    def metrics(self) -> dict[str, int]:
        """`memory_bytes`, above what was held before, and `peak_memory_bytes`, of the process."""
        peak = torch.cuda.max_memory_allocated(self._device) if self._on_gpu else peak_bytes()
        return {"memory_bytes": max(0, peak - self._before), "peak_memory_bytes": max(self._forgotten, peak_bytes())}


@uncompiled()
def _use_once(device: torch.device) -> None:
    layer = torch.nn.Linear(4, 4, device=device)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    q = layer(torch.ones(1, 2, 8, 4, device=device))
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    optimizer.step()

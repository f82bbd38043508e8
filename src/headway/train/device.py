"""Train: where torch computes, and in which precision.

fp32 is fp32: on a GPU, matrix products are not rounded to TF32. bf16 rounds what enters matrix products, by torch's
autocast; weights, optimizer state, norms and the loss stay fp32.
"""

import torch

from headway.errors import UserError
from headway.train.elementary import settle_elementary_functions


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


def free_bytes(device: torch.device) -> int | None:
    """What is free of a GPU's memory; None of a processor, whose memory is the machine's."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


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

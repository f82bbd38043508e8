"""Train: how much memory a model takes, apart from what its process held before it was built."""

import psutil
import torch

from headway.train.process_memory import forget_peak, give_freed_memory_back, peak_bytes
from headway.uncompiled import uncompiled


class Meter:
    """Measures from when it is made, which is before the model is built.

    On a GPU, what torch allocated there counts; otherwise the resident memory of the process. What torch loads of
    itself at a first use (80 MB) is loaded here. Compiling a model takes memory that training it does not:
    `begin_training`, after the first step, forgets that peak where the system can (Linux).
    """

    def __init__(self, device: torch.device) -> None:
        _use_once(device)
        give_freed_memory_back()  # or the model would use it, and seem to take less
        self._on_gpu = device.type == "cuda"
        self._before = self._allocated(peak=False) if self._on_gpu else psutil.Process().memory_info().rss
        self._forgotten, self._training = 0, False

    def begin_training(self) -> None:
        """The first step is done; later calls do nothing."""
        if self._training:
            return
        self._training = True
        self._forgotten = peak_bytes()
        give_freed_memory_back()
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        forget_peak()

    def metrics(self) -> dict[str, int]:
        """`memory_bytes`, above what was held before, and `peak_memory_bytes`, of the process."""
        peak = self._allocated(peak=True) if self._on_gpu else peak_bytes()
        return {
            "memory_bytes": max(0, peak - self._before),
            "peak_memory_bytes": max(self._forgotten, peak_bytes()),
        }

    @staticmethod
    def _allocated(*, peak: bool) -> int:
        return torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated()


@uncompiled()
def _use_once(device: torch.device) -> None:
    layer = torch.nn.Linear(4, 4, device=device)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    q = layer(torch.ones(1, 2, 8, 4, device=device))
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    optimizer.step()

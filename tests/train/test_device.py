"""Each elementary function of MKL is called by one thread before many may call it at once."""

import re
from pathlib import Path

import pytest
import torch
from support import small_text
from torch.utils._python_dispatch import TorchDispatchMode

from headway.analysis.open import open_module
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.device import OF_MKL, find_device, settle_elementary_functions

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
IN_TORCH = {"Ln": "log"}
"""What MKL calls otherwise; the rest has the same name in both but for capitals."""


class Calls(TorchDispatchMode):
    """Writes down which functions are called with what."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in {each.__name__ for each in OF_MKL}:
            self.found.add((name, args[0].dtype, args[0].numel(), args[0].device.type))
        return function(*args, **(kwargs or {}))


def test_all_that_torch_has_mkl_compute_is_settled():
    if not torch.backends.mkl.is_available() or not LIBRARY.exists():
        pytest.skip("this torch computes without MKL")
    named = re.findall(rb"\0vm[sd]([A-Z][A-Za-z0-9]+)(?=\0)", LIBRARY.read_bytes())
    assert {IN_TORCH.get(name.decode(), name.decode().lower()) for name in named} == {each.__name__ for each in OF_MKL}


def test_whoever_asks_for_a_device_finds_them_settled():
    settle_elementary_functions.cache_clear()
    with Calls() as calls:
        find_device("cpu")
    both = (torch.float32, torch.float64)
    assert calls.found == {(each.__name__, dtype, 1, "cpu") for each in OF_MKL for dtype in both}
    with Calls() as again:
        find_device("auto")
    assert again.found == set()


def test_whoever_has_a_model_in_memory_finds_them_settled():
    run = small_text.run_of()
    module = Transformer(run.model, 50, initial_weights(run.model, 50, seed=0))
    settle_elementary_functions.cache_clear()
    with Calls() as calls:
        open_module(module)
    assert len(calls.found) == 2 * len(OF_MKL)

"""What a step freed is kept for the next."""

import platform
import subprocess
import sys

import pytest
import torch

from headway.train import device as device_module
from headway.train.device import Meter

# In a process of its own: the allocator is set for good. A page is 4,096 bytes or more.
FAULTS = """
import resource, sys
import numpy as np
from headway.train.process_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(50_000_000, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = [faults() for _ in range(3)][-1]
keep_freed_memory()
print(without, [faults() for _ in range(3)][-1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is not glibc's")
def test_what_a_step_freed_is_there_for_the_next():
    done = subprocess.run([sys.executable, "-c", FAULTS], stdout=subprocess.PIPE, text=True, check=True)
    without, kept = map(int, done.stdout.split())
    assert without > 20
    assert kept <= 2


def test_the_memory_of_a_gpu_is_that_of_the_model_s_own(monkeypatch):
    """Torch's functions mean the first GPU where none is named."""
    first, second, reset = torch.device("cuda:0"), torch.device("cuda:1"), []
    held = {first: 700, second: 100}
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda device=first: held[device])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device=first: reset.append(device))
    monkeypatch.setattr(device_module, "_use_once", lambda device: None)
    meter = Meter(second)
    meter.begin_training()
    held[second] = 150
    assert meter.metrics()["memory_bytes"] == 50
    assert reset == [second]

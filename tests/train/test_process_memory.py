"""What a step freed is kept for the next."""

import platform
import subprocess
import sys

import pytest

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

"""The memory of this process: its peak, and whether the process keeps freed memory."""

import contextlib
import ctypes
import gc
import resource
import sys
from pathlib import Path

# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let this process keep the arrays that a step frees, since the next step asks for arrays of equal size.

    glibc hands large arrays back to the system, which zeroes their pages again each time. This takes 10 to 20 % of the
    time of a small language model on a CPU. The function does nothing where the system has another allocator.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, -1)
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)


def give_freed_memory_back() -> None:
    """Hand what is free, garbage too, back to the system: what is taken from here on then shows."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_bytes() -> int:
    """The most memory that this process has had in use at once (or since a meter forgot it, where that works)."""
    try:
        # Linux hands getrusage's number down to started programs: it would be that of the largest ancestor.
        return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def forget_peak() -> None:
    """Let the most memory be counted from here, where the system can do that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")

"""Train: how much memory this process has had in use."""

import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """The most memory that this process has had in use at once (or since a meter forgot it, where that works)."""
    try:
        # Linux hands getrusage's number down to started programs: it would be that of the largest ancestor.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak

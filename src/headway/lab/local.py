"""Lab: many runs on this machine, a worker process each.

Whoever iterates `run_all` sees the runs about twice a second; the iteration itself starts workers, collects them and
notes what became of them. Other processes may work on the same directory: a run that one of them holds is waited for,
and taken over if they give it up.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.declare.budget import budget
from headway.declare.run import RegressionRun
from headway.lab.execution import cores
from headway.lab.lease import Lease, LeaseHeld, is_held
from headway.lab.progress import Progress, Snapshot, snapshot
from headway.lab.run import Run, Status, update
from headway.lab.work import DISK_FULL, DONE, ELSEWHERE, disk_full

WORKER = (sys.executable, "-m", "headway.lab.worker")

_LOOK_EVERY_S = 0.25
_GRACE_S = 20.0

"""Runs: what a process does that works on one run after the other: it hears of them, answers, and begins anew.

An answer is the exit code of a run; with a second word, `ends`, it is the last: nothing more is to be told.

The law of equal bits decides when it may go on as it is: a run must find what a new process would find. In-context runs
that native code trains leave nothing behind but imported modules. Torch does (what it compiled counts against the next
compilation, its threads are set once), and so may whatever failed. Then the process replaces itself by a new one. Where
it could not release a run on a failing disk it ends, which releases the run.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.files import appending
from headway.runs.lease import release_left
from headway.runs.work import DONE, ELSEWHERE, STOPPED
from headway.train.process_memory import forget_peak, give_freed_memory_back

_AT_ONCE = 1 << 16


def serve(
    first: Path,
    work_on: Callable[[Path], int],
    *,
    answers: int,
    begins_anew: Callable[[Path], bool],
    command: Sequence[str],
    environment: Mapping[str, str],
) -> int:
    """Work on a run, and on all that are told on the standard input, until it is closed.

    Args:
        first: the folder of the first run.
        work_on: works on one; its exit code.
        answers: the descriptor where each one's exit code is told.
        begins_anew: whether a run needs a process of its own, given its folder.
        command: what replaces this process; the folder follows.
        environment: of what replaces it.
    """
    path, heard = first, b""
    while True:
        code = work_on(path)
        ends = code == STOPPED or not release_left()
        try:
            os.write(answers, b"%d%s\n" % (code, b" ends" if ends else b""))
        except OSError:
            return code  # nobody listens any more
        if ends:
            return code
        while b"\0" not in heard:
            data = os.read(0, _AT_ONCE)
            if not data:
                return code
            heard += data
        told, _, heard = heard.partition(b"\0")
        path = Path(os.fsdecode(told))
        _print_to(path / "log.txt")
        if code not in (DONE, ELSEWHERE) or "torch" in sys.modules or begins_anew(path):
            os.execve(sys.executable, [*command, str(path)], environment)
        give_freed_memory_back()
        forget_peak()


def _print_to(log: Path) -> None:
    """Send what this process prints to a run's log from now on."""
    with contextlib.suppress(OSError):
        descriptor = appending(log)
        for number in (1, 2):
            os.dup2(descriptor, number)
        os.close(descriptor)

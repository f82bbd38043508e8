"""Commands of the user's own: run with everything that they start, and read for their metrics.

No shell reads the words of a command. Each one is a process group, of which nothing is left when it is closed, and its
first process ends when this one is killed.
"""

import contextlib
import ctypes
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Self

PATIENCE_S = 5.0
"""Seconds between asking a command to end and ending it."""

_GONE = (ProcessLookupError, PermissionError)
"""Errors of a signal to a group of processes that have ended."""

_NUMBER = r"[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


class RunningCommand:
    """A command that runs until it ends or is closed, as a context.

    Args:
        words: the program and its arguments.
        folder: the working directory.
        output: the open file of its output and errors; None: those of this process.
        environment: variables beside those of this process.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        folder: Path | str,
        output: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        # An interrupt reaches the main thread alone: in another one, no process is started and not known.
        self._starter = ThreadPoolExecutor(1)
        self._started = self._starter.submit(
            subprocess.Popen,
            words,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output and subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_dies_with_parent(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the exit code; None if it still runs after so many seconds.

        Raises:
            OSError: when it could not be started.
        """
        try:
            return self._started.result().wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """End it with everything that it started, if it has not ended by itself."""
        if self._started.exception() is None and self._started.result().poll() is None:
            process = self._started.result()
            with contextlib.suppress(*_GONE):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(patience_s)
            with contextlib.suppress(*_GONE):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._starter.shutdown()


def _dies_with_parent() -> Callable[[], object] | None:
    """Return the function that lets a new process end when this one is killed; None where the system has none."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded here: between fork and exec, a process does as little as it can
    return lambda: prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def how_it_ended(code: int) -> str:
    """Return the way in which a command failed.

    Examples:
        >>> how_it_ended(3), how_it_ended(-9)
        ('with exit code 3', 'by SIGKILL')
    """
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"


def metric_in(text: str, metric: str) -> float | None:
    r"""Return the last value of a metric in an output: of a line of JSON, or after `metric=` or `metric:`.

    Examples:
        >>> metric_in("step 1 loss: 2.5\nstep 2 loss: 2.25 lr: 0.1", "loss")
        2.25
        >>> metric_in('{"loss": 2.5}\ndone', "loss")
        2.5
    """
    pattern = re.compile(rf"(?<![\w./-]){re.escape(metric)}[\"']?\s*[=:]\s*({_NUMBER})(?![\w.])", re.IGNORECASE)
    for line in reversed(text.splitlines()):
        if (value := _of_json(line, metric)) is not None:
            return value
        if found := pattern.findall(line):
            return float(found[-1])
    return None


def _of_json(line: str, metric: str) -> float | None:
    """Return the number under a key of a JSON line; one that is null or a text is not a number."""
    try:
        value: Any = json.loads(line)[metric]
    except (LookupError, RecursionError, TypeError, ValueError):
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan

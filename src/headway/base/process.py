"""Commands of the user's own: run with everything that they start, and read for their metrics.

No shell reads the words of a command. Each one is a process group, of which nothing is left when its first process has
ended, when it is closed, or when this process is killed.
"""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Self

PATIENCE_S = 5.0
"""Seconds between asking a command to end and ending it."""

_GONE = (ProcessLookupError, PermissionError)
"""Errors of a signal to a group of processes that have ended."""

_NUMBER = r"[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"

_GUARD = 'read -r _; kill -KILL "-$0"'
"""A shell program that kills a process group as soon as its own standard input is closed."""


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
        # An interrupt reaches the main thread alone: in another one, no process is started and not known. That thread
        # exists before it starts one, so that `close` can wait for it.
        self._starter = ThreadPoolExecutor(1)
        self._starter.submit(int).result()
        self._guard: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._started = self._starter.submit(
                self._start,
                words,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                start_new_session=True,
            )
        except BaseException:  # an interrupt
            self.close()
            raise

    def _start(self, words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(words, **options)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return process

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
            code = self._started.result().wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self._end_group()
        return code

    def close(self, patience_s: float = PATIENCE_S) -> None:
        """End it with everything that it started, if it has not ended by itself."""
        self._starter.shutdown()
        if process := self._process:
            if process.poll() is None:
                with contextlib.suppress(*_GONE):
                    os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                    process.wait(patience_s)
            self._end_group()
            if process.poll() is None:  # its guard did not start
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _end_group(self) -> None:
        """End what the command has started and left, and the guard, which is needed no more."""
        guard, self._guard = self._guard, None
        if guard is not None and self._process is not None:
            with contextlib.suppress(*_GONE):
                os.killpg(self._process.pid, signal.SIGKILL)
            guard.kill()
            guard.communicate()


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
    pattern = re.compile(
        rf"(?<![\w./-]){re.escape(metric)}[\"']?\s*[=:]\s*({_NUMBER})(?![\w.]|,\d{{3}})", re.IGNORECASE
    )
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

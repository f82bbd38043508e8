"""A training command of anybody's: how it is written, run once for a seed, and how its metric is read.

A command is split into words once. The seed takes the place of `{seed}` in a word, and no shell reads the words. Each
run is a process group of its own, so that nothing of it is left when it is stopped.
"""

import contextlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.base.files import Content, appending, ordinary, private_folder, remove, write_text
from headway.base.identity import digest
from headway.errors import RunFailed, UserError, shortened

SEED = "{seed}"

_PATIENCE_S = 5.0
"""Seconds between asking a run to end and ending it."""

_GONE = (ProcessLookupError, PermissionError)
"""Errors of a signal to a group of processes that have ended."""

_TAIL = 1 << 20
"""Bytes at the end of an output in which the metric is looked for."""

_LARGEST_PART = 1 << 24
"""Bytes of a file up to which it is taken for a part of the program and not for its data."""

_NUMBER = r"[-+]?(?:(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A command that trains a model: that of the champion or of a challenger.

    Attributes:
        name: the name in sentences.
        run: the command as it was typed; empty if runs are read from files.
        folder: the working directory.
        files: the hash of each file that the command names, by its word.
    """

    name: str
    run: str = ""
    folder: str = ""
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def typed(cls, name: str, run: str, folder: Path) -> "Candidate":
        """Return the candidate of a command as it was typed.

        Raises:
            UserError: if the command cannot be split into words, has no `{seed}`, or names no program.
        """
        asked = f"--run {shortened(repr(run))}"
        try:
            words = shlex.split(run)
        except ValueError as error:
            raise UserError(f"{asked}: it cannot be split into words ({error}); close the quotes") from None
        if not any(SEED in word for word in words):
            raise UserError(
                f"{asked}: it has no {SEED}, so all its runs would be equal; write {SEED} for the random seed, such as "
                f"'python train.py --seed {SEED}'"
            )
        program = words[0] if "/" not in words[0] else str(folder / words[0])
        if shutil.which(program) is None:
            raise UserError(f"{asked}: there is no program {words[0]!r}; type the command as your shell takes it")
        return cls(name=name, run=run, folder=str(folder), files=hashes(words, folder))

    def check_files(self) -> None:
        """Raise UserError if a file that the command names is no longer what it was.

        Raises:
            UserError: naming the file.
        """
        now = hashes(shlex.split(self.run), Path(self.folder))
        changed = [name for name, content in self.files.items() if now.get(name) != content]
        if changed:
            raise UserError(
                f"{changed[0]} has changed since the gate was given {self.name}; restore the file, and give each "
                "challenger a file of its own"
            )


def hashes(words: list[str], folder: Path) -> dict[str, str]:
    """Return the hash of each file that a command names, without large files."""
    found = {}
    for word in words:
        path = folder / word
        with contextlib.suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _LARGEST_PART:
                found[word] = Content.of_file(path, links=True).sha256[:16]
    return found


def allow(candidate: Candidate) -> None:
    """Note that this user has typed or read a command, so that gates may run it."""
    folder, _ = private_folder("commands")
    write_text(folder / digest([candidate.run, candidate.folder]), "")


def check_allowed(candidate: Candidate, directory: Path) -> None:
    """Raise UserError for a command that stands in a gate's directory, and that this user has not typed.

    Raises:
        UserError: naming the command.
    """
    folder, _ = private_folder("commands")
    if not (folder / digest([candidate.run, candidate.folder])).exists():
        raise UserError(
            f"{directory} would run {shortened(repr(candidate.run))} in {candidate.folder}, which you have not typed "
            "here; read it, and allow it with --trust-code"
        )


def run_once(candidate: Candidate, seed: int, log: Path, metric: str, timeout: float | None = None) -> float:
    """Run a command with a seed, keep its output in a log, and return its metric.

    Raises:
        RunFailed: if the run has no finite metric; the message is one sentence.
        OSError: if the log cannot be written.
    """
    words = [word.replace(SEED, str(seed)) for word in shlex.split(candidate.run)]
    remove(log)
    with open(appending(log), "ab") as output, ThreadPoolExecutor(1) as starter:
        # An interrupt reaches the main thread alone: in another one, no process is started and not known.
        started = starter.submit(
            subprocess.Popen,
            words,
            cwd=candidate.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = started.result().wait(timeout)
        except OSError as error:
            raise RunFailed(f"the command did not start: {error.strerror} ({error.filename})") from None
        except subprocess.TimeoutExpired:
            raise RunFailed(f"the run did not end within {timeout:g} s (--timeout); its output: {log}") from None
        finally:
            _end(started)
    if code:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        raise RunFailed(f"the run ended {how}; its output: {log}")
    value = metric_in(_tail(log), metric)
    if value is None:
        raise RunFailed(f"the run printed no {metric}; its output: {log}")
    if not math.isfinite(value):
        raise RunFailed(f"{metric} is {value}; its output: {log}")
    return value


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


def _tail(log: Path) -> str:
    with ordinary(log) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode(errors="replace")


def _end(started: "Future[subprocess.Popen[bytes]]") -> None:
    """End a run with everything that it started, if it has not ended by itself."""
    if started.exception() or started.result().poll() is not None:
        return
    process = started.result()
    with contextlib.suppress(*_GONE):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(_PATIENCE_S)
    with contextlib.suppress(*_GONE):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

"""A training command of anybody's: how it is written, run once for a seed, and how its metric is read.

A command is split into words once. The seed takes the place of `{seed}` in a word.
"""

import contextlib
import math
import os
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from headway.base.files import Content, appending, ordinary, remove
from headway.base.process import RunningCommand, how_it_ended, metric_in
from headway.config.plugins import is_allowed_command
from headway.errors import RunFailed, UserError, shortened

SEED = "{seed}"

_TAIL = 1 << 20
"""Bytes at the end of an output in which the metric is looked for."""

_LARGEST_PART = 1 << 24
"""Bytes of a file up to which it is taken for a part of the program and not for its data."""


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


def check_allowed(candidate: Candidate, directory: Path) -> None:
    """Raise UserError for a command that stands in a gate's directory, and that this user has not typed.

    Raises:
        UserError: naming the command.
    """
    if not is_allowed_command(candidate.run, candidate.folder):
        raise UserError(
            f"{directory} would run {shortened(repr(candidate.run))} in {candidate.folder}, which you have not "
            "typed here; read it, and allow it with --trust-code"
        )


def run_once(candidate: Candidate, seed: int, log: Path, metric: str, timeout: float | None = None) -> float:
    """Run a command with a seed, keep its output in a log, and return its metric.

    Raises:
        RunFailed: if the run has no finite metric; the message is one sentence.
        OSError: if the log cannot be written.
    """
    words = [word.replace(SEED, str(seed)) for word in shlex.split(candidate.run)]
    remove(log)
    with (
        open(appending(log), "ab") as output,
        RunningCommand(words, folder=candidate.folder, output=output) as command,
    ):
        try:
            code = command.wait(timeout)
        except OSError as error:
            raise RunFailed(f"the command did not start: {error.strerror} ({error.filename})") from None
    if code is None:
        raise RunFailed(f"the run did not end within {timeout:g} s (--timeout); its output: {log}")
    if code:
        raise RunFailed(f"the run ended {how_it_ended(code)}; its output: {log}")
    value = metric_in(_tail(log), metric)
    if value is None:
        raise RunFailed(f"the run printed no {metric}; its output: {log}")
    if not math.isfinite(value):
        raise RunFailed(f"{metric} is {value}; its output: {log}")
    return value


def _tail(log: Path) -> str:
    with ordinary(log) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode(errors="replace")

"""Runs of a user's training command: started, watched, and read.

To Headway a run is one step, which lasts as long as the command does. While it lasts, the records are read as they
come: a step that is recorded again replaces the former, a metric that is not finite ends the run, and so does a
command that has been silent for too long.
"""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from headway.base.files import folder_in, ordinary
from headway.base.process import RunningCommand, how_it_ended, metric_in
from headway.config.own_program import CommandRun, CommandTask, copy_to
from headway.config.plugins import directory_of
from headway.config.run import WORK
from headway.config.spec import thinned
from headway.config.yaml import leaves
from headway.errors import RunFailed, UserError, shortened
from headway.store.checkpoint import Arrays
from headway.train.loop import Conclusion, Study, TrainingPart

STEPS = ("step", "_step", "global_step", "iteration", "iter", "epoch")
"""Names under which records have their step; the first that is there counts."""
RESUMED = "HEADWAY_RESUMED"
_HEARD_AFTER_S = 0.5
_PATIENCE_S = 20.0
"""Seconds that a command has to store its state when it is asked to end."""
_MARK = "\ufeff"
"""The byte-order mark with which some programs begin a file."""
_LARGEST_STEP = 1 << 53
_MOST_POINTS = 2_000
"""Steps of a metric that are kept, at most."""


class CommandRecords:
    """The numbers that a command has written until now, by metric and step.

    Args:
        file: the file that is read: of records, or of the output.
        task: the declaration of the metric, and of how it is read.
    """

    def __init__(self, file: Path, task: CommandTask):
        self.file, self._task = file, task
        self._pattern = re.compile(task.records) if task.is_pattern else None
        self.values: dict[str, dict[float, float]] = {}
        self._begin_anew()
        self._is_whole = False
        self._old: float = math.inf
        """Bytes that earlier attempts wrote; what is wrong in them has been reported."""

    def _begin_anew(self) -> None:
        self._read, self._taken, self._rest, self._n_lines = 0, 0, b"", 0
        self.values.clear()

    def read(self, *, ended: bool = False) -> None:
        """Read what is new. After the command has ended, read all again: the command may have rewritten the file.

        Raises:
            RunFailed: if the metric is not finite, or if a line of the whole file is no record.
        """
        if ended and self._read:
            self.read()
            self._begin_anew()
        self._is_whole = ended
        try:
            with ordinary(self.file) as file:
                new = self._new_in(file)
        except FileNotFoundError:
            new = b""
        *lines, self._rest = (self._rest + new).split(b"\n")
        if ended and self._rest.strip():
            lines.append(self._rest)
        for line in lines:
            self._n_lines += 1
            if text := line.decode(errors="replace").strip().removeprefix(_MARK):
                self._take(text, is_old=self._taken < self._old)
            self._taken += len(line) + 1

    def begin_live(self) -> None:
        """Report what is wrong in the lines that come from now on."""
        self.read()
        self._old = self._read

    def _new_in(self, file: IO[bytes]) -> bytes:
        if os.fstat(file.fileno()).st_size < self._read:  # the command began the file anew
            self._begin_anew()
            self._old = 0
        file.seek(self._read)
        new = file.read()
        self._read += len(new)
        return new

    def _take(self, line: str, *, is_old: bool) -> None:
        numbers = dict(self._numbers(line, is_old=is_old))
        step = next((numbers[name] for name in STEPS if math.isfinite(numbers.get(name, math.nan))), None)
        for name, value in numbers.items():
            of_metric = self.values.setdefault(name, {})
            # A record without a step follows the last one: a final evaluation often names no step.
            at = next(reversed(of_metric), -1) + 1 if step is None else _whole(step)
            if name == self._task.metric and not math.isfinite(value):
                if is_old:
                    continue
                raise RunFailed(f"{name} is {value} at step {at:,}; its output is in log.txt")
            of_metric[at] = value

    def _numbers(self, line: str, *, is_old: bool) -> Iterator[tuple[str, float]]:
        """Yield the numbers of a line, by name."""
        if self._pattern is not None:
            found = self._pattern.search(line)
            yield from _as_numbers(found.groupdict() if found else {})
        elif content := self._object(line, is_old=is_old):
            yield from _as_numbers(leaves(content))
        elif not self._task.records and (value := metric_in(line, self._task.metric)) is not None:
            step = next((at for name in STEPS if (at := metric_in(line, name)) is not None), None)
            yield from ([] if step is None else [(STEPS[0], step)])
            yield self._task.metric, value

    def _object(self, line: str, *, is_old: bool) -> Mapping[str, Any]:
        try:
            value = json.loads(line) if line.startswith("{") else None
        except (RecursionError, ValueError):
            value = None
        if isinstance(value, dict):
            return value
        # An output may hold anything, and a file that is being rewritten, half a line.
        if not self._task.records or is_old or not self._is_whole:
            return {}
        raise RunFailed(
            f"line {self._n_lines:,} of {self._task.records} is not a JSON mapping: {shortened(repr(line))}; write one "
            'line, such as {"step": 100, "loss": 2.5}'
        )


def _as_numbers(content: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in content.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                yield name.encode(errors="replace").decode(), float(value)
            except (OverflowError, ValueError):
                continue


def _whole(step: float) -> float:
    """Return a step as a whole number, where it is one: parts of an epoch are steps too."""
    return int(step) if step.is_integer() and abs(step) < _LARGEST_STEP else step


class CommandTrainer:
    """A command in a run's folder, as a trainer of one step.

    Args:
        run: the declared run.
        folder: the run's folder.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
    """

    def __init__(self, run: CommandRun, folder: Path, device: str):
        self._run, self._folder, self._device = run, folder, device
        self._command: RunningCommand | None = None
        self._log = folder / "log.txt"
        self._work = folder / WORK
        is_file = bool(run.task.records) and not run.task.is_pattern
        self.records = CommandRecords(self._work / run.task.records if is_file else self._log, run.task)
        self._size, self._heard = 0, time.monotonic()
        self.step = 0

    def advance(self, n: int) -> np.ndarray:  # noqa: ARG002
        """Wait for the end of the command for a moment; return its metric, or nothing if it still runs.

        Raises:
            RunFailed: if the command fails, is silent for too long, or has no finite metric.
        """
        if self._command is None:
            self._command = self._started()
        try:
            code = self._command.wait(_HEARD_AFTER_S)
        except OSError as error:
            raise RunFailed(f"{error.filename}: the command did not start ({error.strerror})") from None
        self.records.read(ended=code is not None)
        if code is None:
            self._check_heard()
            return np.empty(0)
        if code:
            raise RunFailed(f"the command ended {how_it_ended(code)}; its output is in log.txt")
        self.step = 1
        return np.array([self.final()])

    def _started(self) -> RunningCommand:
        self.records.begin_live()
        is_new = not self._work.exists()
        folder_in(self._folder, WORK)
        copy_to(self._work, directory_of(self._folder), self._run.task.files)
        environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        environment |= {} if is_new else {RESUMED: "1"}
        environment |= {"CUDA_VISIBLE_DEVICES": ""} if self._device == "cpu" else {}
        words = self._run.words(self._work.absolute())
        self._heard = time.monotonic()
        return RunningCommand(words, folder=self._work, environment=environment)

    def _check_heard(self) -> None:
        """Raise RunFailed if nothing was heard of the command for too long."""
        heard = {self._log, self.records.file}
        size = sum(file.stat().st_size for file in heard if file.is_file())
        now, timeout = time.monotonic(), self._run.task.timeout
        if size != self._size:
            self._size, self._heard = size, now
        if timeout is not None and now - self._heard > timeout:
            raise RunFailed(f"the command was silent for {timeout:g} s (task.timeout); its output is in log.txt")

    def final(self) -> float:
        """Return the value of the metric at its last step.

        Raises:
            RunFailed: if it was never recorded.
        """
        metric = self._run.task.metric
        values = self.records.values.get(metric)
        if not values:
            recorded = ", ".join(sorted(self.records.values)[:8]) or "nothing"
            there = "" if self.records.file.exists() else f", and wrote no {self._run.task.records} in its folder"
            raise RunFailed(
                f"the command recorded no {metric} (it recorded {recorded}{there}); its output is in log.txt"
            )
        return values[max(values)]

    def conclusion(self) -> Conclusion:
        """Return the last value of each metric, and all its values by step.

        Raises:
            RunFailed: if the metric was never recorded.
        """
        self.final()
        named = {name: values for name, values in self.records.values.items() if name not in STEPS}
        finals = {name: values[max(values)] for name, values in named.items() if values}
        curves: dict[str, dict[str, Any]] = {}
        for name, values in named.items():
            finite = sorted(step for step in values if math.isfinite(values[step]))
            steps = [finite[at] for at in thinned(finite, _MOST_POINTS)]
            if steps:
                curves[name] = {"steps": steps, "values": [values[step] for step in steps]}
        return Conclusion(
            metrics={name: value for name, value in finals.items() if math.isfinite(value)}, curves={"records": curves}
        )

    def state(self) -> Arrays:
        """Return no state: a command keeps its own in its folder."""
        return {}

    def restore(self, step: int, state: Arrays) -> None:  # noqa: ARG002
        """Go on from a step; after the command has ended, what it recorded is read again."""
        self.step = step
        self.records.read(ended=True)

    def weights(self) -> Arrays:
        """Return no weights: a command keeps its own."""
        return {}

    def close(self) -> None:
        """End the command, if it still runs."""
        if self._command is not None:
            self._command.close(_PATIENCE_S)


class CommandTrainingPart(TrainingPart):
    """Training commands."""

    def open_study(self, run: CommandRun, *, device: str = "auto", folder: Path | None = None, **_: Any) -> Study:
        """Open the study of a command.

        Args:
            run: the declared run.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            folder: the folder of the run.

        Raises:
            UserError: without a folder.
        """
        if folder is None:
            raise UserError("a command runs in a results directory; give it to `headway run`")
        trainer = CommandTrainer(run, folder, device)
        return Study(
            trainer=trainer,
            measures=(),
            execution={"trainer": "command", "device": device},
            conclude=trainer.conclusion,
            loss=run.task.metric,
            close=trainer.close,
        )

    def trained_model(self, run: CommandRun, weights: dict[str, np.ndarray]) -> Any:  # noqa: ARG002
        """Raise UserError: only the command knows its model.

        Raises:
            UserError: saying how to open what the command has stored.
        """
        raise UserError(
            f"Headway does not know the model of {shortened(repr(run.task.run))}; if it stored one in the format of "
            f"transformers, give that folder, below the run's {WORK}, to `headway xray`"
        )

    def trial_steps_per_s(self, *runs: Any, seconds: float = 0.3) -> tuple[float, ...]:  # noqa: ARG002
        """Return no rates: a command is not tried."""
        return ()

    def why_not_fused(self, run: Any) -> str | None:  # noqa: ARG002
        """Return why: it is a command."""
        return "its trainer is a command of your own"


LABORATORY = CommandTrainingPart()

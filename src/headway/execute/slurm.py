"""Workers that join a directory, started by Slurm as an array of jobs.

Submitit writes the script, receives the signal that Slurm sends before the time limit, and has the job put back into
the queue. The job starts `headway worker`. Submitit is an extra, imported where it is used.
"""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.base.files import entries, inside, refuse_link, remove
from headway.errors import ResultsError, UserError, shortened
from headway.execute.join import Joining
from headway.store.directory import Store
from headway.store.run import check_schema

_STORED_WITHIN_S = 60.0
_POLL_EVERY_S = 0.1
_BEFORE_LIMIT_S = 120
_MOST_TIMES = 1_000
_MOST_JOBS = 10_000
_OURS = ("array", "time", "signal", "output", "error", "job-name", "nodes", "open-mode")
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+)(?::(?P<s>\d\d))?")


@dataclass
class SlurmJob:
    """A job of the array: a worker that joined, in a process of its own.

    Attributes:
        directory: the results directory.
        options: the options of `headway worker`.
    """

    directory: str
    options: tuple[str, ...] = ()
    _process: Any = field(default=None, repr=False)

    def __call__(self) -> int:
        """Work until nothing is left; the exit code of the worker."""
        command = [sys.executable, "-m", "headway", "worker", self.directory, *self.options]
        # Slurm sends the signal to every process of a job. It is for this one, which asks the worker in its own way.
        former = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        try:
            self._process = subprocess.Popen(command, start_new_session=True)
        finally:
            signal.signal(signal.SIGUSR2, former)
        return int(self._process.wait())

    def checkpoint(self) -> Any:
        """Have everything stored before the time is up, and be put back into the queue while something is left."""
        from submitit.helpers import DelayedSubmission

        if self._process is not None and not _has_ended(self._process.pid):
            self._process.send_signal(signal.SIGTERM)
            until = time.monotonic() + _STORED_WITHIN_S
            while not _has_ended(self._process.pid) and time.monotonic() < until:
                time.sleep(_POLL_EVERY_S)
            if not _has_ended(self._process.pid):
                self._process.kill()
        if not Joining(directory=Path(self.directory)).left().undone:
            return None
        return DelayedSubmission(SlurmJob(self.directory, self.options))


def _has_ended(child: int) -> bool:
    """Return whether a child process has ended, whether or not it was waited for.

    The child's Popen cannot tell this in a signal handler, while the interrupted code waits for the child.
    """
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def submit(
    directory: Path, *, array: int, time: str, sbatch: Sequence[str] = (), options: Sequence[str] = ()
) -> tuple[str, ...]:
    """Start workers that join a directory as an array of Slurm jobs; the ids of the jobs.

    Args:
        directory: the results directory, which already has runs.
        array: the number of jobs.
        time: the time limit of each job, as Slurm writes it: `2:00:00`.
        sbatch: the further options of sbatch, each `KEY=VALUE`, or some separated by spaces.
        options: the options of `headway worker`.

    Raises:
        UserError: when something is not as it must be, or there is no Slurm here.
    """
    minutes, more = minutes_of(time), parameters_of(sbatch)
    if not 1 <= array <= _MOST_JOBS:
        raise UserError(f"array {array}: give 1 to {_MOST_JOBS:,} jobs")
    check_schema(directory)
    Store.open(directory)
    try:
        import submitit
    except ImportError:
        raise UserError("slurm: submitit is not installed; `pip install '.[slurm]'` installs it") from None
    if missing := [tool for tool in ("sbatch", "srun") if shutil.which(tool) is None]:
        raise UserError(f"slurm: there is no {missing[0]} here; submit from a machine of the cluster")
    folder = _log_folder(directory.absolute())
    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=_MOST_TIMES)
    executor.update_parameters(
        job_name="headway",
        time=minutes,
        signal_delay_s=_BEFORE_LIMIT_S,
        array_parallelism=array,
        additional_parameters=more,
    )
    jobs = [SlurmJob(str(directory.absolute()), tuple(options)) for _ in range(array)]
    before = set(entries(folder, "*"))
    try:
        with contextlib.redirect_stderr(io.StringIO()), executor.batch():  # submitit prints what it raises
            submitted = [executor.submit(job) for job in jobs]
    except submitit.core.utils.FailedJobError as error:
        for file in set(entries(folder, "*")) - before:
            remove(file)
        if not before:
            folder.rmdir()
        raise UserError(f"slurm: sbatch refused: {shortened(str(error), 600)}") from None
    return tuple(job.job_id for job in submitted)


def _log_folder(directory: Path) -> Path:
    """Return the folder of the jobs' output, without links, which Slurm would follow.

    Raises:
        ResultsError: when it is not a folder, or when a link or a file with another name elsewhere is in it.
    """
    folder = inside(directory, "slurm")
    if folder.exists() and not folder.is_dir():
        raise ResultsError(f"{folder} is not a folder, and jobs write their logs there; move it away")
    for entry in entries(folder, "*"):
        refuse_link(entry)
        if entry.is_file() and entry.stat().st_nlink > 1:
            raise ResultsError(f"{entry} is also a file elsewhere, and a job might write to it; remove it")
    return folder


def minutes_of(time: str) -> int:
    """A time limit in minutes, rounded up.

    Raises:
        UserError: when it is none.

    Examples:
        >>> minutes_of("2:00:00"), minutes_of("90"), minutes_of("1-00:30:00")
        (120, 90, 1470)
    """
    match = _TIME.fullmatch(time.strip())
    if not match:
        raise UserError(f"time {shortened(time)}: give the limit as Slurm writes it, such as 2:00:00 or 1-12:00:00")
    # With two numbers alone Slurm reads minutes and seconds.
    days, hours, minutes, seconds = (int(match[name] or 0) for name in "dhms")
    if match["h"] is not None and match["s"] is None and match["d"] is None:
        hours, minutes, seconds = 0, hours, minutes
    whole = days * 1440 + hours * 60 + minutes + (seconds > 0)
    if not 5 <= whole <= 365 * 1440:
        raise UserError(f"time {time}: give 5 minutes or more, and less than a year")
    return whole


def parameters_of(sbatch: Sequence[str]) -> Mapping[str, str]:
    """Further options of sbatch by name.

    Raises:
        UserError: when one has no value, or is Headway's own to set.

    Examples:
        >>> parameters_of(["account=lab partition=short", "mem=4G"])
        {'account': 'lab', 'partition': 'short', 'mem': '4G'}
    """
    parameters = {}
    for part in (part for given in sbatch for part in given.split()):
        key, equals, value = part.removeprefix("--").partition("=")
        if not equals or not value or not re.fullmatch(r"[a-z][a-z-]*", key):
            raise UserError(f"sbatch {shortened(part)}: give options of sbatch as KEY=VALUE, such as partition=short")
        if key in _OURS:
            raise UserError(f"sbatch {part}: {key} is set by Headway; leave it out (use --array and --time)")
        parameters[key] = value
    return parameters

"""Processes by their number, for tests of what is left of them."""

import multiprocessing
from collections.abc import Callable, Iterable
from multiprocessing.context import ForkProcess
from typing import Any

import psutil

from support.quadratic import wait_until

FORK = multiprocessing.get_context("fork")


def is_running(pid: int) -> bool:
    """Whether it has not ended; one that ended and that nobody has collected has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ends(pid: int) -> None:
    """Wait until it has ended."""
    wait_until(lambda: not is_running(pid), 10.0)


def forked(target: Callable[..., object], given: Iterable[tuple[Any, ...]]) -> list[ForkProcess]:
    """Forks of this process that have begun to do something, each with arguments of its own."""
    processes = [FORK.Process(target=target, args=arguments) for arguments in given]
    for process in processes:
        process.start()
    return processes


def joined(processes: Iterable[ForkProcess]) -> None:
    """Wait until they have ended, each without an error."""
    for process in processes:
        process.join(120)
        assert process.exitcode == 0

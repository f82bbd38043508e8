"""Runs: being asked to stop.

A signal is first a wish, which the training loop fulfils at its next milestone, where it can store a checkpoint.
Where there is nothing to store, and at the second signal, it interrupts at once.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

FROM_PARENT = signal.SIGUSR1
"""What the process that started a worker stops it with, so that it is told apart from what others send."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, FROM_PARENT)


class Stop(BaseException):
    """The process was asked to stop; the message says where and how. Like KeyboardInterrupt, it is no error."""


class Wishes:
    """Whether this process was asked to stop, by a signal or by the end of the process that it works for."""

    def __init__(self, parent: int | None):
        self._parent, self._signal, self._patient = parent, "", False

    @property
    def stop(self) -> str:
        """How the process was asked to stop, as in `by SIGTERM`; empty if it was not."""
        if self._parent is not None and os.getppid() != self._parent:
            return "by the end of the process that started it"
        return self._signal

    @contextmanager
    def heard(self) -> Iterator["Wishes"]:
        """Listen to the signals in the block; they raise `Stop` there, except where `patiently` holds the first."""
        # One that is ignored stays so: nohup and a shell's background jobs ask for that.
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        former = {number: signal.signal(number, self._hear) for number in heard}
        try:
            yield self
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """In the block the first signal is a wish only, to be looked for in `stop`."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        how = "with `headway run`" if number == FROM_PARENT else f"by {signal.Signals(number).name}"
        if self._patient and not self._signal:
            self._signal = how
        else:
            raise Stop(how)

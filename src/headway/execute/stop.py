"""Requests to stop, by a signal or by the end of the process that a worker works for.

A signal is first a request. While work would be lost, the training loop stops at the end of its current portion of
steps, where it stores a checkpoint. If nothing would be lost, a signal interrupts at once. A second signal from the
same sender after a while also interrupts at once. A scheduler sends its signal to every process of a tree, some send it
twice, and the process that started a worker then asks it too. All these signals count as one request.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

FROM_PARENT = signal.SIGUSR1
"""The signal by which the process that started a worker stops it, unlike the signals of other senders.

Schedulers also send it some time before they end a job, to the process that started workers, or to every process.
"""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, FROM_PARENT)

TOGETHER_S = 2.0
"""Signals of other senders within this time are one request; a later signal interrupts."""

ASKED_AGAIN_S = 1.0
"""Signals of the process that started a worker within this time are one request; they may follow a scheduler's."""

_POLL_EVERY_S = 0.25


class Stop(BaseException):
    """The request that stops a process; the message tells where and how. Like KeyboardInterrupt, it is no error."""


class StopRequest:
    """Requests to this process to stop, by a signal or by the end of the process that it works for.

    Attributes:
        patient: True if a first request is only noted, for `stop` to find; False if it raises `Stop`.
    """

    def __init__(self, parent: int | None):
        self.patient = False
        self._parent, self._signal, self._fulfilled = parent, "", False
        self._first: dict[bool, float] = {}

    @property
    def stop(self) -> str:
        """The way in which the process was asked to stop, as in `by SIGTERM`; empty if it was not."""
        return "by the end of the process that started it" if self._is_orphan else self._signal

    @contextmanager
    def heard(self) -> Iterator["StopRequest"]:
        """Listen to the signals in the block, and for the end of the parent."""
        # One that is ignored stays so: nohup and a shell's background jobs ask for that.
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        former = {number: signal.signal(number, self._hear) for number in heard}
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), name="parent", daemon=True)
        if self._parent is not None:
            watch.start()
        try:
            yield self
        finally:
            self._fulfilled = True
            over.set()
            if watch.ident is not None:
                watch.join()
            for number, handler in former.items():
                signal.signal(number, handler)

    def fulfilled(self, position: str = "") -> Stop:
        """Return the exception that ends the work; from here on, no signal disturbs the recording of the end."""
        self._fulfilled = True
        return Stop(f"{position} {self.stop}".strip())

    @property
    def _is_orphan(self) -> bool:
        return self._parent is not None and os.getppid() != self._parent

    def _watch(self, over: threading.Event) -> None:
        # Judging a model or compiling it takes minutes, in which nobody looks at `stop`.
        while not over.wait(_POLL_EVERY_S):
            if self._is_orphan:
                os.kill(os.getpid(), FROM_PARENT)
                return

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self._fulfilled:
            return
        of_parent, now = number == FROM_PARENT, time.monotonic()
        again = of_parent in self._first and now - self._first[of_parent] > (ASKED_AGAIN_S if of_parent else TOGETHER_S)
        self._first.setdefault(of_parent, now)
        how = "with `headway run`" if of_parent else f"by {signal.Signals(number).name}"
        self._signal = self._signal or how
        if again or not self.patient:
            raise self.fulfilled()


class SignalHandler:
    """Handlers of Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 in a process that started workers: they raise KeyboardInterrupt.

    Attributes:
        ending: True if the process is about to end its workers; then signals are only counted.
        impatient: the number of signals that did not belong to the first.
    """

    def __init__(self) -> None:
        self.ending, self.impatient = False, 0
        self._last: float | None = None

    @contextmanager
    def heard(self) -> Iterator["SignalHandler"]:
        """Listen in the block, to signals that are not ignored; only a main thread can."""
        asked = SIGNALS if threading.current_thread() is threading.main_thread() else ()
        others = (signal.SIG_DFL, signal.default_int_handler)  # a notebook's own way is left as it is
        former = {number: now for number in asked if (now := signal.getsignal(number)) in others or _is_ours(now)}
        for number in former:
            signal.signal(number, self._hear)
        try:
            yield self
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._last is not None and now - self._last < TOGETHER_S:
            return
        self._last = now
        if self.ending:
            self.impatient += 1
        else:
            raise KeyboardInterrupt(number)


def _is_ours(handler: object) -> bool:
    """Return whether a signal's handler is another `SignalHandler`, around this one."""
    return isinstance(getattr(handler, "__self__", None), SignalHandler)

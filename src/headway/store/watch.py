"""The watch over leases: whether their holders live, by the clock of the observer.

A process of this machine lives or does not. A process elsewhere is known only by its beats, which change its lease. So
an observer that wants to take its lease watches it for a while. It counts the time without a change by a clock of its
own that nobody sets. The time of day of the holder, of a file server and of this machine plays no part.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from headway.store import lease as leases
from headway.store.lease import Lease, LeaseHeld, Sight, give_up, machine, seen

_LONGEST_GAP_S = 5.0
"""The most that counts as watched between two observations: an observer that slept meanwhile saw nothing."""
_POLL_EVERY_S = 0.25


@dataclass
class _Seen:
    """The mark of a lease when it was seen last, and the time since its last change."""

    mark: object
    at: float
    silent_s: float = 0.0


class Watch:
    """The observations of leases by one observer, which is to look again and again.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._seen: dict[Path, _Seen] = {}

    def is_held(self, directory: Path) -> bool:
        """Return whether a process works on a folder; give up a holder without a beat in a minute of watching."""
        sight = seen(directory)
        if sight is None or sight.is_free:
            self._seen.pop(directory, None)
            return False
        now = self._clock()
        last = self._seen.setdefault(directory, _Seen(sight.mark, now))
        if last.mark != sight.mark:
            last.mark, last.silent_s = sight.mark, 0.0
        else:
            last.silent_s += min(now - last.at, _LONGEST_GAP_S)
        last.at = now
        return last.silent_s <= leases.STALE_S or not give_up(directory, sight)


def take_patiently(directory: Path) -> Lease:
    """Take a lease, once it is certain whether it is held: at once, or after a minute of watching.

    Raises:
        LeaseHeld: when its holder lives.
    """
    watch = Watch()
    first = seen(directory)
    while True:
        try:
            return Lease.take(directory)
        except LeaseHeld:
            now = seen(directory)
            if now is None or first is None or now.mark != first.mark or _is_here(now):
                raise
        watch.is_held(directory)
        time.sleep(_POLL_EVERY_S)


def moved(directories: Iterable[Path], within_s: float) -> dict[Path, bool]:
    """Return, for leases held elsewhere, whether the holder gave a beat within a time."""
    first = {path: sight for path in directories if (sight := seen(path)) and not sight.is_free and not _is_here(sight)}
    has_moved = dict.fromkeys(first, False)
    until = time.monotonic() + within_s
    while not all(has_moved.values()) and time.monotonic() < until:
        time.sleep(_POLL_EVERY_S)
        for path, before in first.items():
            now = seen(path)
            has_moved[path] = has_moved[path] or now is None or now.mark != before.mark
    return has_moved


def _is_here(sight: Sight) -> bool:
    """Return whether the holder is a process of this machine that lives and is not suspended."""
    holder = sight.holder
    if holder is None or sight.is_free or holder.machine != machine():
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(holder.pid).status() not in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False

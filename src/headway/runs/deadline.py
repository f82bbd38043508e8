"""Runs: until when somebody works: for so long from now, or to a time of day."""

import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from headway.errors import UserError, shortened

_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|m|h|d)\s*")
_LONGEST_S = 10 * 365 * 86400.0


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """A moment by the clock of this process that nobody sets."""

    at: float

    @property
    def left_s(self) -> float:
        """Seconds until then; below zero afterwards."""
        return self.at - time.monotonic()


def deadline(text: str, now: datetime | None = None) -> Deadline:
    """Until when one works.

    Args:
        text: `1h50m` from now, `18:30` today, or `2026-11-23 08:00`.
        now: the time of day.

    Raises:
        UserError: when it is none of these, or past.
    """
    given, now = shortened(text.strip()), now or datetime.now()
    seconds = _from_now(text.strip()) if re.fullmatch(rf"({_PART.pattern})+", text.strip()) else None
    if seconds is None:
        then = _time_of(text.strip(), now)
        if then is None:
            raise UserError(f"until {given}: give for how long, such as 1h50m, or when: 18:30, or 2026-11-23 08:00")
        seconds = (then - now.astimezone(then.tzinfo) if then.tzinfo else then - now).total_seconds()
        if seconds <= 0:
            raise UserError(f"until {given}: that is past, it is {now:%Y-%m-%d %H:%M}; give a later time, or 1h50m")
    if not 0 < seconds <= _LONGEST_S:
        raise UserError(f"until {given}: give more than nothing, and less than ten years")
    return Deadline(at=time.monotonic() + seconds)


def _from_now(text: str) -> float:
    parts = timedelta()
    try:
        for number, unit in _PART.findall(text):
            parts += timedelta(seconds=float(number) * _SECONDS[unit])
    except OverflowError:
        return float("inf")
    return parts.total_seconds()


def _time_of(text: str, now: datetime) -> datetime | None:
    if found := re.fullmatch(r"(\d{1,2}):(\d\d)", text):
        hour, minute = int(found[1]), int(found[2])
        return now.replace(hour=hour, minute=minute, second=0, microsecond=0) if hour < 24 and minute < 60 else None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None

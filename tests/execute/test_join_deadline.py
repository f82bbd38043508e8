"""Until when somebody works: for how long, or when; and nothing that is past."""

import time
from datetime import UTC, datetime

import pytest

from headway.errors import UserError
from headway.execute.join import deadline

NOW = datetime(2026, 11, 22, 18, 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h50m", 6600),
        ("90min", 5400),
        ("1.5 h", 5400),
        ("45 s", 45),
        ("2d", 172_800),
        ("18:30", 1800),
        ("2026-11-23 08:00", 50_400),
    ],
)
def test_it_is_so_long_from_now(text, seconds):
    assert deadline(text, NOW) - time.monotonic() == pytest.approx(seconds, abs=1)


def test_a_time_with_its_zone_is_that_moment():
    now = datetime(2026, 11, 22, 17, 0, tzinfo=UTC)
    assert deadline("2026-11-22T19:00+01:00", now) - time.monotonic() == pytest.approx(3600, abs=1)


PAST = "this is past, now is 2026-11-22 18:00; give a later time"
NONE = "give a duration, such as 1h50m"
BEYOND = "give a time above 0 and below ten years"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("17:59", "2026-11-22 17:00", "2020-01-01"), PAST),
        (("", "soon", "-5m", "25:00", "1h50", "5"), NONE),
        (("0s", "100000000000000000000d"), BEYOND),
    ],
)
def test_what_is_past_no_time_or_without_end_is_an_error(texts, said):
    for text in texts:
        with pytest.raises(UserError, match=f"until {text}: {said}"):
            deadline(text, NOW)

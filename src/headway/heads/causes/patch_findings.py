"""Heads: which heads restore a metric's difference between two texts, in sentences. Numpy alone, as `heads.scores`.

A head is named where the share that it restores is beyond 1 % of the difference, to either side, by an interval over
examples that holds for all heads of the model at once. Of one pair of texts there is no interval: there heads are named
from 5 % on, and it is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headway.heads.causes.kinds import Head, named
from headway.heads.findings import NAMED
from headway.words import Amount, counted, listed, number

if TYPE_CHECKING:
    from headway.heads.causes.patched import Patching, PatchSite

MATTERS = 0.01
"""The share of the difference beyond which an interval has to be for its head to be named."""
OF_ONE = 0.05
"""The share from which on a head is named where there is one pair of texts, and so no interval."""
_LEAST = 0.001
"""The share below which a bound is not said."""
PARTS: Mapping["PatchSite", str] = {
    "z": "its context (z)",
    "q": "its queries (q)",
    "k": "its keys (k)",
    "v": "its values (v)",
    "pattern": "its pattern",
}

Row = tuple[Head, float, tuple[float, float]]
"""A head, the share that it restores, and both ends of its interval."""


def patch_sentences(found: "Patching") -> Iterator[str]:
    """What there is to be restored, which heads restore it by each site, and what estimates are not to be trusted."""
    yield _difference(found)
    if not found.differs:
        said = "the metric does not differ between the texts" if len(found.clean) < 2 else (
            "that difference is not told from none over the examples"
        )  # fmt: skip
        yield f"{said}, so there is nothing to be restored"
        return
    for site in found.effects:
        yield _heads(found, site)
    if any(found.cancels):
        heads = [named(head) for head, cancels in zip(found.heads, found.cancels, strict=True) if cancels]
        yield f"estimates of {', '.join(heads)} are not to be trusted: paths through later layers cancel"


def share_within(share: float, ends: Iterable[float]) -> str:
    """A share as sentences have it, with its interval where there is one.

    Examples:
        >>> share_within(0.813, (0.78, 0.846)), share_within(0.813, (float("nan"), float("nan")))
        ('81 % (78 to 85 %)', '81 %')
        >>> share_within(-0.021, (-0.024, -0.018))
        '−2.1 % (−2.4 to −1.8 %)'
    """
    low, high = map(float, ends)
    if not np.isfinite([low, high]).all():
        return f"{100 * share:.0f} %".replace("-", "−")
    amount = Amount(decimals=0 if max(abs(low), abs(high)) >= 0.095 else 1, factor=100.0, unit=" %")
    return f"{amount(share)} ({amount(low, high)})"


def _difference(found: "Patching") -> str:
    clean, corrupted = (number(float(values.mean()), 3) for values in (found.clean, found.corrupted))
    said = f"the metric is {clean} on the clean text, {corrupted} on the corrupted one"
    n, difference = len(found.clean), number(found.difference, 3)
    if n < 2:
        return f"{said}, on one pair of texts: of it there are no intervals, and heads are named from 5 % on"
    low, high = (number(end, 3) for end in found.difference_interval())
    return f"{said}: a difference of {difference} ({low} to {high}) over {counted(n, 'pair')} of texts"


def _heads(found: "Patching", site: "PatchSite") -> str:
    shares, ends = found.restored_by_heads(site), found.corrected_interval(site)
    rows: list[Row] = [
        (head, float(share), (float(low), float(high)))
        for head, share, (low, high) in zip(found.heads, shares, ends, strict=True)
    ]
    up = sorted((row for row in rows if _side(row) > 0), key=lambda row: -row[1])
    down = sorted((row for row in rows if _side(row) < 0), key=lambda row: row[1])
    rest = [row for row in rows if row not in up and row not in down]
    begun = f"with {PARTS[site]} as on the clean text" + (
        " at one position after the other, summed over positions" if found.effects[site].ndim > 2 else ""
    )
    most = max((_size(row) for row in rest), default=None)
    if not up and not down:
        assert most is not None, "there are heads"
        return f"{begun}, no head is found to restore any of the difference; none moves it by more than {_bound(most)}"
    said = [*_some(up, "restores", "of"), *_some(down, "adds", "to")]
    if most is not None:
        said.append(f"no other head moves it by more than {_bound(most)}")
    return f"{begun}: {'; '.join(said)}"


def _side(row: Row) -> int:
    """1 where a head is named for what it restores, -1 where for what it takes away, else 0."""
    _, share, (low, high) = row
    if not np.isfinite([low, high]).all():
        return int(share >= OF_ONE) - int(share <= -OF_ONE)
    return int(low > MATTERS) - int(high < -MATTERS)


def _size(row: Row) -> float:
    return float(np.nanmax(np.abs([row[1], *row[2]])))


def _bound(share: float) -> str:
    share = max(share, _LEAST)
    return f"{np.ceil(100 * share - 1e-9):.0f} %" if share >= 0.095 else f"{np.ceil(1000 * share - 1e-9) / 10:.1f} %"


def _some(rows: Sequence[Row], does: str, of: str) -> list[str]:
    if not rows:
        return []
    (head, share, ends), *others = rows[:NAMED]
    sign = 1 if does == "restores" else -1
    said = f"{named(head)} {does} {share_within(*_signed(share, ends, sign))} {of} the difference"
    if others:
        said += ", " + listed(f"{named(h)} {share_within(*_signed(s, e, sign))}" for h, s, e in others)
    if len(rows) > NAMED:
        more = sign * rows[NAMED][1]
        said += f", and {counted(len(rows) - NAMED, 'other head')} {100 * more:.1f} % and less"
    return [said]


def _signed(share: float, ends: Sequence[float], sign: int) -> tuple[float, tuple[float, float]]:
    low, high = sorted(sign * end for end in ends)
    return sign * share, (low, high)

"""Compare: what shares of seeds say, in one plain sentence, beside what is possible at all."""

from dataclasses import dataclass

from headway.compare.evidence import JudgedDifference
from headway.compare.shares import Share
from headway.words import counted, is_plural

_MOST_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class Solver:
    """A side: what it is called, and whether such a model can solve the task at all; None where nobody knows.

    `task` is what it is asked, where the two sides are asked different things.
    """

    label: str
    possible: bool | None = None
    task: str = ""


def share_finding(c: JudgedDifference, first: Solver, second: Solver, *, task: str) -> str:
    """The sentence for two shares of the same seeds.

    Examples:
        >>> from headway.compare.shares import compare_shares
        >>> found = compare_shares({s: float(s < 41) for s in range(64)}, dict.fromkeys(range(64), 0.0),
        ...     metric="solved", control=None)
        >>> share_finding(found, Solver(label="3 heads", possible=True), Solver(label="2 heads", possible=False),
        ...     task="3-bit parity")
        '3 heads solve 3-bit parity in .64 of 64 seeds (.52 to .75); 2 heads in 0 of 64 (at most .06), and none can'
    """
    if c.n_pairs == 0 or c.means is None:
        return f"{first.label} and {second.label} cannot be compared: no seed gave a result for both"
    sides = [Share(yes=round(mean * c.n_pairs), n=c.n_pairs) for mean in c.means]
    verb = "solve" if is_plural(first.label) else "solves"
    said = f"{first.label} {verb} {task} in {_told(sides[0], unit=True)}{_cannot(first)}"
    other = f" {second.task}" if second.task and second.task != task else ""
    said += f"; {second.label}{other} in {_told(sides[1], unit=False)}{_cannot(second)}"
    if c.is_told or c.p is None or _is_settled(first, second, c.means):
        return said
    return f"{said}; not told apart, p = {f'{c.p_family if c.p_family is not None else c.p:.2f}'.removeprefix('0')}"


def _is_settled(first: Solver, second: Solver, shares: tuple[float, float]) -> bool:
    """Whether theory tells: neither side can, or one cannot and the other has in some seed."""
    cannot = first.possible is False, second.possible is False
    return all(cannot) or (cannot[0] and shares[1] > 0) or (cannot[1] and shares[0] > 0)


def _told(share: Share, *, unit: bool) -> str:
    of = counted(share.n, "seed") if unit else f"{share.n}"
    low, high = share.interval
    if share.yes == 0:
        return f"0 of {of} (at most {decimal(high)})"
    if share.yes == share.n:
        return f"all of {of} (at least {decimal(low)})"
    return f"{decimal(share.value)} of {of} ({decimal(low)} to {decimal(high)})"


def _cannot(side: Solver) -> str:
    return ", and none can" if side.possible is False else ""


def decimal(value: float) -> str:
    """A share in two digits; one that is neither none nor all in as many as tell it from them.

    Examples:
        >>> decimal(0.64), decimal(1.0), decimal(0.0)
        ('.64', '1.00', '0')
        >>> decimal(299 / 300), decimal(1 / 300)
        ('.997', '.003')
    """
    if value in (0.0, 1.0):
        return "1.00" if value else "0"
    digits = 2
    while digits < _MOST_DIGITS and round(value, digits) in (0.0, 1.0):
        digits += 1
    return f"{value:.{digits}f}".removeprefix("0")

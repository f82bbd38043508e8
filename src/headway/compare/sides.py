"""Compare: the two sides of a difference in the grammar of a sentence."""

from dataclasses import dataclass

from headway.words import is_plural


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a sentence calls the two sides, which direction is better, and the metric where it has to be named.

    Examples:
        >>> Sides(first="2 heads", second="1 head", better="lower").outcome(-1.0)
        '2 heads beat 1 head'
        >>> Sides(first="1 head", second="2 heads", better="lower", metric="kernel_mse").outcome(0.5)
        '1 head loses to 2 heads in kernel_mse'
    """

    first: str
    second: str
    better: str | None
    metric: str | None = None

    @property
    def both(self) -> str:
        """Both of them; apart, where one is several."""
        if any(" and " in side for side in (self.first, self.second)):
            return f"{self.first}, and {self.second},"
        return f"{self.first} and {self.second}"

    @property
    def on(self) -> str:
        """In which metric, where that is told."""
        return f" in {self.metric}" if self.metric else ""

    @property
    def differ(self) -> str:
        """That they differ."""
        return f"{self.first} {'differ' if is_plural(self.first) else 'differs'} from {self.second}"

    def improves(self, difference: float) -> bool | None:
        """Whether a difference is for the better; None where neither direction is."""
        return None if self.better is None else (difference < 0) == (self.better == "lower")

    def outcome(self, difference: float, hedge: str = "") -> str:
        """Which of the two is ahead, by no amount yet."""
        improves = self.improves(difference)
        if improves is None:
            be = f"{hedge}be" if hedge else "is"
            return (
                f"{self.metric} {be} {'lower' if difference < 0 else 'higher'} for {self.first} than for {self.second}"
            )
        s = "" if hedge or is_plural(self.first) else "s"
        verb = f"{hedge}beat{s}" if improves else f"{hedge}lose{s} to"
        return f"{self.first} {verb} {self.second}{self.on}"


def about(n: int) -> str:
    """A number of seeds to two digits: the spread it rests on is known no better, and far numbers not at all.

    Examples:
        >>> about(9), about(123), about(123_456)
        ('about 9', 'about 120', 'more than 1,000')
    """
    return f"about {n}" if n < 100 else f"about {float(f'{n:.1e}'):.0f}" if n < 1000 else "more than 1,000"

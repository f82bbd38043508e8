"""Numbers, counts and lists written for a sentence."""

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any


def duration(seconds: float) -> str:
    """Return seconds in words, such as `1 min 35 s`.

    Examples:
        >>> duration(8.2), duration(95), duration(7320)
        ('8 s', '1 min 35 s', '2 h 02 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def brief(seconds: float) -> str:
    """Return seconds in words, with decimals below ten seconds.

    Examples:
        >>> brief(0.34), brief(3.0), brief(0.01), brief(0.0), brief(95)
        ('0.3 s', '3 s', 'under 0.1 s', '0 s', '1 min 35 s')
    """
    if seconds <= 0 or seconds >= 9.95:
        return duration(max(0.0, seconds))
    return "under 0.1 s" if seconds < 0.05 else f"{seconds:.1f} s".replace(".0 s", " s")


def size(n_bytes: float) -> str:
    """Return bytes in words, such as `54 kB`.

    Examples:
        >>> size(512), size(54_300), size(9_960_000), size(1.23e9), size(85.3e9)
        ('512 B', '54 kB', '10 MB', '1.2 GB', '85 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= 0.9995 * unit:
            number = n_bytes / unit
            return f"{number:,.1f} {name}".replace(".0 ", " ") if number < 9.95 else f"{number:,.0f} {name}"
    return f"{n_bytes:.0f} B"


def escape_controls(text: str) -> str:
    r"""Return a text in which control and direction-changing characters are shown by their number.

    Examples:
        >>> escape_controls("two\nlines"), escape_controls("one \u202eterces")
        ('two\nlines', 'one ⟨U+202E⟩terces')
    """
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def printable(text: object) -> str:
    r"""Return a text for a terminal: written by `escape_controls`, and no part of a line overwrites another.

    Examples:
        >>> printable("red \x1b[31m\n"), printable("100 %\r0 %")
        ('red ⟨U+001B⟩[31m\n', '100 %⟨U+000D⟩0 %')
    """
    return escape_controls(str(text)).replace("\r", "⟨U+000D⟩")


# The separators U+2028 and U+2029 would also end a quoted text in an expression of Vega's.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
)


def join(*sentences: str) -> str:
    """Join the sentences that are not empty into one caption."""
    return " ".join(sentence for sentence in sentences if sentence)


def listed(parts: Iterable[str]) -> str:
    """Return words as a list in a sentence, such as `a, b and c`.

    Examples:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def some_names(names: Sequence[str], most: int = 5) -> str:
    """Return names of which at most so many are given.

    Examples:
        >>> some_names(["L0H1", "L0H2"]), some_names(["L0H1", "L0H2", "L1H0"], 2)
        ('L0H1 and L0H2', 'L0H1, L0H2 and 1 more')
    """
    return "".join(text for text, _ in _list(tuple(names), str(most)))


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def counted(n: int, noun: str) -> str:
    """Return a number with its noun in the singular or the plural.

    Examples:
        >>> counted(1, "seed"), counted(2, "seed")
        ('1 seed', '2 seeds')
    """
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"


Part = tuple[str, str | None]
"""A piece of a sentence, and the name that it is in a list of names; None for the rest."""


Value = str | int | float | tuple[Any, ...]
"""The filling of a template: a text, a number, both ends of an interval, or a list.

A list has names, or entries that have their own `parts`.
"""


def filled(template: str, **values: Value) -> str:
    """Return a template with its values: names as a list, and numbers with two digits or by the field's format.

    A whole number as format is the most names of a list, or the significant digits of a number. A noun as format is
    what a number counts. `below` is a share in per cent that is never rounded up to a multiple of 10 %.

    Examples:
        >>> filled("{n} of {arms}: {loss} nats", n=3, arms=("a", "b"), loss=2.54)
        '3 of a and b: 2.5 nats'
        >>> filled("{change:z.1%} in {arms:1}, {loss:3} nats", change=-0.0312, arms=("a", "b"), loss=2.5432)
        '−3.1 % in a and 1 more, 2.54 nats'
        >>> filled("{n:seed} of {arms:arm}", n=1, arms=2)
        '1 seed of 2 arms'
        >>> filled("{score:below}", score=0.0797), filled("{score:below}", score=0.39996)
        ('8.0 %', '39.9 %')
    """
    return "".join(text for text, _ in pieces(template, values))


def pieces(template: str, values: Mapping[str, Value]) -> Iterator[Part]:
    """Yield the pieces of a filled template: each name of a list on its own, and the text between them."""
    for text, name, form, _ in Formatter().parse(template):
        if text:
            yield text, None
        value = "" if name is None else values[name]
        if isinstance(value, tuple):
            yield from _list(value, form or "")
        elif value != "":
            yield _filling(value, form or ""), None


def _list(entries: tuple[Any, ...], form: str) -> Iterator[Part]:
    if entries and isinstance(entries[0], float):
        yield " to ".join(_filling(end, form) for end in entries), None
        return
    most = int(form or 4)
    for at, entry in enumerate(entries[:most]):
        if at:
            yield " and " if at == len(entries) - 1 else ", ", None
        yield from ((entry, entry),) if isinstance(entry, str) else entry.parts
    if len(entries) > most:
        yield f" and {len(entries) - most} more", None


def _filling(value: str | int | float, form: str) -> str:
    if isinstance(value, str):
        return value
    if form == "below":
        # A score that misses a threshold, a multiple of 10 %, is never rounded up to it.
        value, form = min(value, (math.floor(10 * value) + 1) / 10 - 0.001), "z.1%"
    if isinstance(value, int) and form[1:2].isalpha():
        return counted(value, form)
    if form.isdigit() or not form:
        return number(value, int(form or 2))
    return f"{value:{form}}".replace("-", "−").replace("%", " %")


def with_numbers(noun: str, numbers: Iterable[int]) -> str:
    """Return a noun with the numbers of the things it counts, such as `seeds 0, 1 and 2`.

    Examples:
        >>> with_numbers("seed", [2]), with_numbers("seed", [2, 0, 1]), with_numbers("seed", [])
        ('seed 2', 'seeds 0, 1 and 2', 'no seed')
    """
    distinct = sorted(set(numbers))
    return f"{noun}{'s' * (len(distinct) > 1)} {listed(map(str, distinct))}" if distinct else f"no {noun}"


def number(value: Any, digits: int = 4) -> str:
    """Return a number to some significant digits, integers in full with separated thousands, and a dash for None.

    Examples:
        >>> number(0.66668), number(500001), number(7.3512e-5), number(None), number(-0.0)
        ('0.6667', '500,001', '7.35e−5', '–', '0')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if value == 0:
        return "0"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    size = abs(value)
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}".replace("-", "−")
    if size < 1e-3:
        mantissa, _, exponent = f"{value:.{min(digits, 3) - 1}e}".partition("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(size)))}f}".replace("-", "−")


def decimal(value: float, digits: int = 2) -> str:
    """Return a number with so many decimals.

    Examples:
        >>> decimal(0.893), decimal(-0.1), decimal(1.0), decimal(-0.001)
        ('0.89', '−0.10', '1.00', '0.00')
    """
    # + 0.0 makes -0.0 plain.
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


def span(values: Iterable[float], digits: int = 3) -> str:
    """Return the range from the smallest to the largest number, or one number if both have these digits.

    Examples:
        >>> span([0.02, 0.01]), span([0.01, 0.010001])
        ('0.0100 to 0.0200', '0.0100')
    """
    ends = sorted(values)
    return " to ".join(dict.fromkeys(number(value, digits) for value in (ends[0], ends[-1])))


TEN_TIMES = 9.0
"""A share by which a number is ten times another: from here on factors are told, not per cent."""


_MORE_DECIMALS = 2
"""The most decimals that are added to tell an end of an interval from what decides a verdict."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A format that writes a number and the ends of its interval to one count of decimals.

    Examples:
        >>> amount = Amount.of_share(0.001, (-0.004, 0.006))
        >>> amount(0.001), amount(-0.004, 0.006)
        ('0.1 %', '−0.4 to 0.6 %')
    """

    decimals: int
    factor: float = 1.0
    unit: str = ""
    offset: float = 0.0
    prefix: str = ""

    @classmethod
    def within(
        cls,
        low: float,
        high: float,
        *,
        factor: float = 1.0,
        unit: str = "",
        offset: float = 0.0,
        bounds: Sequence[float] = (0.0,),
    ) -> "Amount":
        """Make a format that shows the first digit an interval leaves uncertain, and at least one decimal.

        Args:
            low: the lower end of the interval.
            high: the upper end of the interval.
            factor: the factor from a value to the number that is written.
            unit: the unit, with the space before it.
            offset: the number that is added to the one that is written.
            bounds: the numbers that decide a verdict; an end that is not one of them is not written like it.

        Examples:
            >>> Amount.within(-0.0096, 0.002, factor=100, unit=" %", bounds=(0.0, -0.01))(-0.0096, 0.002)
            '−0.96 to 0.20 %'
            >>> Amount.within(0.0002, 0.005, factor=100, unit=" %")(0.0002, 0.005)
            '0.02 to 0.50 %'
            >>> Amount.within(-math.inf, math.inf)(1.25)
            '1.2'
        """
        size = abs(factor * (high - low) / 2)
        decimals = max(1, -math.floor(math.log10(size))) if 0 < size < math.inf else 1
        pairs = [(end, bound) for end in (low, high) for bound in bounds if end != bound]
        for _ in range(_MORE_DECIMALS):
            decimals += any(round(factor * end, decimals) == round(factor * bound, decimals) for end, bound in pairs)
        return cls(decimals=decimals, factor=factor, unit=unit, offset=offset)

    @classmethod
    def of_share(cls, share: float, interval: tuple[float, float] | None, *, margin: float | None = None) -> "Amount":
        """Make a format for shares in per cent, or as factors if one of them is ten times or more.

        Without an interval it shows two significant digits of the share. With a margin, in per cent, an end of the
        interval that lies beside it is not written like it.

        Examples:
            >>> amount = Amount.of_share(250.0, (217.8, 286.9))
            >>> amount(250.0), amount(217.8, 286.9)
            ('a factor of 251.0', '218.8 to 287.9')
        """
        if max(interval or (share,)) >= TEN_TIMES:
            amount = cls.within(*(interval or (0.0, 0.2 * share)), offset=1.0)
            return replace(amount, prefix="a factor of ")
        bounds = (0.0,) if margin is None else (0.0, margin / 100, -margin / 100)
        return cls.within(*(interval or (0.0, 0.2 * share)), factor=100.0, unit=" %", bounds=bounds)

    def __call__(self, *values: float) -> str:
        """Return one number with what stands before it, or the range between two, with the unit."""
        numbers = " to ".join(self._number(self.offset + self.factor * value) for value in values)
        return (self.prefix if len(values) == 1 else "") + numbers + self.unit

    def _number(self, value: float) -> str:
        if self.decimals > 6 or abs(value) >= 1e6:
            return f"{value:.3g}".replace("-", "−")
        return decimal(value, self.decimals)


def command_line(verb: str, *arguments: object, **options: Any) -> str:
    """Return the command line of a verb, with an option for each given value and each of several values.

    Examples:
        >>> command_line("run", "my file.yaml", seeds=3, control=["a", "b"], scale=None)
        "headway run 'my file.yaml' --seeds 3 --control a --control b"
    """
    words = ["headway", verb, *map(str, arguments)]
    for name, value in options.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [] if one is None else [f"--{name.replace('_', '-')}", str(one)]
    return shlex.join(words)


def together(names: Sequence[str], n_arms: int) -> str:
    """Return the name of a bar that several arms share.

    Examples:
        >>> together(["a", "b", "c"], 3), together(["a", "b"], 3), together(["a", "b", "c"], 4)
        ('all 3 arms', 'a and b', 'a and 2 others')
        >>> together(["a", "b"], 2)
        'both arms'
    """
    if len(names) == n_arms > 1:
        return f"all {n_arms} arms" if n_arms > 2 else "both arms"
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} others"

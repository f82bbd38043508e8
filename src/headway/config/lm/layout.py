"""Head layouts: how many heads each layer has, how wide they are, and the schedules that abbreviate them.

A layout is resolved: it holds d_head and, per layer, the query heads of each KV head. Its text is what people write:
`24-12-6-3` where n_heads d_head = d_model, `8:2-8:2` with KV heads, `7x64-3x256` with d_head, `4+3` query heads of each
KV head where they are unequal, `0` for a layer without attention.

Schedules are short for the layout of a model with a given number of layers and a given width. `ascending(90)`,
`descending(90)` and `constant(96)` share a total: each layer has twice, half, as many heads as the one before.
`linear(4, 16)` goes from the first layer to the last, each number lowered to a divisor of d_model if d_head is not
given; `delight(4, 8)` is the same line. `openelm(0.5, 1.0)` keeps d_head, and scales the joint width of the heads.

Paper: Mehta et al. 2024 (OpenELM, arXiv 2404.14619), for numbers that differ by layer and schedules of widths; Mehta et
al. 2021 (DeLighT, arXiv 2008.00623), whose depth of a block is a number of heads here.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headway.config.spec import WIDEST
from headway.errors import DeclarationError, near, shortened

PerLayer = int | str | tuple[int | None, ...] | None
"""One number for every layer, a list, or text: `10-30-80-150`, or a schedule for a width."""


class Schedule(NamedTuple):
    """A schedule that was asked for by its name and its numbers."""

    name: str
    numbers: tuple[float, ...]


def per_layer(value: PerLayer, n_layers: int, what: str, *, smallest: int = 1) -> tuple[int | None, ...]:
    """Return the number of each layer; None where the default applies.

    Args:
        value: one number for all layers, a list with one for each, or numbers joined by dashes.
        n_layers: layers.
        what: the key, for errors.
        smallest: the least number that is allowed.

    Raises:
        DeclarationError: when they are not as many as layers, or too small.

    Examples:
        >>> per_layer("5-20-50-100", 4, "rank")
        (5, 20, 50, 100)
    """
    if isinstance(value, str):
        parts = value.split("-")
        if not all(re.fullmatch(r" *[0-9]{1,15} *", part) for part in parts):
            raise DeclarationError(
                f"{what} {shortened(repr(value))}: write a number, a list, or numbers joined by dashes: 5-20-50-100"
            )
        numbers: tuple[int | None, ...] = tuple(map(int, parts))
        numbers = numbers * n_layers if len(numbers) == 1 else numbers
    elif isinstance(value, tuple):
        numbers = value
    else:
        numbers = (value,) * n_layers
    check_layers(numbers, n_layers, what)
    for number in numbers:
        if number is not None and number < smallest:
            raise DeclarationError(f"{what}: {number} was given; give {smallest} or more")
        if number is not None and number > WIDEST:
            raise DeclarationError(f"{what}: {number} was given; give {WIDEST:,} or less")
    return numbers


def check_layers(values: Sequence[object], n_layers: int, what: str) -> None:
    """Raise an error if a list is not as long as there are layers.

    Raises:
        DeclarationError: naming both numbers.
    """
    if len(values) != n_layers:
        raise DeclarationError(
            f"{what} names {len(values)} layer{'s' * (len(values) != 1)}, but n_layers is {n_layers}; make them equal"
        )


def parse_schedule(text: object, examples: Mapping[str, str], what: str) -> Schedule | None:
    """Return the schedule of a text such as `openelm(0.5, 1.0)`; None if the text is not a schedule.

    Args:
        text: the declared value.
        examples: the known schedules by name, each as a call with the largest number of arguments; those behind a `;`
            may be left out.
        what: the key, for errors.

    Raises:
        DeclarationError: if the schedule is unknown, or its numbers are wrong.

    Examples:
        >>> parse_schedule("linear(4, 16)", {"linear": "linear(4, 16)"}, "n_heads")
        Schedule(name='linear', numbers=(4.0, 16.0))
        >>> parse_schedule("4-8-16", {"linear": "linear(4, 16)"}, "n_heads")
    """
    match = re.fullmatch(r"\s*([A-Za-z]+)\s*\(([^()]*)\)\s*", text) if isinstance(text, str) else None
    if not match:
        return None
    name = match[1]
    if name not in examples:
        raise DeclarationError(f"{what}: there is no schedule {name!r}; {near(name, examples)}")
    example = examples[name].replace(";", ",")
    least, most = examples[name].partition(";")[0].count(",") + 1, example.count(",") + 1
    try:
        numbers = tuple(map(float, match[2].split(",")))
    except ValueError:
        numbers = ()
    if not least <= len(numbers) <= most or not all(math.isfinite(n) and n > 0 for n in numbers):
        count = f"{most}" if least == most else f"{least} or {most}"
        raise DeclarationError(
            f"{what} {text}: {name} takes {count} positive number{'s' * (count != '1')}, as in {example}"
        )
    return Schedule(name, numbers)


LARGEST_FACTOR = 1_000_000
"""The largest number in the parentheses of a width schedule."""

_WIDTHS = {"openelm": "openelm(0.5, 4.0; 256)", "delight": "delight(2, 4, 8)"}


def widths(value: PerLayer, *, n_layers: int, d_model: int) -> tuple[int, ...]:
    """Return the width of the MLP of each layer; the default is 4 d_model.

    `openelm(0.5, 4.0)` is a multiplier that grows linearly, the width made divisible by 256, or by a third number;
    `delight(2, 4, 8)` is the multiplier m + (N_max / N_min - 1) b / (B - 1) for m, N_min, N_max.

    Raises:
        DeclarationError: if the schedule is unknown, or there are more or fewer numbers than layers.

    Examples:
        >>> widths("openelm(0.5, 4.0)", n_layers=4, d_model=1280)
        (768, 2048, 3584, 5120)
        >>> widths("openelm(0.5, 4.0, 16)", n_layers=4, d_model=64)
        (32, 112, 176, 256)
    """
    schedule = parse_schedule(value, _WIDTHS, "d_mlp")
    if not schedule:
        return tuple(4 * d_model if width is None else width for width in per_layer(value, n_layers, "d_mlp"))
    if any(n > LARGEST_FACTOR for n in schedule.numbers):
        raise DeclarationError(f"d_mlp {value}: no number of a schedule is above {LARGEST_FACTOR:,}; give smaller ones")
    if schedule.name == "openelm":
        first, last, *divisor = schedule.numbers
        if divisor and (divisor[0] < 1 or divisor[0] % 1):
            raise DeclarationError(f"d_mlp {value}: the divisor of widths is a whole number, and {divisor[0]:g} is not")
        return tuple(
            make_divisible(round(beta, 2) * d_model, int(divisor[0]) if divisor else 256)
            for beta in line(first, last, n_layers)
        )
    m, fewest, most = schedule.numbers
    return tuple(max(1, round(beta * d_model)) for beta in line(m, m + most / fewest - 1, n_layers))


def line(first: float, last: float, n_layers: int) -> tuple[float, ...]:
    """Return values on a straight line from the first layer to the last.

    Examples:
        >>> line(1, 2, 3)
        (1.0, 1.5, 2.0)
    """
    return tuple(first + (last - first) * i / max(1, n_layers - 1) for i in range(n_layers))


def make_divisible(value: float, divisor: int) -> int:
    """Return the multiple of `divisor` nearest to a value, at least one and not below 90 % of the value.

    Examples:
        >>> make_divisible(640, 256)
        768
    """
    nearest = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * value else nearest


EXAMPLES = {
    "ascending": "ascending(90)",
    "descending": "descending(90)",
    "constant": "constant(96)",
    "linear": "linear(4, 16)",
    "openelm": "openelm(0.5, 1.0)",
    "delight": "delight(4, 8)",
}
"""The schedules, each with an example."""

MOST_TOTAL = 1_000_000_000
"""The largest number in the parentheses of a schedule of heads."""

MOST_DOUBLINGS = 30
"""The largest number of layers in a schedule that doubles the heads with each layer."""

QUERIES_PER_KV_HEAD = 4
"""Query heads of each KV head in an OpenELM layer."""


def scheduled(schedule: Schedule, *, n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    """Return the layout that a schedule means, as the text of each layer.

    Raises:
        DeclarationError: when a total cannot be shared so, naming those that can, or OpenELM has no d_head.

    Examples:
        >>> scheduled(Schedule("delight", (4.0, 8.0)), n_layers=8, d_model=64, d_head=8)
        ['4', '4', '5', '5', '6', '6', '7', '8']
    """
    if any(n > MOST_TOTAL for n in schedule.numbers):
        raise DeclarationError(
            f"n_heads {schedule.name}(...): {max(schedule.numbers):g} was given; give {MOST_TOTAL:,} or less"
        )
    match schedule.name:
        case "ascending" | "descending" | "constant":
            if schedule.name != "constant" and n_layers > MOST_DOUBLINGS:
                raise DeclarationError(
                    f"n_heads {schedule.name}(...): with {n_layers:,} layers, numbers of heads differ by a factor of "
                    f"2^{n_layers - 1}; take {MOST_DOUBLINGS} layers or fewer, or another schedule"
                )
            shares = [1 if schedule.name == "constant" else 2**i for i in range(n_layers)]
            shares = shares[::-1] if schedule.name == "descending" else shares
            heads = _shared(schedule, shares, None if d_head else d_model)
        case "openelm":
            return _openelm(schedule, n_layers, d_model, d_head)
        case _:
            # In floor(), a sum such as 3.9999999996 is meant to be 4.
            first, last = schedule.numbers
            wanted = [math.floor(n + 1e-9) for n in line(first, last, n_layers)]
            every = divisors(d_model)
            heads = [max(1, n) if d_head else every[bisect_right(every, max(1, n)) - 1] for n in wanted]
    return list(map(str, heads))


def _shared(schedule: Schedule, shares: Sequence[int], d_model: int | None) -> list[int]:
    """Return a total shared over the layers; where `d_model` is given, each number of heads must divide it."""
    (total,) = schedule.numbers
    asked = total / sum(shares)
    if asked % 1 == 0 and (d_model is None or d_model % (int(asked) * max(shares)) == 0):
        return [int(asked) * share for share in shares]
    if d_model is None:
        units = list(filter(None, (math.floor(asked), math.floor(asked) + 1)))
    elif d_model % max(shares):
        raise DeclarationError(
            f"n_heads {schedule.name}({total:g}): over {len(shares)} layers one has {max(shares)} times the heads of "
            f"another, which does not divide d_model {d_model}; take fewer layers, or write the layout"
        )
    else:
        units = divisors_near(d_model // max(shares), asked)
    layouts = [f"{unit * sum(shares)} ({shortened('-'.join(str(unit * share) for share in shares))})" for unit in units]
    raise DeclarationError(
        f"n_heads {schedule.name}({total:g}): {total:g} heads cannot be shared as "
        f"{shortened('-'.join(map(str, shares)))}{'' if d_model is None else f' into divisors of {d_model}'}; "
        f"{' and '.join(layouts)} can"
    )


def _openelm(schedule: Schedule, n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    if d_head is None:
        raise DeclarationError("n_heads openelm(...) keeps d_head and varies the heads; give model.d_head, such as 64")
    first, last = schedule.numbers
    alphas = [round(alpha, 2) for alpha in line(first, last, n_layers)]
    heads = [make_divisible(alpha * d_model, QUERIES_PER_KV_HEAD * d_head) // d_head for alpha in alphas]
    return [f"{n}:{n // QUERIES_PER_KV_HEAD}" for n in heads]


def divisors_near(number: int, asked: float) -> list[int]:
    """Return the nearest divisors of a number below and above a given one.

    Examples:
        >>> divisors_near(768, 50)
        [48, 64]
    """
    every = divisors(number)
    return [d for d in every if d < asked][-1:] + [d for d in every if d > asked][:1]


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, ascending.

    Examples:
        >>> divisors(12)
        [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


HeadCounts = int | str | tuple[int, ...]
"""Query heads as they are declared: a number, a list with one number a layer, or text (a layout or a schedule)."""

MOST_HEADS = 65_536
"""The most heads of a layer; more is a typing error, which would only show as a full memory."""

MOST_IN_ALL = 1_000_000
"""The most heads of all layers together."""


@dataclass(frozen=True, kw_only=True)
class LayerHeads:
    """The heads of one layer: `queries` counts the query heads of each KV head; an empty one means no attention."""

    queries: tuple[int, ...]
    d_head: int

    def __post_init__(self) -> None:
        if any(n < 1 for n in self.queries) or (self.d_head < 1 if self.queries else self.d_head != 0):
            raise DeclarationError(
                f"a layer of {list(self.queries)} query heads per KV head and d_head {self.d_head}: heads and d_head "
                "are 1 or more, and a layer without heads has d_head 0"
            )

    @property
    def n_heads(self) -> int:
        """The number of query heads."""
        return sum(self.queries)

    @property
    def n_kv_heads(self) -> int:
        """The number of KV heads."""
        return len(self.queries)

    @property
    def q_width(self) -> int:
        """The width of all queries together."""
        return self.n_heads * self.d_head

    @property
    def kv_width(self) -> int:
        """The width of all keys together, and that of all values."""
        return self.n_kv_heads * self.d_head

    @property
    def kv_of(self) -> tuple[int, ...]:
        """The KV head of each query head."""
        return tuple(kv for kv, count in enumerate(self.queries) for _ in range(count))


@dataclass(frozen=True, kw_only=True)
class HeadLayout:
    """The heads of every layer of a model of width `d_model`."""

    d_model: int
    layers: tuple[LayerHeads, ...]

    @property
    def n_heads(self) -> tuple[int, ...]:
        """The number of query heads of each layer."""
        return tuple(layer.n_heads for layer in self.layers)

    @property
    def total(self) -> int:
        """The number of number of query heads in all layers."""
        return sum(self.n_heads)

    @property
    def scheme(self) -> str | None:
        """The change of the number of heads from layer to layer; None if the number goes up and down.

        Examples:
            >>> [HeadLayout.parse(text, 48).scheme for text in ("2-4-8", "4-4-4", "8-4-4", "4-8-4")]
            ['ascending', 'constant', 'descending', None]
        """
        heads = list(self.n_heads)
        if len(set(heads)) == 1:
            return "constant"
        if heads == sorted(heads):
            return "ascending"
        return "descending" if heads == sorted(heads, reverse=True) else None

    def __str__(self) -> str:
        return "-".join(map(self._text, self.layers))

    def _text(self, layer: LayerHeads) -> str:
        if not layer.queries:
            return "0"
        if len(set(layer.queries)) > 1:
            text = "+".join(map(str, layer.queries))
        else:
            text = f"{layer.n_heads}" + ("" if layer.queries[0] == 1 else f":{layer.n_kv_heads}")
        return text if layer.q_width == self.d_model else f"{text}x{layer.d_head}"

    @classmethod
    def parse(cls, text: str, d_model: int) -> "HeadLayout":
        """Return the layout of a text that `str` wrote.

        Raises:
            DeclarationError: when it is no layout, or heads do not divide.

        Examples:
            >>> str(HeadLayout.parse("24-12:4-7x64-0", 768))
            '24-12:4-7x64-0'
        """
        return cls._of(text.split("-"), d_model, None)

    @classmethod
    def resolve(
        cls, n_heads: HeadCounts, *, n_layers: int, d_model: int, n_kv_heads: PerLayer = None, d_head: int | None = None
    ) -> "HeadLayout":
        """Return the layout that a declaration means.

        Args:
            n_heads: one number for all layers, a list, a layout's text, or a schedule, such as `descending(90)`.
            n_layers: layers.
            d_model: width of the stream.
            n_kv_heads: KV heads, alike; None: as many as query heads, or as the text says.
            d_head: width of every head; None: d_model / n_heads.

        Raises:
            DeclarationError: naming the nearest layouts that divide.

        Examples:
            >>> str(HeadLayout.resolve("descending(90)", n_layers=4, d_model=768))
            '48-24-12-6'
            >>> str(HeadLayout.resolve("openelm(0.5, 1.0)", n_layers=4, d_model=1280, d_head=64))
            '12:3x64-16:4x64-16:4x64-20:5'
        """
        schedule = parse_schedule(n_heads, EXAMPLES, "n_heads")
        if schedule:
            parts = scheduled(schedule, n_layers=n_layers, d_model=d_model, d_head=d_head)
        elif isinstance(n_heads, str):
            parts = list(map(str.strip, n_heads.split("-")))
            parts = parts * n_layers if len(parts) == 1 else parts
            check_layers(parts, n_layers, f"n_heads {shortened(repr(n_heads))}")
        else:
            parts = list(map(str, per_layer(n_heads, n_layers, "n_heads", smallest=0)))
        kv = per_layer(n_kv_heads, n_layers, "n_kv_heads")
        return cls._of([_with_kv(part, n) for part, n in zip(parts, kv, strict=True)], d_model, d_head)

    @classmethod
    def _of(cls, parts: list[str], d_model: int, d_head: int | None) -> "HeadLayout":
        try:
            different = {part: _layer(part, d_model, d_head) for part in dict.fromkeys(parts)}
            if sum(different[part].n_heads for part in parts) > MOST_IN_ALL:
                raise DeclarationError(
                    f"n_heads {shortened(_joined(parts))}: a model has at most {MOST_IN_ALL:,} heads in all; give fewer"
                )
            return cls(d_model=d_model, layers=tuple(different[part] for part in parts))
        except _Indivisible as error:
            raise DeclarationError(
                f"n_heads {shortened(_joined(parts))}: {error}{_nearest_layouts(parts, d_model)}"
            ) from None


class _Indivisible(DeclarationError):
    """An error: heads of a layer that do not divide d_model."""

    def __init__(self, d_model: int, heads: int) -> None:
        near = divisors_near(d_model, heads)
        verb = "are" if len(near) > 1 else "is"
        super().__init__(f"{d_model} is not divisible by {heads}; {' and '.join(map(str, near))} {verb}")


def _joined(parts: list[str]) -> str:
    return parts[0] if len(set(parts)) == 1 else "-".join(parts)


def _nearest_layouts(parts: list[str], d_model: int) -> str:
    """Return advice for heads that differ by layer: each layer that does not divide d_model lowered, or raised."""
    if len(set(parts)) == 1 or not all(part.isdecimal() and int(part) for part in parts):
        return ""
    ends = ([divisors_near(d_model, int(p))[end] if d_model % int(p) else int(p) for p in parts] for end in (0, -1))
    layouts = dict.fromkeys(shortened("-".join(map(str, heads))) for heads in ends)
    return f"; the nearest layout{'s are' if len(layouts) > 1 else ' is'} {' and '.join(layouts)}"


def _with_kv(part: str, n_kv_heads: int | None) -> str:
    if n_kv_heads is None or part == "0":
        return part
    if ":" in part or "+" in part:
        raise DeclarationError(f"n_heads {part!r} names KV heads already; leave out n_kv_heads")
    heads, x, width = part.partition("x")
    return f"{heads}:{n_kv_heads}{x}{width}"


_LAYER = re.compile(
    r"(?:(?P<heads>[0-9]{1,9})(?::(?P<kv>[0-9]{1,9}))?|(?P<queries>[0-9]{1,9}(?:\+[0-9]{1,9})+))(?:x(?P<width>[0-9]{1,9}))?"
)


def _layer(part: str, d_model: int, d_head: int | None) -> LayerHeads:
    match = _LAYER.fullmatch(part)
    if not match:
        raise DeclarationError(
            f"n_heads: {shortened(repr(part))} is not a layer; join layers by dashes, each as 12, 8:2 (KV heads), 7x64 "
            "(d_head), 4+3 (query heads of each KV head) or 0, or give a schedule such as descending(90)"
        )
    queries = _queries(part, match)
    if not queries:
        return LayerHeads(queries=(), d_head=0)
    heads, width = sum(queries), int(match["width"]) if match["width"] else d_head
    if width == 0:
        raise DeclarationError(f"n_heads {part!r}: d_head 0 is not a width; give 1 or more")
    if width is None:
        if d_model % heads:
            raise _Indivisible(d_model, heads)
        width = d_model // heads
    return LayerHeads(queries=queries, d_head=width)


def _queries(part: str, found: re.Match[str]) -> tuple[int, ...]:
    """Return the query heads of each KV head."""
    if found["queries"]:
        queries = tuple(map(int, found["queries"].split("+")))
        if 0 in queries:
            raise DeclarationError(f"n_heads {part!r}: a KV head without query heads; leave it out")
        heads = sum(queries)
    else:
        heads = int(found["heads"])
        kv = heads if found["kv"] is None else int(found["kv"])
        queries = ()
    if heads > MOST_HEADS:
        raise DeclarationError(f"n_heads {part!r}: a layer has at most {MOST_HEADS:,} heads; give fewer")
    if queries or not heads:
        return queries
    if kv == 0 or heads % kv:
        near = divisors_near(heads, kv)
        raise DeclarationError(
            f"n_heads {part!r}: {heads} query heads cannot share {kv} KV heads evenly; "
            f"{' and '.join(map(str, near))} can"
        )
    return (heads // kv,) * kv

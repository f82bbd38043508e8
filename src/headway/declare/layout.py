"""Declare: how many heads each layer has, and how wide they are.

A layout is resolved: per layer the query heads of each KV head, and d_head. Its text is what people write:
`24-12-6-3` where n_heads d_head = d_model, `8:2-8:2` with KV heads, `7x64-3x256` with d_head, `4+3:2` query heads of
each KV head where they are unequal, `0` for a layer without attention. Schedules are short for a layout; they are
resolved against the number of layers and the width.

Paper: Mehta et al. 2024 (OpenELM, arXiv 2404.14619); Mehta et al. 2021 (DeLighT, arXiv 2008.00623), whose depth of
a block is a number of heads here.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from headway.declare.layers import PerLayer, make_divisible, per_layer
from headway.errors import DeclarationError, near


@dataclass(frozen=True, kw_only=True)
class LayerHeads:
    """The heads of one layer: `queries` counts the query heads of each KV head; none at all is no attention."""

    queries: tuple[int, ...]
    d_head: int

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return sum(self.queries)

    @property
    def n_kv_heads(self) -> int:
        """KV heads."""
        return len(self.queries)


@dataclass(frozen=True, kw_only=True)
class HeadLayout:
    """The heads of every layer of a model of width `d_model`."""

    d_model: int
    layers: tuple[LayerHeads, ...]

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer."""
        return tuple(layer.n_heads for layer in self.layers)

    @property
    def total(self) -> int:
        """Query heads of all layers."""
        return sum(self.n_heads)

    def __str__(self) -> str:
        return "-".join(self._text(layer) for layer in self.layers)

    def _text(self, layer: LayerHeads) -> str:
        if not layer.queries:
            return "0"
        if len(set(layer.queries)) > 1:
            text = "+".join(map(str, layer.queries))
        else:
            text = f"{layer.n_heads}" + ("" if layer.queries[0] == 1 else f":{layer.n_kv_heads}")
        return text if layer.n_heads * layer.d_head == self.d_model else f"{text}x{layer.d_head}"

    @classmethod
    def parse(cls, text: str, d_model: int) -> "HeadLayout":
        """The layout that `str` wrote.

        Raises:
            DeclarationError: when it is no layout, or heads do not divide.

        Examples:
            >>> str(HeadLayout.parse("24-12:4-7x64-0", 768))
            '24-12:4-7x64-0'
        """
        return cls(d_model=d_model, layers=tuple(_layer(part, d_model, None) for part in text.split("-")))

    @classmethod
    def resolve(
        cls,
        n_heads: PerLayer,
        *,
        n_layers: int,
        d_model: int,
        n_kv_heads: PerLayer = None,
        d_head: int | None = None,
    ) -> "HeadLayout":
        """The layout that a declaration means.

        Args:
            n_heads: one number for all layers, a list, a layout's text, or a schedule: `ascending(90)`,
                `descending(90)` and `constant(96)` of a total (each layer twice, half, as many as the one before),
                `linear(4, 16)` from the first layer to the last, `openelm(0.5, 1.0)` and `delight(4, 8)`.
            n_layers: layers.
            d_model: width of the stream.
            n_kv_heads: KV heads, alike; None: as many as query heads.
            d_head: width of every head; None: d_model / n_heads.

        Raises:
            DeclarationError: naming the nearest layouts that divide.

        Examples:
            >>> str(HeadLayout.resolve("descending(90)", n_layers=4, d_model=768))
            '48-24-12-6'
            >>> str(HeadLayout.resolve("openelm(0.5, 1.0)", n_layers=4, d_model=1280, d_head=64))
            '12:3x64-12:3x64-16:4x64-20:5'
        """
        schedule = re.fullmatch(r"\s*([a-z]+)\s*\(([^()]*)\)\s*", n_heads) if isinstance(n_heads, str) else None
        if schedule:
            parts = _scheduled(schedule[1], schedule[2], n_layers, d_model, d_head)
        elif isinstance(n_heads, str):
            parts = [part.strip() for part in n_heads.split("-")]
            parts = parts * n_layers if len(parts) == 1 else parts
            if len(parts) != n_layers:
                raise DeclarationError(
                    f"n_heads {n_heads!r} names {len(parts)} layers, but n_layers is {n_layers}; make them equal"
                )
        else:
            parts = [str(n) for n in per_layer(n_heads, n_layers, "n_heads")]
        kv = per_layer(n_kv_heads, n_layers, "n_kv_heads")
        joined = [_with_kv(part, n) for part, n in zip(parts, kv, strict=True)]
        return cls(d_model=d_model, layers=tuple(_layer(part, d_model, d_head) for part in joined))


def _with_kv(part: str, n_kv_heads: int | None) -> str:
    if n_kv_heads is None or part == "0":
        return part
    if ":" in part or "+" in part:
        raise DeclarationError(f"n_heads {part!r} names KV heads already; leave out n_kv_heads")
    heads, x, width = part.partition("x")
    return f"{heads}:{n_kv_heads}{x}{width}"


_LAYER = re.compile(r"(?:(?P<heads>\d+)(?::(?P<kv>\d+))?|(?P<queries>\d+(?:\+\d+)+))(?:x(?P<width>\d+))?")


def _layer(part: str, d_model: int, d_head: int | None) -> LayerHeads:
    found = _LAYER.fullmatch(part)
    if not found:
        raise DeclarationError(
            f"n_heads: {part!r} is no layer; write 12, 8:2 (KV heads), 7x64 (d_head), 4+3 (query heads of each KV "
            "head) or 0 (no attention), layers joined by dashes, or a schedule such as descending(90)"
        )
    if found["queries"]:
        queries = tuple(int(n) for n in found["queries"].split("+"))
        if 0 in queries:
            raise DeclarationError(f"n_heads {part!r}: a KV head without query heads; leave it out")
        heads = sum(queries)
    else:
        heads = int(found["heads"])
        kv = heads if found["kv"] is None else int(found["kv"])
        if heads and (kv == 0 or heads % kv):
            raise DeclarationError(
                f"{heads} query heads cannot share {kv} KV heads evenly; {_nearest(heads, kv)} KV heads can"
            )
        queries = (heads // kv,) * kv if heads else ()
    if not heads:
        return LayerHeads(queries=(), d_head=0)
    width = int(found["width"]) if found["width"] else d_head
    if width == 0:
        raise DeclarationError(f"n_heads {part!r}: d_head 0 is no width; give 1 or more")
    if width is None:
        if d_model % heads:
            raise DeclarationError(f"{d_model} is not divisible by {heads}; {_nearest(d_model, heads)} are")
        width = d_model // heads
    return LayerHeads(queries=queries, d_head=width)


def _nearest(number: int, asked: int) -> str:
    """The divisors of a number on both sides of the one that was asked for."""
    divisors = _divisors(number)
    below = [d for d in divisors if d < asked][-1:]
    above = [d for d in divisors if d > asked][:1]
    return " and ".join(map(str, below + above))


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _scheduled(name: str, arguments: str, n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    if name not in _SCHEDULES:
        raise DeclarationError(f"n_heads: there is no schedule {name!r}; {near(name, _SCHEDULES)}")
    count, schedule = _SCHEDULES[name]
    try:
        numbers = [float(argument) for argument in arguments.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(math.isfinite(n) and n > 0 for n in numbers):
        example = f"{name}({'90' if count == 1 else '0.5, 1.0' if name == 'openelm' else '4, 8'})"
        raise DeclarationError(f"n_heads {name}({arguments}): {name} takes {count} positive numbers, as in {example}")
    return schedule(numbers, n_layers, d_model, d_head)


def _doubling(numbers: list[float], n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    return [str(n) for n in _of_total(numbers[0], [2**i for i in range(n_layers)], "ascending")]


def _halving(numbers: list[float], n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    return [str(n) for n in _of_total(numbers[0], [2**i for i in reversed(range(n_layers))], "descending")]


def _constant(numbers: list[float], n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    return [str(n) for n in _of_total(numbers[0], [1] * n_layers, "constant")]


def _of_total(total: float, shares: list[int], name: str) -> list[int]:
    unit, rest = divmod(total, sum(shares))
    if rest:
        totals = [int(n) * sum(shares) for n in (unit, unit + 1) if n]
        raise DeclarationError(
            f"{name}({total:g}): {total:g} heads cannot be shared as {'-'.join(map(str, shares))}; "
            f"totals of {' and '.join(map(str, totals))} can"
        )
    return [int(unit) * share for share in shares]


def _linear(numbers: list[float], n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    # In floor(), a sum such as 3.9999999996 is meant to be 4.
    steps = max(1, n_layers - 1)
    wanted = [math.floor(numbers[0] + (numbers[1] - numbers[0]) * i / steps + 1e-9) for i in range(n_layers)]
    return [str(max(1, n) if d_head else _lowered(n, d_model)) for n in wanted]


def _lowered(heads: int, d_model: int) -> int:
    return max(d for d in _divisors(d_model) if d <= max(1, heads))


def _openelm(numbers: list[float], n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    if d_head is None:
        raise DeclarationError("n_heads openelm(...) keeps d_head and varies the heads; give model.d_head, such as 64")
    first, last = numbers
    alphas = [round(first + (last - first) * i / max(1, n_layers - 1), 2) for i in range(n_layers)]
    heads = [make_divisible(alpha * d_model, 4 * d_head) // d_head for alpha in alphas]
    return [f"{n}:{n // 4}" for n in heads]


_SCHEDULES: dict[str, tuple[int, Callable[[list[float], int, int, int | None], list[str]]]] = {
    "ascending": (1, _doubling),
    "descending": (1, _halving),
    "constant": (1, _constant),
    "linear": (2, _linear),
    "openelm": (2, _openelm),
    "delight": (2, _linear),  # N_b = floor(N_min + (N_max - N_min) b / (B - 1)) is the same line
}

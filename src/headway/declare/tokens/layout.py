"""Declare: how many heads each layer has, and how wide they are.

A layout is resolved: per layer the query heads of each KV head, and d_head. Its text is what people write:
`24-12-6-3` where n_heads d_head = d_model, `8:2-8:2` with KV heads, `7x64-3x256` with d_head, `4+3` query heads of
each KV head where they are unequal, `0` for a layer without attention. Schedules (`schedules.py`) are short for a
layout.
"""

import re
from dataclasses import dataclass

from headway.declare.tokens.layers import PerLayer, check_layers, per_layer, schedule_in
from headway.declare.tokens.schedules import EXAMPLES, divisors_near, scheduled
from headway.errors import DeclarationError, shortened

HeadCounts = int | str | tuple[int, ...]
"""Query heads as they are declared: a number, a list with one a layer, or text: a layout or a schedule."""

MOST_HEADS = 65_536
"""In a layer. More is a slip of the finger, which would only show as a full memory."""

MOST_IN_ALL = 1_000_000
"""In all layers, for the same reason."""


@dataclass(frozen=True, kw_only=True)
class LayerHeads:
    """The heads of one layer: `queries` counts the query heads of each KV head; none at all is no attention."""

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

    @property
    def scheme(self) -> str | None:
        """What the number of heads does from layer to layer; None when it goes up and down.

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
        return cls._of(text.split("-"), d_model, None)

    @classmethod
    def resolve(
        cls,
        n_heads: HeadCounts,
        *,
        n_layers: int,
        d_model: int,
        n_kv_heads: PerLayer = None,
        d_head: int | None = None,
    ) -> "HeadLayout":
        """The layout that a declaration means.

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
        schedule = schedule_in(n_heads, EXAMPLES, "n_heads")
        if schedule:
            parts = scheduled(schedule, n_layers=n_layers, d_model=d_model, d_head=d_head)
        elif isinstance(n_heads, str):
            parts = [part.strip() for part in n_heads.split("-")]
            parts = parts * n_layers if len(parts) == 1 else parts
            check_layers(parts, n_layers, f"n_heads {shortened(repr(n_heads))}")
        else:
            parts = [str(n) for n in per_layer(n_heads, n_layers, "n_heads", smallest=0)]
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
    """Heads of a layer that do not divide d_model."""

    def __init__(self, d_model: int, heads: int) -> None:
        near = divisors_near(d_model, heads)
        verb = "are" if len(near) > 1 else "is"
        super().__init__(f"{d_model} is not divisible by {heads}; {' and '.join(map(str, near))} {verb}")


def _joined(parts: list[str]) -> str:
    return parts[0] if len(set(parts)) == 1 else "-".join(parts)


def _nearest_layouts(parts: list[str], d_model: int) -> str:
    """Advice for plain heads that differ by layer: each layer that does not divide lowered, or raised."""
    if len(set(parts)) == 1 or not all(part.isdecimal() and int(part) for part in parts):
        return ""
    ends = ([_near_or_same(d_model, int(p), end) for p in parts] for end in (0, -1))
    layouts = dict.fromkeys(shortened("-".join(map(str, heads))) for heads in ends)
    return f"; the nearest layout{'s are' if len(layouts) > 1 else ' is'} {' and '.join(layouts)}"


def _near_or_same(d_model: int, heads: int, end: int) -> int:
    return divisors_near(d_model, heads)[end] if d_model % heads else heads


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
    found = _LAYER.fullmatch(part)
    if not found:
        raise DeclarationError(
            f"n_heads: {shortened(repr(part))} is no layer; write 12, 8:2 (KV heads), 7x64 (d_head), 4+3 (query heads "
            "of each KV head) or 0 (no attention), layers joined by dashes, or a schedule such as descending(90)"
        )
    queries = _queries(part, found)
    if not queries:
        return LayerHeads(queries=(), d_head=0)
    heads, width = sum(queries), int(found["width"]) if found["width"] else d_head
    if width == 0:
        raise DeclarationError(f"n_heads {part!r}: d_head 0 is no width; give 1 or more")
    if width is None:
        if d_model % heads:
            raise _Indivisible(d_model, heads)
        width = d_model // heads
    return LayerHeads(queries=queries, d_head=width)


def _queries(part: str, found: re.Match[str]) -> tuple[int, ...]:
    """The query heads of each KV head."""
    if found["queries"]:
        queries = tuple(int(n) for n in found["queries"].split("+"))
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

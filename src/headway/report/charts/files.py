"""Figures as files."""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headway.base.files import derived, refuse_link, write_bytes
from headway.errors import UserError
from headway.report.charts.figure import Figure

FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0


def write_figures(
    folder: Path, drawn: Sequence[Figure], *, follow: Callable[[Sequence[Figure]], Iterable[Figure]] = iter
) -> tuple[Path, ...]:
    """Write figures to `NAME.FORMAT` in a folder, each file whole or not at all; their paths.

    A figure that moves is written as `NAME.gif`, too. Other files in the folder are left alone.

    Args:
        folder: the folder, which is made if need be.
        drawn: the figures.
        follow: the function that goes through the figures while they are written, to show progress.

    Raises:
        ResultsError: when a file cannot be written.
    """
    refuse_link(folder)
    return tuple(path for figure in follow(drawn) for path in _draw(folder, figure))


def _draw(folder: Path, figure: Figure) -> Iterator[Path]:
    svg = render(figure.spec)
    for kind in FORMATS:
        yield write_whole(folder / f"{figure.name}.{kind}", convert(svg, kind))
    if figure.animation is not None:
        yield write_whole(folder / f"{figure.name}.gif", figure.animation())


_ADDRESSES = 66 << 30
"""Bytes of addresses, not of memory, that the JavaScript engine of vl_convert reserves at once when it starts."""


@cache
def why_not_drawn() -> str:
    """Return why this process cannot draw figures; empty if it can.

    vl_convert ends the process if it cannot reserve its addresses, so that is tried first.
    """
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        mmap.mmap(-1, _ADDRESSES, flags=flags, prot=0).close()
    except OSError:
        return (
            f"figures are left out: the drawing library vl_convert reserves {_ADDRESSES / 2**30:.0f} GiB of address "
            "space (not memory), but this shell or job allows less. Remove the limit with `ulimit -v unlimited`, or in "
            "the scheduler, and run `headway report` again"
        )
    return ""


def check_drawable() -> None:
    """Raise UserError if this process cannot draw figures."""
    if why := why_not_drawn():
        raise UserError(why.replace("figures are left out", "nothing can be drawn").replace("`headway report`", "this"))


def render(spec: dict[str, Any]) -> str:
    """A Vega-Lite specification drawn as SVG: the slow part, from which the other formats are made."""
    check_drawable()
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


def convert(svg: str, kind: str) -> bytes:
    """An SVG as the bytes of a png, svg or pdf."""
    import vl_convert

    if kind == "svg":
        return svg.encode()
    if kind == "pdf":
        return bytes(vl_convert.svg_to_pdf(svg))
    return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file so that a reader finds the former one or the new one, and never a part.

    Raises:
        ResultsError: when it cannot be written; the former file is then as it was.
    """
    with derived(path):
        write_bytes(path, content)
    return path

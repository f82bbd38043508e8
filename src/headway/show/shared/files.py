"""Show: figures as files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headway.errors import UserError, near
from headway.files import derived, replacing
from headway.show.shared.figure import Figure

FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0


def write_figures(folder: Path, drawn: Iterable[Figure], formats: Iterable[str] = FORMATS) -> tuple[Path, ...]:
    """Write figures to `NAME.FORMAT` in a folder, each file whole or not at all; their paths.

    One that moves is written as `NAME.gif` as well, whatever the formats.

    Raises:
        UserError: for a format that is not among png, svg and pdf.
        ResultsError: when a file cannot be written.
    """
    wanted = tuple(formats)
    for name in wanted:
        if name not in FORMATS:
            raise UserError(f"figures cannot be written as {name!r}; {near(name, FORMATS)}")
    paths = []
    for figure in drawn:
        svg = render(figure.spec)
        paths += [write_whole(folder / f"{figure.name}.{name}", convert(svg, name)) for name in wanted]
        if figure.animation is not None:
            paths.append(write_whole(folder / f"{figure.name}.gif", figure.animation()))
    return tuple(paths)


def render(spec: dict[str, Any]) -> str:
    """A Vega-Lite specification drawn as SVG: the slow part, from which the other formats are made."""
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
    with derived(path), replacing(path) as temporary:
        temporary.write_bytes(content)
    return path

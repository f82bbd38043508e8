"""A page: one HTML file that holds its figures and all scripts that draw them, and fetches nothing.

Its content security policy names Headway's scripts by their hashes. So a browser runs no other script in the page,
turns no text into code, and contacts no address.

A `Table` of a page is text in rows; its cells are ready to be read. `write_figures` writes the figures of a page as
files.
"""

import base64
import hashlib
import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.files import derived, refuse_link, write_bytes
from headway.base.identity import grouped
from headway.base.text import capital, escape_controls
from headway.errors import UserError
from headway.report.charts.figure import Figure

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, drawn: Sequence[Figure], **content: Any) -> str:
    """A template as HTML, with its figures by part under `parts`."""
    from markupsafe import Markup

    environment = templates()
    scripts = (_vega(), environment.get_template("draw.js.j2").render()) if drawn else ()
    return environment.get_template(template).render(
        parts=grouped(drawn, lambda figure: figure.part),
        charts=script_data({figure.name: figure.spec for figure in drawn}),
        scripts=[Markup(script) for script in scripts],
        policy=Markup(policy(scripts)),
        anchor=lambda title: title.lower().replace(" ", "-"),
        **content,
    )


def templates() -> "Environment":
    """Return the template environment; templates receive text, and every character of the text is visible."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("headway", "report/templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=lambda value: unbroken(escape_controls(value)) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = whole
    environment.filters["capital"] = capital
    return environment


def unbroken(text: str) -> str:
    r"""Return a text in which no line ends before a per cent sign.

    Examples:
        >>> unbroken("2 % and 3 %")
        '2\xa0% and 3\xa0%'
    """
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def whole(text: str) -> "Markup":
    """Return a text in which no line ends within a layout of heads.

    Examples:
        >>> whole("1-2-4-8 loses < 1")
        Markup('<span class="whole">1-2-4-8</span> loses &lt; 1')
    """
    from markupsafe import Markup, escape

    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', str(escape(unbroken(escape_controls(text))))))


_WHOLE = re.compile(r"\(?\d+(?:-\d+)+\)?")


def policy(scripts: Sequence[str]) -> str:
    """The content security policy of a page with these scripts and no others.

    Vega sets styles, and makes pictures that one saves from data in the page.
    """
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts]
    allowed = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


@cache
def _vega() -> str:
    """Return the scripts of Vega, exactly as they stand in a page."""
    check_drawable()
    import vl_convert

    # The bundle declares names; in a function they stay out of the page's. It sets window.vegaEmbed itself.
    script = f"(function () {{\n{vl_convert.javascript_bundle()}\n}})();\n"  # type: ignore[call-arg]  # a wrong stub
    # A browser reads every line's end as one character, and hashes what it read.
    return script.replace("\r\n", "\n").replace("\r", "\n")


def script_data(value: Mapping[str, Any]) -> "Markup":
    """JSON that can stand inside a script element: nothing in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@dataclass(frozen=True, kw_only=True)
class Row:
    """Cells, of which the first names the row; `colour` marks an arm or a head, `quiet` a row to compare with."""

    cells: tuple[str, ...]
    colour: str | None = None
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a caption; `hints` explains a column."""

    columns: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)


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
    svg = svg_of(figure.spec)
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


def svg_of(spec: dict[str, Any]) -> str:
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

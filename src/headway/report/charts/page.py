"""A page: one HTML file that holds its figures and all scripts that draw them, and fetches nothing.

Its content security policy names Headway's scripts by their hashes. So a browser runs no other script in the page,
turns no text into code, and contacts no address.

A `Table` of a page is text in rows; its cells are ready to be read.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from headway.base.text import escape_controls
from headway.report.charts.figure import Figure
from headway.report.charts.files import check_drawable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, drawn: Sequence[Figure], **content: Any) -> str:
    """A template as HTML, with its figures by part under `parts`."""
    from markupsafe import Markup

    environment = templates()
    scripts = (_vega(), environment.get_template("draw.js.j2").render()) if drawn else ()
    parts: dict[str, list[Figure]] = {}
    for figure in drawn:
        parts.setdefault(figure.part, []).append(figure)
    return environment.get_template(template).render(
        parts=parts,
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

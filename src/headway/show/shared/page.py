"""Show: a page is one HTML file that holds its figures and all that draws them, and fetches nothing."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headway.show.shared.figure import Figure

if TYPE_CHECKING:
    from markupsafe import Markup


def render(template: str, drawn: Sequence[Figure], **content: Any) -> str:
    """A template as HTML, with its figures by part under `parts`."""
    import vl_convert
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("headway", "show/templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    parts: dict[str, list[Figure]] = {}
    for figure in drawn:
        parts.setdefault(figure.part, []).append(figure)
    return environment.get_template(template).render(
        parts=parts,
        charts=script_data({figure.name: figure.spec for figure in drawn}),
        vega=Markup(vl_convert.javascript_bundle()),  # type: ignore[call-arg]  # its stub is wrong
        anchor=lambda title: title.lower().replace(" ", "-"),
        **content,
    )


def script_data(value: Mapping[str, Any]) -> "Markup":
    """JSON that can stand inside a script element: nothing in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))

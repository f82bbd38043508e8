"""Show: the page of a finished model, and the files beside it."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.files import derived, write_json
from headway.heads.names import metric_name
from headway.heads.scores import to_arrays
from headway.heads.xray import XRay
from headway.show.shared.figure import Figure
from headway.show.shared.figure_files import write_figures, write_whole
from headway.show.shared.page import render
from headway.show.shared.table import Row, Table
from headway.show.xray.drawing import figures, heads, layers

NOTHING = "Nothing stands out of untrained heads on the same stream"
HELD = (
    "Heads are held against untrained ones on the same stream: the same layers with fresh weights of the same scale. A "
    "page of a model that learnt nothing has a finding in at most 5 of 100 cases, over all that was looked for."
)

if TYPE_CHECKING:
    import rich.table


def folder_of(xray: XRay, checkpoint: Path) -> Path:
    """Where an x-ray is written if nobody says: a folder of its name that holds no other checkpoint's."""
    places = (Path("results") / f"xray-{xray.name}{'' if n == 1 else f'-{n}'}" for n in count(1))
    return next(place for place in places if _former(place).get("checkpoint", _whole(checkpoint)) == _whole(checkpoint))


def write_xray(xray: XRay, folder: Path, checkpoint: Path, command: str) -> Path:
    """Write `xray.html`, `xray.json`, `heads.safetensors` (every metric in full) and the figures; the page's path.

    Figures of the folder's former x-ray that this one does not have are removed, and nothing else is.

    Args:
        xray: what was found.
        folder: is made.
        checkpoint: what was given.
        command: what to type to repeat it.

    Raises:
        ResultsError: when a file cannot be written.
    """
    from safetensors.numpy import save

    drawn = figures(xray)
    write_whole(folder / "heads.safetensors", save(to_arrays(xray.scores.values())))
    written = [path.relative_to(folder).as_posix() for path in write_figures(folder / "figures", drawn)]
    with derived(folder / "xray.json"):
        former = (name for name in _former(folder).get("figures", ()) if Path(name).parent == Path("figures"))
        for name in set(former) - set(written):
            (folder / name).unlink(missing_ok=True)
        write_json(folder / "xray.json", {**xray.to_json(), "checkpoint": _whole(checkpoint), "figures": written})
    return write_whole(folder / "xray.html", page(xray, drawn, command).encode())


def _former(folder: Path) -> dict[str, Any]:
    """What was written there before."""
    try:
        return dict(json.loads((folder / "xray.json").read_text()))
    except (OSError, ValueError):
        return {}


def _whole(checkpoint: Path) -> str:
    return str(checkpoint.resolve())


def page(xray: XRay, drawn: Sequence[Figure], command: str) -> str:
    """The page as HTML."""
    return render(
        "xray.html.j2",
        drawn,
        xray=xray,
        layers=layers(xray),
        heads=heads(xray),
        nothing=NOTHING,
        held=HELD,
        meaning=_meaning(xray),
        command=command,
    )


def layer_table(xray: XRay) -> "rich.table.Table":
    """The table of layers for a terminal."""
    from rich.table import Table as Terminal

    found = layers(xray)
    drawn = Terminal(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for at, column in enumerate(found.columns):
        longest = max(map(len, column.split()), default=0)
        drawn.add_column(column, justify="right" if at else "left", min_width=longest)
    for row in found.rows:
        drawn.add_row(*row.cells)
    return drawn


def _meaning(xray: XRay) -> Table:
    """The sentence, unit and null of every metric that was measured."""
    rows = [
        Row(cells=(metric_name(name), score.declared.sentence, score.declared.unit, score.declared.null))
        for name, score in xray.scores.items()
    ]
    return Table(columns=("metric", "what it is", "unit", "if nothing were going on"), rows=tuple(rows))

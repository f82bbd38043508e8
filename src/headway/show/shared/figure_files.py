"""Show: figures as files, drawn again only where what they show has changed.

A digest of what each file was drawn from stands beside the files, in `.digests.json`.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headway.errors import UserError, near
from headway.files import derived, replacing, write_json
from headway.identity import digest
from headway.show.shared.figure import Figure

FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0


DIGESTS = ".digests.json"


def write_figures(
    folder: Path, drawn: Iterable[Figure], formats: Iterable[str] = FORMATS, *, state: str = ""
) -> tuple[Path, ...]:
    """Write figures to `NAME.FORMAT` in a folder, each file whole or not at all; their paths.

    One that moves is written as `NAME.gif` as well, whatever the formats. A file that is there and was drawn from the
    same is left alone; one of a figure that is no more is removed.

    Args:
        folder: made if need be.
        drawn: the figures.
        formats: of the files.
        state: names everything that they were made from: what moves is made again only if it changed, or is not given.

    Raises:
        UserError: for a format that is not among png, svg and pdf.
        ResultsError: when a file cannot be written.
    """
    wanted = tuple(formats)
    for name in wanted:
        if name not in FORMATS:
            raise UserError(f"figures cannot be written as {name!r}; {near(name, FORMATS)}")
    every, before = tuple(drawn), read_digests(folder)
    made_from = {figure.name: _digests(figure, wanted, state) for figure in every}
    needed = {file: made for files in made_from.values() for file, made in files.items()}
    current = {f for f, made in needed.items() if made and before.get(f) == made and (folder / f).is_file()}
    for file in [f for f in before if f and f.rpartition(".")[0] not in made_from]:
        (folder / file).unlink(missing_ok=True)
    kept = {f: made for f, made in before.items() if (f not in needed or f in current) and (folder / f).is_file()}
    if kept != before:  # forget what is drawn anew first: who is killed on the way draws it again
        _write_digests(folder, kept)
    for figure in every:
        _draw(folder, figure, [file for file in made_from[figure.name] if file not in current])
    now = {**kept, **needed, **({"": state} if state else {})}
    if now != kept:
        _write_digests(folder, now)
    return tuple(folder / file for file in needed)


def remove_outdated(folder: Path, drawn: Iterable[Figure], state: str) -> None:
    """Remove the files of a folder that `write_figures` would draw anew, or remove; the others are left.

    Raises:
        ResultsError: when what is left cannot be noted.
    """
    before = read_digests(folder)
    needed = {file: made for figure in drawn for file, made in _digests(figure, FORMATS, state).items()}
    outdated = {file for file, made in before.items() if file and needed.get(file) != made}
    if not outdated:
        return
    _write_digests(folder, {file: made for file, made in before.items() if file and file not in outdated})
    for file in outdated:
        (folder / file).unlink(missing_ok=True)


def are_current(folder: Path, state: str) -> bool:
    """Whether a folder holds all its figures, as they were drawn from this state."""
    found = read_digests(folder)
    return found.get("") == state and all((folder / file).is_file() for file in found if file)


def read_digests(folder: Path) -> Mapping[str, str]:
    """What each figure's file was drawn from; under the empty name, from which state all were."""
    try:
        found = json.loads((folder / DIGESTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_digests(folder: Path, digests: Mapping[str, str]) -> None:
    with derived(folder / DIGESTS):
        write_json(folder / DIGESTS, digests)


def _digests(figure: Figure, formats: Iterable[str], state: str) -> dict[str, str]:
    """By file of a figure, what it is drawn from; empty where that is not known."""
    drawn_from = digest({"spec": figure.spec, "by": version("vl-convert-python"), "scale": PNG_SCALE})
    files = {f"{figure.name}.{name}": drawn_from for name in formats}
    moving = digest({"spec": figure.spec, "state": state}) if state else ""
    return files if figure.animation is None else {**files, f"{figure.name}.gif": moving}


def _draw(folder: Path, figure: Figure, files: Iterable[str]) -> None:
    svg = ""
    for file in files:
        kind = file.rpartition(".")[2]
        if kind == "gif":
            assert figure.animation is not None
            write_whole(folder / file, figure.animation())
        else:
            svg = svg or render(figure.spec)
            write_whole(folder / file, convert(svg, kind))


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

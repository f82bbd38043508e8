"""Figures as files, drawn again only if their content has changed.

`.digests.json` beside the files holds digests of the data of each file, and of the file itself. So a file that was
changed or damaged is drawn again.
"""

import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headway.base.files import Content, derived, is_bare, kept_json, refuse_link, remove, write_bytes, write_json
from headway.base.identity import digest
from headway.errors import UserError, near
from headway.report.charts.figure import Figure

FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0


DIGESTS = ".digests.json"
_THEN = ", "
"""Between the digest of what a file was drawn from, and that of what it held."""


def write_figures(
    folder: Path,
    drawn: Iterable[Figure],
    formats: Iterable[str] = FORMATS,
    *,
    state: str = "",
    follow: Callable[[Sequence[Figure]], Iterable[Figure]] = iter,
) -> tuple[Path, ...]:
    """Write figures to `NAME.FORMAT` in a folder, each file whole or not at all; their paths.

    One that moves is written as `NAME.gif` as well, whatever the formats. A file that is there and was drawn from the
    same is left alone; one of a figure that is no more is removed.

    Args:
        folder: made if need be.
        drawn: the figures.
        formats: of the files.
        state: names everything that they were made from: what moves is made again only if it changed, or is not given.
        follow: goes through the figures while they are written, to show how far that is.

    Raises:
        UserError: for a format that is not among png, svg and pdf.
        ResultsError: when a file cannot be written.
    """
    wanted = tuple(formats)
    for name in wanted:
        if name not in FORMATS:
            raise UserError(f"figures cannot be written as {name!r}; {near(name, FORMATS)}")
    every, before = tuple(drawn), read_digests(folder)
    whole = {file: digests.partition(_THEN)[0] for file, digests in before.items() if _is_whole(folder, file, digests)}
    made_from = {figure.name: _digests(figure, wanted, state) for figure in every}
    needed = {file: made for files in made_from.values() for file, made in files.items()}
    current = {f for f, made in needed.items() if made and whole.get(f) == made}
    for file in [f for f in before if f and f.rpartition(".")[0] not in made_from]:
        _remove(folder / file)
    kept = {f: made for f, made in before.items() if f in current or (f not in needed and (folder / f).is_file())}
    if kept != before:  # first forget what is drawn again: a killed process then draws it later
        _write_digests(folder, kept)
    for figure in follow(every):
        _draw(folder, figure, [file for file in made_from[figure.name] if file not in current])
    drawn_now = {f: f"{made}{_THEN}{_held(folder / f)}" if made else "" for f, made in needed.items() if f not in kept}
    now = {**kept, **drawn_now, **({"": state} if state else {})}
    if now != kept:
        _write_digests(folder, now)
    return tuple(folder / file for file in needed)


def remove_outdated(folder: Path, drawn: Iterable[Figure], state: str) -> None:
    """Remove the figures of a folder that `write_figures` would draw again or remove; leave the others.

    Raises:
        ResultsError: when what is left cannot be noted.
    """
    before = read_digests(folder)
    needed = {file: made for figure in drawn for file, made in _digests(figure, FORMATS, state).items()}
    outdated = {file for file, made in before.items() if file and needed.get(file) != made.partition(_THEN)[0]}
    if not outdated:
        return
    _write_digests(folder, {file: made for file, made in before.items() if file and file not in outdated})
    for file in outdated:
        _remove(folder / file)


def are_current(folder: Path, state: str) -> bool:
    """Return whether a folder holds all its figures, as they were drawn from this state."""
    found = read_digests(folder)
    return found.get("") == state and all(_is_whole(folder, file, digests) for file, digests in found.items() if file)


def read_digests(folder: Path) -> Mapping[str, str]:
    """Return the digests of each figure's data and file; under the empty name, the state that all were drawn from."""
    refuse_link(folder)
    found = kept_json(folder / DIGESTS)
    if not isinstance(found, dict):
        return {}
    return {
        file: digests for file, digests in found.items() if isinstance(digests, str) and (not file or is_ours(file))
    }


def is_ours(file: str) -> bool:
    """Return whether a text can be the name of a figure's file; names in a received directory may be anything."""
    return is_bare(file) and not file.startswith(".") and file.rpartition(".")[2] in (*FORMATS, "gif")


def _is_whole(folder: Path, file: str, digests: str) -> bool:
    """Return whether a file exists and holds what was drawn; older records lack this digest and count as intact."""
    _, _, held = digests.partition(_THEN)
    try:
        return (folder / file).is_file() and (not held or held == _held(folder / file))
    except OSError:  # a link, or what cannot be read
        return False


def _held(file: Path) -> str:
    return Content.of_file(file).sha256[:16]


def _remove(file: Path) -> None:
    with derived(file):
        remove(file)


def _write_digests(folder: Path, digests: Mapping[str, str]) -> None:
    with derived(folder / DIGESTS):
        write_json(folder / DIGESTS, digests)


def _digests(figure: Figure, formats: Iterable[str], state: str) -> dict[str, str]:
    """Return the digest of the data of each file of a figure; empty if it is unknown."""
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
            f"figures are left out: vl_convert, which draws them, reserves {_ADDRESSES / 2**30:.0f} GiB of address "
            "space (not of memory), and the limit of this shell or job is lower; lift it with `ulimit -v unlimited`, "
            "or in the scheduler, and run `headway report` again"
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

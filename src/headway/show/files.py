"""Show: all figures of an experiment, in the order of the report, and as files."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headway.errors import ResultsError, UserError, near
from headway.files import replacing
from headway.show import dynamics, lengths, maps, outcome, theory, training
from headway.show.figure import Figure
from headway.show.material import ArmResults, Material

FORMATS = ("png", "svg", "pdf")
PNG_SCALE = 2.0

WHOLE: tuple[Callable[[Material], Figure | None], ...] = (
    outcome.final_error,
    lengths.lengths,
    lengths.lengths_by_arm,
    training.loss,
    dynamics.dynamics,
)
PER_ARM: tuple[Callable[[ArmResults], Figure | None], ...] = (maps.final_circuits, maps.circuit_steps)
THEORY: tuple[Callable[[Material], Figure | None], ...] = (theory.flow, theory.proportional)


def figures(material: Material) -> Iterator[Figure]:
    """Every figure that the results have the numbers for; none at all before a run has finished."""
    if not material.arms:
        return
    drawn = [draw(material) for draw in WHOLE]
    drawn += [draw(arm) for arm in material.arms for draw in PER_ARM]
    drawn += [draw(material) for draw in THEORY]
    yield from (figure for figure in drawn if figure is not None)


def write_figures(folder: Path, drawn: Iterable[Figure], formats: Iterable[str] = FORMATS) -> tuple[Path, ...]:
    """Write figures to `NAME.FORMAT` in a folder, each file whole or not at all; their paths.

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
        spec = figure.spec()
        for name in wanted:
            paths.append(write_whole(folder / f"{figure.name}.{name}", render(spec, name)))
    return tuple(paths)


def render(spec: dict[str, object], kind: str) -> bytes:
    """A Vega-Lite specification as the bytes of a png, svg or pdf."""
    import vl_convert

    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    if kind == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    return bytes(vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file so that a reader finds the former one or the new one, and never a part.

    Raises:
        ResultsError: when it cannot be written; the former file is then as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}; free space or check permissions") from error
    return path

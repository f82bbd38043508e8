"""Door: what verbs print: tables, warnings, and the answer of a results directory."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.options import app
from headway.errors import UserError

if TYPE_CHECKING:
    from headway.compare.results import Results
    from headway.declare.experiment import Experiment
    from headway.runs.store import Store


def _print_version(asked: bool) -> None:
    if asked:
        from headway import __version__

        print(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def _door(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A laboratory for attention heads: a question as a short file, an answer with error bars."""


def warn(message: str) -> None:
    """A warning beside what is printed."""
    typer.secho(f"warning: {message}", fg="yellow", err=True)


def tell_plugins(experiment: "Experiment") -> None:
    """Which code of one's own was run for an experiment, once for each file."""
    for plugin in experiment.plugins:
        typer.echo(plugin.sentence, err=True)


def print_tables(*tables: Any) -> None:
    """Tables and pictures, an empty line after each."""
    from rich.console import Console

    # Where nobody can say how wide it is, in a file or a pipe, no table is cut.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    for table in tables:
        Console(width=width).print(table)
        print()


def print_answer(store: "Store", results: "Results", out: Path | None = None) -> None:
    """The warnings, the answer, and where the rest stands: in the results directory, or in another folder."""
    from headway.compare.answer import answer

    for warning in results.warnings:
        warn(warning)
    for sentence in results.search.sentences if results.search else ():
        print(f"* {sentence}")
    for sentence in answer(results):
        print(f"* {sentence}")
    for file in ("report.html", "look.html", "results.json"):
        if ((out or store.path) / file).exists():
            print(f"{file.partition('.')[0]}: {(out or store.path) / file}")


def check_out(out: Path | None, *, draws: bool = True) -> None:
    """Nothing, when what is measured can be drawn, if it is, and written afterwards.

    Raises:
        UserError: when it cannot.
    """
    from headway.show.shared.figure_files import check_drawable

    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: it is a file; give a folder, which is made if need be")
    if draws:
        check_drawable()
    said = f"--out {out}" if out is not None else "the page would stand in results/, and"
    check_writable(Path("results") if out is None else out, said)


def check_writable(place: Path, said: str) -> None:
    """Nothing, when files can be made in a folder, or in the nearest above it that exists.

    Raises:
        UserError: when they cannot.
    """
    there = next(parent for parent in (place.absolute(), *place.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise UserError(f"{said}: {there} is a file; name another folder with --out")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UserError(
            f"{said}: nothing can be written to {there} ({error.strerror}); name another folder with --out"
        ) from None

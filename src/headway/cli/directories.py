"""Door: the verbs that take a results directory: status, compare, report, drop, verify."""

import gc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.options import Directory, Figures, Look, Plugins, app, path_of
from headway.cli.output import check_writable, print_answer, print_tables, tell_plugins
from headway.errors import HeadwayError, UserError

if TYPE_CHECKING:
    from headway.runs.store import Store


@app.command()
def status(directory: Directory, plugins: Plugins = None) -> None:
    """How far every run of a results directory is."""
    from headway.show.terminal.progress import status_table

    print_tables(status_table(open_store(directory, plugins)))


Elsewhere = Annotated[
    Path | None,
    typer.Option("--out", callback=path_of, metavar="FOLDER", help="Write to this folder; DIR may be read-only."),
]


@app.command()
def compare(directory: Directory, out: Elsewhere = None, plugins: Plugins = None) -> None:
    """Compare arms over paired seeds; writes results.json."""
    from headway.compare.results import write

    out = _elsewhere(directory, out)
    store = open_store(directory, plugins)
    print_answer(store, write(store, out), out)


@app.command()
def report(
    directory: Directory,
    out: Elsewhere = None,
    figures: Figures = True,
    look: Look = None,
    plugins: Plugins = None,
) -> None:
    """Write results.json, report.html, the figures, and look.html for finished language models.

    What has not changed since the last report is left as it is.
    """
    from headway.finishing import finish

    out = _elsewhere(directory, out)
    store = open_store(directory, plugins)
    finish(store, figures=figures, look=look, out=out, tell=partial(typer.echo, err=True))
    print(f"report: {(out or store.path) / 'report.html'}")


def _elsewhere(directory: Path, out: Path | None) -> Path | None:
    """The folder that was given to write to; None where it is the results directory itself.

    Raises:
        UserError: when it is another results directory, or nothing can be written there.
    """
    if out is None or (out.is_dir() and directory.is_dir() and out.samefile(directory)):
        return None
    if out.resolve().is_relative_to(directory.resolve()):
        raise UserError(f"--out {out}: it stands inside {directory}; name a folder outside of the results directory")
    if out.is_file():
        raise UserError(f"--out {out}: it is a file; give a folder, which is made if need be")
    check_writable(out, f"--out {out}")
    if (out / "experiment.yaml").exists():
        raise UserError(
            f"--out {out}: it is another results directory, whose results.json and report.html would be replaced; name "
            "another folder"
        )
    return out


@app.command()
def drop(
    directory: Directory,
    names: Annotated[list[str], typer.Argument(metavar="ARM[+CONTROL]...", help="The arms whose runs are dropped.")],
    seeds: Annotated[
        str | None, typer.Option(metavar="A,B|A-B", help="Only these seeds, by their numbers: 2, 0,2 or 0-2.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Delete them; nothing is left.")] = False,
) -> None:
    """Put runs of an arm aside, to DIR/dropped."""
    from headway.declare.selection import seeds_in
    from headway.runs.dropped import seed_of
    from headway.words import counted, listed, numbered

    folders = open_store(directory).drop(*names, seeds=None if seeds is None else seeds_in(seeds), delete=force)
    n = counted(len(folders), "run")
    of = f"{listed(list(dict.fromkeys(names)))} ({numbered('seed', {seed_of(folder) for folder in folders})})"
    where = "" if force else f" to {directory / 'dropped'}"
    it = "it" if len(folders) == 1 else "them"
    print(
        f"{'deleted' if force else 'moved'} {n} of {of}{where}; `headway run` makes {it} anew, and `headway compare` "
        f"or `headway report` leaves {it} out until then"
    )


@app.command()
def verify(
    directory: Directory,
    adopt: Annotated[bool, typer.Option("--adopt", help="Seal finished runs of before, as they are.")] = False,
) -> None:
    """Read every file of a results directory whole, and name what is damaged."""
    from headway.runs.verify import verify as look_at
    from headway.words import counted

    found = []
    for looked in look_at(directory, adopt=adopt):
        found.append(looked)
        for damage in looked.damages:
            print(f"damaged: {damage}")
    runs, whole = counted(len(found) - 1, "run"), sum(looked.n_bytes for looked in found)
    if found[0].unsealed:
        print("looks/: not sealed, since they were made before; --adopt does so")
    for n, said in (
        (sum(looked.sealed for looked in found), "sealed as it is"),
        (sum(looked.unsealed for looked in found[1:]), "not sealed, since it was made before; --adopt does so"),
        (sum(looked.held for looked in found), "left alone, since a process works on it"),
    ):
        if n:
            print(f"{counted(n, 'run')} of {len(found) - 1}: {said}")
    read = f"{runs}: {counted(sum(looked.n_files for looked in found), 'file')} ({whole / 1e6:,.1f} MB) read"
    if n := sum(len(looked.damages) for looked in found):
        raise HeadwayError(f"{read}, {counted(n, 'damage')}")
    sealed = "everything that is sealed" if any(looked.unsealed for looked in found) else "everything"
    print(f"{read}, {sealed} is as it was written")


def open_store(directory: Path, plugins: list[str] | None = None) -> "Store":
    """The results directory there; which code of one's own is run for it is told."""
    from headway.runs.store import Store

    gc.set_threshold(50_000, 20, 100)  # records of thousands of runs are many values without cycles: 7 % of the time
    store = Store.open(directory, plugins or ())
    tell_plugins(store.experiment)
    return store

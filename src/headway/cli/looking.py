"""Door: the verb that shows heads: look."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli.options import MOST, Device, Draws, TextOrOwn, TokenizerOf, app, path_of
from headway.cli.output import check_writable
from headway.errors import UserError
from headway.files import inside
from headway.runs.worker import share_cores


def _paths_of(given: list[Path]) -> list[Path]:
    return [path_of(path) for path in given]


@app.command()
def look(
    models: Annotated[
        list[Path],
        typer.Argument(
            callback=_paths_of,
            metavar="MODEL...",
            help="A run's folder, a folder of Hugging Face, or a results directory with its arms; two stand side by "
            "side.",
        ),
    ],
    text: TextOrOwn = None,
    heads: Annotated[
        str | None, typer.Option(metavar="L0H3,L2", help="Keep the patterns of these heads and layers; default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=path_of, metavar="FILE", help="A page; by default results/look-NAME.html, or DIR/look.html."
        ),
    ] = None,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="So many of the text, and of repeated tokens; by default 4."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 128."),
    ] = None,
    draws: Draws = None,
    largest: Annotated[
        float, typer.Option(min=0.6, max=2000, metavar="MB", help="What would make the page larger is left out.")
    ] = 10,
    device: Device = "auto",
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run code that comes with a folder, where it needs some.")
    ] = False,
) -> None:
    """One offline page on which one picks a head and sees what it does.

    Patterns on a text and on repeated tokens, token by token; circuits in tokens; numbers beside what untrained heads
    show; alike and composed heads; of a run with probes also while it trained.
    """
    from headway.finished.look import look as look_at
    from headway.finished.looked_at import models_in
    from headway.finishing import look_page_of, write_signed
    from headway.runs.folder import Run
    from headway.show.look.look_page import look_page
    from headway.show.report.current import LOOK
    from headway.words import command_line

    share_cores()
    chosen = models_in(models)
    page = _page_of(out, models)
    options: dict[str, Any] = {"tokenizer": tokenizer, "sequences": sequences, "length": length, "draws": draws}
    n_bytes, views = int(largest * 1e6), []
    for path in chosen:
        if len(chosen) > 1:
            typer.echo(f"looking at {path} ...", err=True)
        given = {"text": text, "heads": heads, "device": device, "trust_code": trust_code, **options}
        views.append(look_at(path, largest=n_bytes // len(chosen), **given))
    command = command_line(
        "look", *models, text=text, heads=heads, out=out, largest=None if largest == 10 else largest, **options
    )
    whole = command + " --trust-code" * trust_code
    draw = look_page if len(models) > 1 else partial(look_page_of, models=models[0])
    drawn = draw(views, command=whole, largest=n_bytes)
    for cut in drawn.cuts:
        print(f"note: {cut}")
    if command == command_line("look", *models) and page == models[0] / LOOK:
        write_signed(drawn, page, [Run.open(path) for path in chosen])
    else:
        drawn.write(page)
    print(f"page: {page} ({len(drawn.html.encode()) / 1e6:.1f} MB)")
    _link(page)


def _page_of(out: Path | None, models: list[Path]) -> Path:
    """Where the page is written."""
    from headway.finished.model_folder import ModelFolder

    if out is not None:
        if out.is_dir():
            raise UserError(f"--out {out}: it is a folder; give a file, such as {out / 'look.html'}")
        check_writable(out.parent, f"--out {out}")
        return out
    if len(models) == 1 and (models[0] / "experiment.yaml").is_file():
        check_writable(models[0], f"the page would stand in {models[0]}, and")
        return models[0] / "look.html"
    names = [ModelFolder(asked=path, path=path, kind="other").name for path in models]
    return Path("results") / f"look-{'-beside-'.join(names[:2])}.html"


def _link(page: Path) -> None:
    """The report beside a page, if there is one, is written anew: it links to the page."""
    if page.name != "look.html" or not all((page.parent / f).is_file() for f in ("report.html", "experiment.yaml")):
        return
    from headway.finishing import finish
    from headway.runs.store import Store

    finish(Store.open(page.parent), figures=inside(page.parent, "figures").is_dir(), look=False)
    print(f"linked from {page.parent / 'report.html'}")

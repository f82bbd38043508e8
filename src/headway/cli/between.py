"""Door: the verb that puts what heads did on one text into a run of another: patch."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.models import show_model
from headway.cli.options import AsJson, Checkpoint, Device, TokenizerOf, app, path_of
from headway.cli.output import check_out
from headway.runs.worker import share_cores


@app.command()
def patch(
    checkpoint: Checkpoint,
    clean: Annotated[
        str, typer.Option(metavar="TEXT|FILE", help="A text after which the answer is right; or a file, one a line.")
    ],
    corrupted: Annotated[
        str, typer.Option(metavar="TEXT|FILE", help="One of as many tokens, after which it is not; as --clean.")
    ],
    answer: Annotated[
        str,
        typer.Option(
            metavar="WORD|FILE", help="What should follow, of several tokens the first; one for all, or one a line."
        ),
    ],
    wrong: Annotated[
        str | None,
        typer.Option(metavar="WORD|FILE", help="What should not; by default the answer's probability is asked about."),
    ] = None,
    sites: Annotated[
        str, typer.Option(metavar="A,B", help="What of a head is put back, in turn: z, q, k, v, pattern.")
    ] = "z,q,k,v,pattern",
    by_position: Annotated[bool, typer.Option("--by-position", help="Each position by itself.")] = False,
    paths: Annotated[bool, typer.Option(help="Direct effects between heads: through queries, keys, values.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(callback=path_of, metavar="DIR", help="A folder that is made; by default results/patch-NAME."),
    ] = None,
    as_json: AsJson = False,
    tokenizer: TokenizerOf = None,
    device: Device = "auto",
) -> None:
    """Which heads make the difference between two texts: each as on the one, in a run of the other.

    Draws what comes back with each head's context, queries, keys, values and pattern, which head acts on which later
    one, and where the heads of the strongest path look. Of files with a text in each line there are intervals.
    """
    from headway.finished.patch_texts import patch_texts
    from headway.finished.text_pairs import text_or_lines
    from headway.show.ablate.patch_page import most_restoring, patch_page
    from headway.words import command_line

    share_cores()
    check_out(out, draws=out is not None or not as_json)
    texts = {"clean": clean, "corrupted": corrupted, "answer": answer, "wrong": wrong}
    given = {name: None if text is None else text_or_lines(text, f"--{name}") for name, text in texts.items()}
    found = patch_texts(
        checkpoint,
        **given,  # type: ignore[arg-type]
        sites=tuple(site.strip() for site in sites.split(",") if site.strip()),
        by_position=by_position,
        paths=paths,
        tokenizer=tokenizer,
        device=device,
        tell=partial(typer.echo, err=True),
    )
    switches = ["--by-position"] * by_position + ["--no-paths"] * (not paths)
    chosen = None if sites == "z,q,k,v,pattern" else sites
    command = command_line("patch", checkpoint, *switches, **texts, sites=chosen, out=out, tokenizer=tokenizer)
    show_model(found, most_restoring(found), lambda: patch_page(found), checkpoint, out, command, as_json)

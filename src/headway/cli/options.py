"""Door: the arguments and options that several verbs take, and the application that has the verbs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.errors import UserError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

MOST = 2**31 - 1
"""Of numbers of tokens and sequences, as arrays count them."""


def path_of(given: Any) -> Any:
    """What was given, when a file system would take it as a path."""
    from headway.declare.limits import check_path

    try:
        check_path(str(given or ""), "the path")
    except ValueError as error:
        raise UserError(str(error)) from None
    return given


Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="One that comes with Headway, or a YAML file.")]
NameOrDirectory = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="One that comes with Headway, a YAML file, or a results directory that is to be gone on with.",
    ),
]
Scale = Annotated[str | None, typer.Option(metavar="NAME", help="One of its scales; laptop by default, if it has one.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value; repeatable.")]
Arms = Annotated[str | None, typer.Option(metavar="A,B", help="Only these arms.")]
Controls = Annotated[
    list[str] | None,
    typer.Option("--control", metavar="NAME", help="Cross the arms with it, or all that fit a-*; repeatable."),
]
Seeds = Annotated[str | None, typer.Option(metavar="N|A,B", help="How many seeds (0 to N-1), or which: 3,5 or 7,")]
Checkpoint = Annotated[
    Path,
    typer.Argument(callback=path_of, metavar="CHECKPOINT", help="A run's folder, or a folder of Hugging Face."),
]
Directory = Annotated[Path, typer.Argument(callback=path_of, metavar="DIR", help="A results directory.")]
Text = Annotated[
    str,
    typer.Option(
        callback=path_of, metavar="FILE", help="A text file, documents parted by <|endoftext|>; or another corpus."
    ),
]
TextOrOwn = Annotated[
    str | None,
    typer.Option(
        callback=path_of,
        metavar="FILE",
        help="A text file, documents parted by <|endoftext|>; of a run by default what it was judged on.",
    ),
]
TextOrExamples = Annotated[
    str | None,
    typer.Option(
        callback=path_of,
        metavar="FILE",
        help="A text file, documents parted by <|endoftext|>, or another corpus; of a task that is no text by default "
        "its examples.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print everything as JSON; files are then written only with --out.")
]
TokenizerOf = Annotated[
    str | None,
    typer.Option(callback=path_of, metavar="FOLDER", help="Or bytes, or gpt2; where the checkpoint has none."),
]
Draws = Annotated[
    int | None,
    typer.Option(
        min=0, max=MOST, metavar="N", help="How often untrained heads are drawn to compare with; by default 16."
    ),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="auto takes a GPU where there is one.")]

Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="FILE", help="Code of your own, which is run (docs/your-own.md); repeatable."),
]

Look = Annotated[
    bool | None,
    typer.Option(
        "--look/--no-look", help="Write look.html too, on finished language models; by default with the figures."
    ),
]
Figures = Annotated[bool, typer.Option(help="Write figures as files too; the report holds them anyway.")]

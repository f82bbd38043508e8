"""The arguments and options that several verbs share, the application, and its output.

The output is tables, warnings, and the answer of a results directory.
"""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from typer.core import TyperGroup

from headway.base.text import command_line, printable
from headway.base.torch_setup import share_cores
from headway.errors import UserError

if TYPE_CHECKING:
    from headway.config.experiment import Experiment
    from headway.stats.results import Results
    from headway.stats.verdict_table import TableFormat
    from headway.store.directory import Store


VERBS = {
    "Run": ("list", "show", "plan", "run"),
    "Results": ("status", "compare", "report", "drop", "verify"),
    "Models": ("xray", "look", "ablate", "patch", "prune", "generate", "export"),
    "Any training command": ("judge", "gate"),
    "Clusters": ("worker", "submit"),
}
"""The verbs as `headway --help` groups them."""


class Verbs(TyperGroup):
    """The command line, whose help groups the verbs and has their summaries whole."""

    typed: ClassVar[list[str]] = []

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words that were typed, which pages show."""
        Verbs.typed = [*args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write a section for each group of verbs."""
        for title, names in VERBS.items():
            with formatter.section(title):
                summaries = [(name, self.commands[name].get_short_help_str(limit=200)) for name in names]
                formatter.write_dl(summaries)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def whole_number(least: int, what: str, *names: str, metavar: str = "N", most: int = 2**31 - 1) -> Any:
    """Return the option of a whole number that is not too large for an array."""

    def check(value: int | None) -> int | None:
        if value is not None and not least <= value <= most:
            raise typer.BadParameter(f"{value} is not in the range {least} to {most:,}")
        return value

    return typer.Option(*names, callback=check, metavar=metavar, help=what)


def typed_command() -> str:
    """Return the command line as it was typed."""
    return command_line(*Verbs.typed)


def file_option(metavar: str, what: str, *names: str) -> Any:
    """Return the option of a file or a folder."""
    return typer.Option(*names, callback=path_of, metavar=metavar, help=what)


def path_of(given: Any) -> Any:
    """The given text as a path, if a file system would take it as one."""
    from headway.config.spec import check_path

    try:
        check_path(str(given or ""), "the path")
    except ValueError as error:
        raise UserError(str(error)) from None
    return given


Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name from `headway list`, or a YAML file.")]
NameOrDirectory = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="A name from `headway list`, a YAML file, or a results directory to resume.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The size of the experiment, such as quick, laptop (default) or paper."),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a key of the experiment; repeatable.")
]
Arms = Annotated[str | None, typer.Option(metavar="A,B", help="Use only these arms.")]
Controls = Annotated[
    list[str] | None,
    typer.Option(
        "--control",
        metavar="NAME",
        help="Also run this variation of each arm, from `controls`; a-* selects all that begin with a-; repeatable.",
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|A,B", help="The number of seeds (5: seeds 0 to 4), or a list such as `3,5`; `7,` is only seed 7."
    ),
]
Checkpoint = Annotated[
    Path,
    typer.Argument(callback=path_of, metavar="CHECKPOINT", help="The folder of a run, or of a Hugging Face model."),
]
Directory = Annotated[Path, typer.Argument(callback=path_of, metavar="DIR", help="The results directory.")]
TextOrOwn = Annotated[
    str | None,
    file_option(
        "FILE",
        "A text file (<|endoftext|> separates documents), or a .npy array of token ids, one row per sequence. "
        "Default for a run: its evaluation data.",
    ),
]
TextOrExamples = Annotated[
    str | None,
    file_option(
        "FILE",
        "A text file (<|endoftext|> separates documents), or another corpus. If the model was trained on a "
        "task other than text, the default is examples of this task.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, and write files only with --out.")]
TokenizerOf = Annotated[
    str | None,
    file_option(
        "FOLDER",
        "For a checkpoint without a tokenizer: a tokenizer's folder, bytes, gpt2, or ids (for a text of token ids).",
    ),
]
Draws = Annotated[
    int | None,
    whole_number(0, "The number of random copies of each layer to compare heads with. Default: 16.", "--null-draws"),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="The device; auto: a GPU if there is one.")]

Trainer = Annotated[
    Literal["auto", "fused", "torch"], typer.Option(help="For in-context models: native (fused) or PyTorch code.")
]
OnDevice = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda[:N]", help="The device; auto: all GPUs (each run uses one), or the CPU if there is none."
    ),
]
RunsPerGpu = Annotated[int, typer.Option(metavar="N", help="The number of runs that share a GPU.")]

TrustCommands = Annotated[
    bool, typer.Option("--trust-code", help="Run training commands from a directory that somebody else made.")
]

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="FILE", help="Load a plug-in, a Python file of your own (docs/your-own.md); repeatable."
    ),
]

Look = Annotated[
    bool | None,
    typer.Option(
        "--look/--no-look", help="Also write look.html, the page of `headway look`. Default: only with --figures."
    ),
]
Figures = Annotated[bool, typer.Option(help="Also write each figure to its own file.")]


def _print_version(asked: bool) -> None:
    if asked:
        from headway import __version__

        say(f"headway {__version__}")
        raise typer.Exit


@app.callback()
def _door(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A laboratory for attention heads: write a question as a short file, get an answer with error bars."""
    share_cores()


REMOVED = {
    "worker --together": "leave it out: `headway run` fixed the batches when it made the runs",
    "submit --together": "leave it out: `headway run` fixed the batches when it made the runs",
    "submit --slurm": "leave it out: Slurm is the only scheduler; elsewhere start `headway worker` yourself",
    "export --to": "leave it out: hf is the only format",
    "run --at-most": "type --max-seeds",
    "run --together": "type --batch-runs",
    "run --shared-fs": "leave it out: Ray's nodes must see the directory",
    "run --shared": "leave it out: Ray's nodes must see the directory",
    "run --no-shared-fs": "put the directory into a folder that all nodes share",
    "run --no-shared": "put the directory into a folder that all nodes share",
    "look --draws": "type --null-draws",
    "xray --draws": "type --null-draws",
    "run --best": "type --until 1%, which adds seeds until every comparison has an answer; Optuna searches",
    "run --budget": "type --until 1% --max-seeds N, or stop the run with Ctrl-C; `headway run DIR` resumes it",
    "plan --device": "leave it out; `python benchmarks/gpu.py` measures what a GPU takes",
    "plan --trial": "type --timing",
    "plan --no-trial": "type --no-timing",
    "generate --stop": "leave it out: a text ends at its end-of-text token",
    "generate --no-stop": "in Python: headway.open_model(CHECKPOINT).write(PROMPT, stop=False)",
    "ablate --mean": "in Python: headway.ablate(CHECKPOINT, mean='per-position')",
    "ablate --reference": "in Python: headway.ablate(CHECKPOINT, reference=FILE)",
    "ablate --seed": "in Python: headway.ablate(CHECKPOINT, seed=N)",
    "prune --held-out": "in Python: headway.prune(..., held_out=FILE)",
}
"""Options that are gone, with what to do."""


def check_words(words: list[str]) -> None:
    """Raise UserError if a command line has a verb or an option that is gone; the error names the replacement."""
    if words[:1] == ["check"]:
        raise UserError(
            "`headway check` is gone: Headway checks the parts of a plug-in when it first uses them, and errors name "
            "the file and line; test it with pytest (docs/your-own.md)"
        )
    for word in words[1:]:
        option = word.partition("=")[0]
        if advice := REMOVED.get(f"{words[0]} {option}"):
            raise UserError(f"{option} is no longer an option of `headway {words[0]}`: {advice}")


def say(text: object = "", *, err: bool = False, end: str = "\n", color: str | None = None) -> None:
    """Print a text, in which a file or a name may stand that a stranger wrote: no character of it steers a terminal."""
    typer.secho(printable(text) + end, fg=color, err=err, nl=False)


tell = partial(say, err=True)
"""Print beside what is printed: how far a verb is."""


def warn(message: str) -> None:
    """A warning beside what is printed."""
    say(f"warning: {message}", err=True, color="yellow")


def tell_plugins(experiment: "Experiment") -> None:
    """Which code of one's own was run for an experiment, once for each file."""
    for plugin in experiment.plugins:
        tell(plugin.sentence)


def print_tables(*tables: Any) -> None:
    """Tables, an empty line after each."""
    from headway.report.terminal import Terminal

    # Where nobody can say how wide it is, in a file or a pipe, no table is cut.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    for table in tables:
        Terminal(width=width).print(table)
        say()


def print_verdicts(store: "Store", results: "Results") -> None:
    """Print the warnings and the answer, or why there is none."""
    from headway.stats.cells import why_no_verdict

    print_sentences(results)
    done = [(run.name, run.seed) for run in results.runs if run.status == "done"]
    has_pairs = any(comparison.n_pairs for comparison in (*results.contrasts, *results.judged))
    if done and not has_pairs and (why := why_no_verdict(store.compared, done)):
        say(f"* nothing was compared: {why}")


def print_files(store: "Store", out: Path | None = None) -> None:
    """Print the paths of the pages, in the results directory or in another folder."""
    for file in ("report.html", "look.html", "results.json"):
        if ((out or store.path) / file).exists():
            say(f"{file.partition('.')[0]}: {(out or store.path) / file}")


def print_sentences(results: "Results") -> None:
    """The warnings and the answer."""
    from headway.stats.answer import answer

    for warning in results.warnings:
        warn(warning)
    for sentence in answer(results):
        say(f"* {sentence}")


def print_verdict_table(results: "Results", form: "TableFormat") -> None:
    """The verdicts as a table, alone on standard output; the warnings stand beside."""
    for warning in results.warnings:
        warn(warning)
    table = results.verdicts
    if not table.rows:
        warn("no comparison has a pair of finished seeds yet, so the table is empty")
    say(table.written(form), end="")


def check_out(out: Path | None, *, as_json: bool = False) -> None:
    """Raise UserError if figures that are asked for cannot be drawn, or the output cannot be written afterwards.

    Raises:
        UserError: when it cannot.
    """
    from headway.report.charts.page import check_drawable

    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: this is a file; give a folder, which may be new")
    if out is not None or not as_json:
        check_drawable()
    said = f"--out {out}" if out is not None else "the page would go to results/, and"
    check_writable(Path("results") if out is None else out, said)


def check_writable(place: Path, said: str) -> None:
    """Raise UserError if no file can be made in a folder, or in the nearest existing folder above it.

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
            f"{said}: Headway cannot write to {there} ({error.strerror}); name another folder with --out"
        ) from None

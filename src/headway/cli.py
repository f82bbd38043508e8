"""Door: the verbs of the command line, a function each; the only place that prints.

Every verb imports what it needs when it runs, so that `headway list` answers at once.
"""

import errno
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from headway.errors import HeadwayError, RunFailed, UserError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.compare.results import Results
    from headway.declare.experiment import Experiment
    from headway.heads.model_on_text import ModelOnText
    from headway.runs.store import Store
    from headway.show.shared.model_page import ModelPage
    from headway.show.shared.table import Table

MOST = 2**31 - 1
"""Of numbers of tokens and sequences, as arrays count them."""


def _path(given: Any) -> Any:
    """What was given, when a file system would take it as a path."""
    from headway.declare.limits import check_path

    try:
        check_path(str(given or ""), "the path")
    except ValueError as error:
        raise UserError(str(error)) from None
    return given


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A laboratory for attention heads: a question as a short file, an answer with error bars.",
)
Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="One that comes with Headway, or a YAML file.")]
Scale = Annotated[str | None, typer.Option(metavar="NAME", help="One of its scales; laptop by default, if it has one.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value; repeatable.")]
Arms = Annotated[str | None, typer.Option(metavar="A,B", help="Only these arms.")]
Controls = Annotated[
    list[str] | None,
    typer.Option("--control", metavar="NAME", help="Cross the arms with it, or all that fit a-*; repeatable."),
]
Seeds = Annotated[str | None, typer.Option(metavar="N|A,B", help="How many seeds (0 to N-1), or which: 3,5 or 7,")]
Checkpoint = Annotated[
    Path, typer.Argument(callback=_path, metavar="CHECKPOINT", help="A run's folder, or a folder of Hugging Face.")
]
Directory = Annotated[Path, typer.Argument(callback=_path, metavar="DIR", help="A results directory.")]
Text = Annotated[
    str,
    typer.Option(
        callback=_path, metavar="FILE", help="A text file, documents parted by <|endoftext|>; or another corpus."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print everything as JSON; files are then written only with --out.")
]
TokenizerOf = Annotated[
    str | None,
    typer.Option(callback=_path, metavar="FOLDER", help="Or bytes, or gpt2; where the checkpoint has none."),
]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="auto takes a GPU where there is one.")]

Figures = Annotated[bool, typer.Option(help="Write figures as files too; the report holds them anyway.")]


@app.command("list")
def list_() -> None:
    """The experiments that come with Headway, a line each."""
    from headway.declare.mapping import read_file
    from headway.declare.shipped import shipped

    experiments = {name: read_file(path) for name, path in shipped().items()}
    for name, content in experiments.items():
        print(f"{name:<{max(map(len, experiments))}}  {len(content['arms']):>2} arms  {content['question']}")


@app.command()
def show(name: Name, scale: Scale = None, settings: Settings = None) -> None:
    """The resolved YAML of an experiment, to start your own."""
    from headway.declare.experiment import load

    experiment = load(name, scale=scale, settings=settings or ())
    experiment.check_settings()
    print(experiment.dump(), end="")


@app.command()
def plan(
    names: Annotated[
        list[str],
        typer.Argument(metavar="EXPERIMENT|SHAPE...", help="An experiment, or published models such as gpt2."),
    ],
    scale: Scale = None,
    settings: Settings = None,
    arms: Arms = None,
    control: Controls = None,
    seeds: Seeds = None,
    timing: Annotated[bool, typer.Option(help="Time a few steps of each arm on this machine.")] = True,
    trial: Annotated[bool | None, typer.Option("--trial/--no-trial", hidden=True)] = None,  # what it was called
    out: Annotated[
        Path | None, typer.Option(callback=_path, metavar="FILE", help="The picture as a png, svg, pdf or html file.")
    ] = None,
) -> None:
    """Parameters, FLOPs, memory and time of each arm.

    Parameters are counted by part; the time is that of a short trial on this machine. Says which arms are matched, and
    refuses what `run` would refuse for its data.
    Names of published models (or `shapes` for all of them) show where their parameters go.
    """
    from headway.runs.worker import set_up_process
    from headway.show.terminal.shapes import named_shapes, shape_table

    said = set_up_process(threads=1)  # as a worker has a core to itself
    options = (scale, settings, arms, control, seeds)
    if picture := named_shapes(names, options_given=any(option is not None for option in options)):
        _print(shape_table(picture), picture)
        title = "Where parameters go in published models"
    else:
        from headway.runs.costs import costs, foreseen, remarks
        from headway.show.terminal.plan import Plan

        experiment = _experiment(names[0], *options)
        notes = foreseen(experiment)
        for said in (*experiment.unheard, *remarks(experiment)):
            _warn(said)
        for said in experiment.idle:
            typer.echo(said, err=True)
        planned = Plan(experiment=experiment, costs=costs(experiment, trial=timing if trial is None else trial))
        if said and "torch" in sys.modules:
            _warn(said)
        picture, title = planned.picture, f"Parameters of {planned.experiment.name}"
        _print(*planned.tables(), picture)
        for sentence in (*planned.sentences(), *notes):
            print(sentence)
    if out is not None:
        from headway.show.shared.parameters import write_picture

        print(f"figure: {write_picture(out, picture.figure(title))}")


@app.command()
def run(
    name: Name,
    scale: Scale = None,
    settings: Settings = None,
    arms: Arms = None,
    control: Controls = None,
    seeds: Seeds = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="X%", help="Instead of --seeds: until arms are told apart or the same within X %."),
    ] = None,
    at_most: Annotated[int | None, typer.Option(metavar="N", help="Seeds where --until ends; by default 12.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME|RUNS", help="Start no seeds that do not fit: 90min, 2h; runs with --best only."),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Search the best arm within a --budget, then judge finalists on fresh seeds.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, max=10_000, metavar="N", help="Runs at a time; by default a core each.")
    ] = None,
    trainer: Annotated[Literal["auto", "fused", "torch"], typer.Option(help="fused is native code.")] = "auto",
    device: Annotated[
        str, typer.Option(metavar="auto|cpu|cuda[:N]", help="auto takes GPUs where there are any, a run each.")
    ] = "auto",
    timing: Annotated[
        bool | None,
        typer.Option("--timing/--no-timing", help="Time each language model alone; by default where it takes little."),
    ] = None,
    figures: Figures = True,
    directory: Annotated[
        Path | None, typer.Option("--out", callback=_path, metavar="DIR", help="By default results/NAME-SCALE.")
    ] = None,
) -> None:
    """Train every arm and seed, compare, report.

    On the same directory again, it finishes what is missing and repeats nothing. Ctrl-C is safe. With --until, seeds
    are added, at planned looks, until every question is settled.
    """
    from headway.api import carry_out
    from headway.settle.goals import goal_of
    from headway.show.terminal.progress import watch

    goal = goal_of(until=until, at_most=at_most, budget=budget, best=best, seeds=seeds)
    store, runs, results = carry_out(
        _experiment(name, scale, settings, arms, control, seeds),
        directory,
        workers=workers,
        trainer=trainer,
        device=device,
        timing=timing,
        figures=figures,
        goal=goal,
        warn=_warn,
        tell=partial(typer.echo, err=True),
        watch=watch,
    )
    _print_answer(store, results)
    unfinished = [run for run in (store.run(run.name, run.seed) for run in runs) if run.status != "done"]
    if unfinished:
        damaged = any(run.status == "damaged" for run in unfinished)
        again = "tries them again" + (", without the damaged, unless they are put aside first" if damaged else "")
        raise RunFailed(
            f"{len(unfinished)} of {len(runs)} runs gave no result; the reasons stand above and in log.txt of each "
            f"run folder. `headway run` again {again}"
        )


@app.command()
def status(directory: Directory) -> None:
    """How far every run of a results directory is."""
    from headway.show.terminal.progress import status_table

    _print(status_table(_open(directory)))


@app.command()
def compare(directory: Directory) -> None:
    """Compare arms over paired seeds; writes results.json."""
    from headway.compare.results import write

    store = _open(directory)
    _print_answer(store, write(store))


@app.command()
def report(directory: Directory, figures: Figures = True) -> None:
    """Write results.json, report.html and the figures.

    What has not changed since the last report is left as it is.
    """
    from headway.api import finish

    store = _open(directory)
    finish(store, figures=figures)
    print(f"report: {store.path / 'report.html'}")


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

    folders = _open(directory).drop(*names, seeds=None if seeds is None else seeds_in(seeds), delete=force)
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
    for n, said in (
        (sum(looked.sealed for looked in found), "sealed as it is"),
        (sum(looked.unsealed for looked in found), "not sealed, since it was made before; --adopt does so"),
        (sum(looked.held for looked in found), "left alone, since a process works on it"),
    ):
        if n:
            print(f"{counted(n, 'run')} of {len(found) - 1}: {said}")
    read = f"{runs}: {counted(sum(looked.n_files for looked in found), 'file')} ({whole / 1e6:,.1f} MB) read"
    if n := sum(len(looked.damages) for looked in found):
        raise HeadwayError(f"{read}, {counted(n, 'damage')}")
    print(f"{read}, everything is as it was written")


@app.command()
def generate(
    checkpoint: Checkpoint,
    prompt: Annotated[str, typer.Option(help="How the text begins; nothing: at the start of a text.")] = "",
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help="At most so many; by default 200, or what fits its training context."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits; 0: always the likeliest token.")] = 0.9,
    top_k: Annotated[
        int | None, typer.Option(min=1, max=MOST, metavar="K", help="Only the K likeliest tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="Only the likeliest tokens of this joint probability.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The same seed, the same text.")] = 0,
    stop: Annotated[bool, typer.Option(help="Whether the text ends at its end-of-text token.")] = True,
    tokenizer: TokenizerOf = None,
) -> None:
    """Let a trained language model write."""
    from headway.finished.opening import open_own

    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    print(open_own(checkpoint, tokenizer).write(prompt, n_tokens=tokens, stop=stop, **sampling))


@app.command()
def export(
    checkpoint: Checkpoint,
    directory: Annotated[Path, typer.Argument(callback=_path, metavar="OUT", help="A folder that is made.")],
    to: Annotated[Literal["hf"], typer.Option(help="hf: a folder that Hugging Face's transformers loads.")] = "hf",
) -> None:
    """Write a trained language model for other libraries.

    A model that is a GPT-Neo, GPT-2, Llama or Mistral becomes a stock folder; any other takes its code along.
    """
    from headway.finished.opening import open_own
    from headway.hf.export import export as to_hugging_face

    write = {"hf": to_hugging_face}[to]
    opened = open_own(checkpoint)
    model = opened.own
    model_type = write(model.model, model.vocab_size, model.weights(), directory, opened.tokenizer)
    code = "; load it with trust_remote_code=True, for its code goes along" if model_type == "headway" else ""
    print(f"{model_type}: {directory}{code}")
    if opened.tokenizer is None:
        _warn(f"{checkpoint} has no tokenizer, so {directory} has none")


@app.command()
def xray(
    checkpoint: Checkpoint,
    text: Text,
    out: Annotated[
        Path | None,
        typer.Option(callback=_path, metavar="DIR", help="A folder that is made; by default results/xray-NAME."),
    ] = None,
    as_json: AsJson = False,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, metavar="N", help="At most so many sequences of the text; by default 4,096 tokens."
        ),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 512."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST, metavar="N", help="How often untrained heads are drawn to compare with; by default 16."
        ),
    ] = None,
    device: Device = "auto",
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run code that comes with the folder, where it needs some.")
    ] = False,
) -> None:
    """What every head of a finished model does on a text.

    Names heads that are special, alike or idle; draws the atlas of all heads and maps of their pairs.
    """
    from headway.finished.xray import xray as measure
    from headway.show.xray.drawing import layers
    from headway.show.xray.page import xray_page
    from headway.words import command_line

    _check_out(out)
    options: dict[str, Any] = {"tokenizer": tokenizer, "sequences": sequences, "length": length, "draws": draws}
    found = measure(checkpoint, text=text, device=device, trust_code=trust_code, **options)
    command = command_line("xray", checkpoint, text=text, out=out, **options) + " --trust-code" * trust_code
    _show_model(found, layers(found), lambda: xray_page(found), checkpoint, out, command, as_json)


@app.command()
def ablate(
    checkpoint: Checkpoint,
    text: Text,
    reference: Annotated[
        str | None,
        typer.Option(
            callback=_path, metavar="FILE", help="Another text, that stands in for heads; by default more of the text."
        ),
    ] = None,
    mean: Annotated[
        Literal["positions", "per-position"], typer.Option(help="What the mean of a head is over, of that other text.")
    ] = "positions",
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also what the most alike and the most important pairs do together.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(callback=_path, metavar="DIR", help="A folder that is made; by default results/ablate-NAME."),
    ] = None,
    as_json: AsJson = False,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="At most so many of each text; by default 8,192 tokens."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 256."),
    ] = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of which sequences stand in for which.")] = 0,
) -> None:
    """What the loss does without each head: at zero, at its mean, resampled.

    Every head is taken away in all three ways, with intervals; cheap estimates stand beside, and how far they agree.
    Before any number the model is checked: a head masked must be the head removed.
    """
    from headway.finished.ablate import ablate as measure
    from headway.show.ablate.ablation_page import ablation_page
    from headway.show.ablate.effect_tables import ways
    from headway.words import command_line

    _check_out(out)
    found = measure(
        checkpoint,
        text=text,
        reference=reference,
        mean=mean,
        pairs=pairs,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=partial(typer.echo, err=True),
    )
    given = {"reference": reference, "mean": None if mean == "positions" else mean, "seed": seed or None, "out": out}
    read = {"tokenizer": tokenizer, "sequences": sequences, "length": length}
    command = command_line("ablate", checkpoint, *["--pairs"] * pairs, text=text, **given, **read)
    _show_model(found, ways(found), lambda: ablation_page(found), checkpoint, out, command, as_json)


@app.command()
def prune(
    checkpoint: Checkpoint,
    by: Annotated[
        Literal["taylor", "ablation", "gates", "budget", "alike", "magnitude", "random"],
        typer.Option(
            help="taylor: gradients of gates; ablation: exact effects; gates: learned, with an L0 penalty; budget: "
            "learned, a relaxed top-k; alike: one of the most alike two; magnitude: the norm of what a head writes; "
            "random: the floor of all others."
        ),
    ],
    keep: Annotated[str, typer.Option(metavar="N|SHARE", help="Heads that stay: 24, 50% or 0.5.")],
    text: Text,
    out: Annotated[Path, typer.Option(callback=_path, metavar="FOLDER", help="A folder that is made.")],
    held_out: Annotated[
        str | None,
        typer.Option(callback=_path, metavar="FILE", help="Another text: the loss on it, before and after."),
    ] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Importance is measured anew after each.")
    ] = 1,
    tokenizer: TokenizerOf = None,
    sequences: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, metavar="N", help="At most so many of each text; by default 8,192 tokens."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(min=2, max=MOST, metavar="N", help="Tokens of each; by default its context, at most 256."),
    ] = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of what is drawn.")] = 0,
) -> None:
    """Write a model without some of its heads: an ordinary one of another layout.

    Heads that share keys and values go together; a layer may lose all. What it costs in loss and saves in time and
    memory is measured.
    """
    from headway.finished.prune import prune as take_heads

    found = take_heads(
        checkpoint,
        by=by,
        keep=keep,
        text=text,
        out=out,
        held_out=held_out,
        steps=steps,
        tokenizer=tokenizer,
        sequences=sequences,
        length=length,
        device=device,
        seed=seed,
        tell=partial(typer.echo, err=True),
    )
    for sentence in found.sentences:
        print(f"* {sentence}")
    assert found.folder is not None
    folder, model_type = found.folder
    code = "; load it with trust_remote_code=True, for its code goes along" if model_type == "headway" else ""
    print(f"{model_type}: {folder}{code}")


def _check_out(out: Path | None) -> None:
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: it is a file; give a folder, which is made if need be")


def _show_model(
    found: "ModelOnText",
    overview: "Table",
    drawn: "Callable[[], ModelPage]",
    checkpoint: Path,
    out: Path | None,
    command: str,
    as_json: bool,
) -> None:
    """What was found of a finished model: sentences and a table, then its page; or all of it as JSON."""
    from headway.show.shared.model_page import folder_of, terminal_table

    if as_json:
        import json

        if out is not None:
            drawn().write(out, checkpoint, command)
        print(json.dumps(found.to_json(), allow_nan=False))
        return
    for said in [finding.sentence for finding in found.findings] or [found.nothing]:
        print(f"* {said}")
    for finding in found.not_found:
        print(f"- {finding.sentence}")
    print()
    _print(terminal_table(overview))
    for note in found.notes:
        print(f"note: {note}")
    print(f"measured on {found.read}")
    typer.echo("drawing ...", err=True)
    page = drawn()
    print(f"page: {page.write(out or folder_of(page.verb, found, checkpoint), checkpoint, command)}")


def _experiment(
    name: str,
    scale: str | None,
    settings: list[str] | None,
    arms: str | None,
    controls: list[str] | None,
    seeds: str | None,
) -> "Experiment":
    from headway.declare.experiment import load

    experiment = load(name, scale=scale, settings=settings or ())
    chosen = None if arms is None else [arm for arm in arms.split(",") if arm]
    selected = experiment.select(arms=chosen, controls=controls, seeds=_seeds(seeds))
    selected.check_settings()
    return selected


def _warn(message: str) -> None:
    typer.secho(f"warning: {message}", fg="yellow", err=True)


def _seeds(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part] if "," in text else int(text)
    except ValueError:
        raise UserError(f"--seeds {shortened(text)}: give how many, such as 5, or which, such as 3,5") from None


def _open(directory: Path) -> "Store":
    from headway.runs.store import Store

    return Store.open(directory)


def _print_answer(store: "Store", results: "Results") -> None:
    """The warnings, the answer, and where the rest stands."""
    from headway.compare.answer import answer
    from headway.settle.telling import kept

    for warning in results.warnings:
        _warn(warning)
    for sentence in kept(store.path):
        print(f"* {sentence}")
    for sentence in answer(results):
        print(f"* {sentence}")
    for file in ("report.html", "results.json"):
        if (store.path / file).exists():
            print(f"{file.partition('.')[0]}: {store.path / file}")


def _print(*tables: Any) -> None:
    from rich.console import Console

    # Where nobody can say how wide it is, in a file or a pipe, no table is cut.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 160
    for table in tables:
        Console(width=width).print(table)
        print()


def main() -> None:
    """Run the command line; exit 0, 1 when a run failed, 2 for a user's error, 130 on Ctrl-C."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"  # no file and line of ours
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            _fail("interrupted; `headway run` again goes on from here", code)
        sys.exit(code)
    except UserError as error:
        _fail(str(error), 2)
    except HeadwayError as error:
        _fail(str(error), 1)
    except OSError as error:
        todo = _TODO.get(error.errno or 0)
        if todo is None:
            raise
        _fail(f"{shortened(str(error.filename or 'a file'))}: {error.strerror}; {todo}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            sys.exit(0)
        # A usage error of the command line itself: an unknown option, a missing argument.
        _fail(str(UserError(error.format_message())), getattr(error, "exit_code", 2))  # which may hold any argument


_TODO = {
    **dict.fromkeys(
        (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS),
        "give another path, or make it usable",
    ),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space and run again"),
    **dict.fromkeys((errno.EIO, errno.ESTALE), "see that its file system works and run again"),
}
"""What to do about errors of the system that say that a path was not the right one, or that a file system fails."""


def _fail(message: str, code: int) -> NoReturn:
    typer.secho(f"error: {message}" if code != 130 else message, fg="red", err=True)
    sys.exit(code)

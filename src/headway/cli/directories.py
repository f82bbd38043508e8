"""The verbs on results: status, compare, report, judge, drop, verify, worker and submit.

With `worker` and `submit`, other machines join the work on a directory. `judge` takes a table of runs that another
program trained.
"""

import gc
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.base.text import command_line, counted, listed, with_numbers
from headway.cli import options as opt
from headway.cli.options import (
    app,
    check_writable,
    path_of,
    print_files,
    print_sentences,
    print_tables,
    print_verdict_table,
    print_verdicts,
    say,
    tell,
    tell_plugins,
)
from headway.errors import HeadwayError, RunFailed, UserError

if TYPE_CHECKING:
    from headway.execute.join import Left
    from headway.store.directory import Store


@app.command()
def status(directory: opt.Directory, plugins: opt.Plugins = None) -> None:
    """Show the progress of every run in a results directory.

    Example: headway status results/icl-heads
    """
    from headway.report.progress import status_table

    print_tables(status_table(open_store(directory, plugins)))


Elsewhere = Annotated[
    Path | None, opt.file_option("FOLDER", "Write to this path instead of DIR, which may be read-only.", "--out")
]


@app.command()
def compare(
    directory: opt.Directory,
    other: Annotated[
        Path | None,
        typer.Argument(callback=path_of, metavar="[OTHER]", help="Another results directory to compare DIR with."),
    ] = None,
    out: Elsewhere = None,
    plugins: opt.Plugins = None,
    form: Annotated[
        Literal["latex", "csv", "markdown"] | None,
        typer.Option("--format", help="Print a table with each difference, interval, seeds and verdict."),
    ] = None,
) -> None:
    """Compare the arms of a results directory, and write results.json.

    With OTHER, Headway compares each arm of OTHER with the arm of the same name in DIR, or else with DIR's baseline.
    Both directories need the same task, data and evaluation. With OTHER, Headway writes no files.

    Example: headway compare results/icl-heads --format csv
    """
    from headway.stats.across import compare_directories
    from headway.stats.results import write

    if other is not None and out is not None:
        raise UserError(f"--out {out}: nothing is written when two directories are compared; leave it out")
    out = _elsewhere(directory, out)
    store = open_store(directory, plugins)
    results = write(store, out) if other is None else compare_directories(store, open_store(other, plugins))
    if form is not None:
        print_verdict_table(results, form)
    elif other is not None:
        print_sentences(results)
    else:
        for note in store.compared.compared().notes:
            tell(note)
        print_verdicts(store, results)
        print_files(store, out)


@app.command()
def report(
    directory: opt.Directory,
    out: Elsewhere = None,
    figures: opt.Figures = True,
    look: opt.Look = None,
    plugins: opt.Plugins = None,
    answer: Annotated[
        bool, typer.Option("--answer", help="Also write the answer as Markdown with a picture, for publication.")
    ] = False,
) -> None:
    """Write the report of a results directory, and its figures.

    Redraws every figure. Keeps look.html if it is newer than the runs.

    Example: headway report results/icl-heads --answer
    """
    from headway.api import finish

    out = _elsewhere(directory, out)
    store = open_store(directory, plugins)
    results = finish(store, figures=figures, look=look, out=out, tell=tell)
    if answer:
        from headway.report.experiment.page import write_answer

        say(f"answer: {write_answer(store, results, out)}")
    say(f"report: {(out or store.path) / 'report.html'}")


def _elsewhere(directory: Path, out: Path | None) -> Path | None:
    """The folder that was given to write to; None where it is the results directory itself.

    Raises:
        UserError: when it is another results directory, or nothing can be written there.
    """
    if out is None or (out.is_dir() and directory.is_dir() and out.samefile(directory)):
        return None
    if out.resolve().is_relative_to(directory.resolve()):
        raise UserError(f"--out {out}: it is inside {directory}; name a folder outside of the results directory")
    if out.is_file():
        raise UserError(f"--out {out}: this is a file; give a folder, which may be new")
    check_writable(out, f"--out {out}")
    if (out / "experiment.yaml").exists():
        raise UserError(
            f"--out {out}: it is another results directory, whose results.json and report.html would be replaced; name "
            "another folder"
        )
    return out


_OPEN = 3
"""The exit code of `judge --fail-if-open` where no comparison has a verdict."""


@app.command()
def judge(
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="A CSV, TSV, JSONL or Parquet file, a folder of runs, or - for stdin."),
    ],
    arm: Annotated[
        str | None, typer.Option(metavar="A,B", help="The columns that together name an arm. Default: guessed.")
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="The column with the metric.")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column with the random seed. Default: one named seed.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(metavar="ARM", help="The arm to compare the others with.")] = None,
    margin: Annotated[
        str, typer.Option(metavar="SHARE", help="The smallest difference that matters, such as 0.5%.")
    ] = "1%",
    higher_is_better: Annotated[bool, typer.Option("--higher-is-better", help="Higher values are better.")] = False,
    lower_is_better: Annotated[bool, typer.Option("--lower-is-better", help="Lower values are better.")] = False,
    at: Annotated[
        str,
        typer.Option(metavar="last|best|STEP", help="The step at which arms are compared: last, best or a number."),
    ] = "last",
    step: Annotated[str | None, typer.Option(metavar="NAME", help="The column with the training step.")] = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Do not pair runs by seed. Use this if each run had a different seed.")
    ] = False,
    out: Annotated[Path | None, opt.file_option("DIR", "The folder for report.html and results.json.")] = None,
    as_json: opt.AsJson = False,
    fail_if_open: Annotated[
        bool, typer.Option("--fail-if-open", help="Exit with code 3 if no comparison has a verdict.")
    ] = False,
) -> None:
    """Compare runs that another program trained, from a table of results.

    Compares each arm with a baseline, as `headway compare` does for Headway's own runs. Guesses the columns that you do
    not name; if several columns fit, an error lists them. If the table cannot be read, the exit code is 2.

    Example: headway judge runs.csv --arm optimizer --seed seed --metric val_loss --baseline adamw
    """
    from headway.adaptive.until import margin_of
    from headway.judged.judge import judge as judged
    from headway.stats.answer import answer

    if higher_is_better and lower_is_better:
        raise UserError("--higher-is-better and --lower-is-better: give one of them")
    if out is not None:
        check_writable(out, f"--out {out}")
    results = judged(
        table,
        arm=None if arm is None else [name.strip() for name in arm.split(",")],
        metric=metric,
        seed=seed,
        step=step,
        baseline=baseline,
        better="higher" if higher_is_better else "lower" if lower_is_better else None,
        at=at,
        margin=margin_of(margin, "--margin"),
        unpaired=unpaired,
    )
    if as_json:
        say(json.dumps(results.to_json(), indent=1))
    else:
        for warning in results.warnings:
            tell(f"warning: {warning}")
        for sentence in answer(results):
            say(sentence)
        for note in results.notes:
            say(note)
    if out is not None:
        from headway.report.judged import write_judged

        tell(f"report: {write_judged(results, out)}")
    if fail_if_open and not any(comparison.is_settled for comparison in results.judged):
        raise SystemExit(_OPEN)


@app.command()
def drop(
    directory: opt.Directory,
    names: Annotated[list[str], typer.Argument(metavar="ARM[+CONTROL]...", help="The arms whose runs are moved.")],
    seeds: Annotated[
        str | None, typer.Option(metavar="A,B|A-B", help="Move only these seeds, such as `2`, `0,2` or `0-2`.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Delete the runs instead of moving them.")] = False,
) -> None:
    """Move the runs of one or more arms to DIR/dropped.

    Example: headway drop results/icl-heads h8 --seeds 0,2
    """
    from headway.config.document import parse_seeds
    from headway.store.directory import seed_of

    store, chosen = open_store(directory), None if seeds is None else parse_seeds(seeds)
    before, document = set(store.gone()), directory / "experiment.yaml"
    folders = store.drop(*names, seeds=chosen, delete=force)
    noted = sorted(before - set(store.gone()))
    said = [f"{listed(noted)} had no folder; removed from {document}"] if noted else []
    if folders:
        of = f"{listed(dict.fromkeys(names))} ({with_numbers('seed', map(seed_of, folders))})"
        where = "" if force else f" to {directory / 'dropped'}"
        said.append(f"{'deleted' if force else 'moved'} {counted(len(folders), 'run')} of {of}{where}")
    them = "it" if len(folders) + len(noted) == 1 else "them"
    left_out = f"`headway compare` and `headway report` leave {them} out"
    if unknown := sorted(set(names) - {arm.full_name for arm in store.experiment.arms}):
        said.append(f"{left_out}, and nothing trains {them} again, since {document} has no arm {listed(unknown)}")
    else:
        said.append(f"`{command_line('run', directory)}` trains {them} again, and {left_out} until then")
    say("; ".join(said))


@app.command()
def verify(directory: opt.Directory) -> None:
    """Check every stored file, and list damaged and missing files.

    Example: headway verify results/icl-heads
    """
    from headway.store.verify import verify as look_at

    found = []
    for looked in look_at(directory):
        found.append(looked)
        for damage in looked.damages:
            say(f"damaged: {damage}")
    runs, whole = counted(len(found) - 1, "run"), sum(looked.n_bytes for looked in found)
    if n := sum(looked.held for looked in found):
        say(f"{counted(n, 'run')} of {len(found) - 1}: skipped, since a process is working there")
    read = f"{runs}: {counted(sum(looked.n_files for looked in found), 'file')} ({whole / 1e6:,.1f} MB) read"
    if n := sum(len(looked.damages) for looked in found):
        raise HeadwayError(f"{read}, {counted(n, 'damage')}")
    say(f"{read}, everything is as it was written")


def open_store(directory: Path, plugins: list[str] | None = None) -> "Store":
    """The results directory there; which code of one's own is run for it is told."""
    from headway.store.directory import Store

    gc.set_threshold(50_000, 20, 100)  # records of thousands of runs are many values without cycles: 7 % of the time
    store = Store.open(directory, plugins or ())
    tell_plugins(store.experiment)
    return store


Slots = Annotated[
    int | None, opt.whole_number(1, "The number of runs to train at once. Default: one per core or GPU.", most=10_000)
]

_STOPPED, _LEFT = 130, 75
"""Exit codes of a worker, the latter EX_TEMPFAIL of sysexits.h: a scheduler's script then puts its job back."""


@app.command()
def worker(
    directory: opt.Directory,
    slots: Slots = None,
    device: opt.OnDevice = "auto",
    runs_per_gpu: opt.RunsPerGpu = 1,
    trainer: opt.Trainer = "auto",
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Store checkpoints and stop, such as after 1h50m or at 18:30."),
    ] = None,
    tell_left: Annotated[
        bool, typer.Option("--tell-left", help="Exit with code 75 if runs remain at SIGUSR1 or at the --until time.")
    ] = False,
    trust_code: opt.TrustCommands = False,
) -> None:
    """Train the unfinished runs of a results directory, on any machine.

    Trains runs that no other worker has claimed, longest first, until no run remains or the --until time is reached.
    After SIGTERM, Ctrl-C or SIGUSR1, the worker stores checkpoints and releases its runs. The exit code is 0, 1 if runs
    failed, 2 for an error in the command, or 130 after a signal.

    Example: headway worker results/icl-heads
    """
    from headway.execute.join import Joining, deadline
    from headway.execute.sweep import ExecutionOptions
    from headway.report.progress import watch

    options = ExecutionOptions(
        workers=slots, device=device, runs_per_gpu=runs_per_gpu, trainer=trainer, trust_code=trust_code
    )
    joining = Joining(directory=directory, options=options, until=None if until is None else deadline(until))
    try:
        left = joining.work(watch, tell)
    except KeyboardInterrupt as stopped:
        left = joining.left()
        tell(f"stopped; checkpoints are stored: {left}")
        # Who ends it by hand does not want it back.
        comes_back = tell_left and left.undone and stopped.args[:1] == (signal.SIGUSR1,)
        raise SystemExit(_LEFT if comes_back else _STOPPED) from None
    _end(directory, left, tell_left=tell_left)


def _end(directory: Path, left: "Left", *, tell_left: bool) -> None:
    """Print what a worker leaves undone when it ends by itself, and choose its exit code."""
    say(f"{'time is up' if left.undone else 'done'}: {left}")
    if tell_left and left.undone:
        raise SystemExit(_LEFT)
    if left.failed_here:
        raise RunFailed(
            f"{left.failed_here} of the runs failed meanwhile; `headway status {directory}` shows why, and "
            "`headway run` tries them again"
        )


@app.command()
def submit(
    directory: opt.Directory,
    array: Annotated[int, typer.Option(metavar="N", help="The number of jobs; each job runs one worker.")] = 1,
    time: Annotated[str, typer.Option(metavar="TIME", help="The time limit of each job, such as 2:00:00.")] = "1:00:00",
    sbatch: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A further option for sbatch; repeatable.")
    ] = None,
    slots: Slots = None,
    device: opt.OnDevice = "auto",
    runs_per_gpu: opt.RunsPerGpu = 1,
    trainer: opt.Trainer = "auto",
    trust_code: opt.TrustCommands = False,
) -> None:
    """Submit Slurm jobs that train the runs of a results directory.

    Each job stores checkpoints before its time limit, and returns to the queue if runs remain.

    Example: headway submit results/icl-heads --array 20
    """
    from headway.execute.slurm import submit as submit_to_slurm
    from headway.execute.sweep import ExecutionOptions
    from headway.store.environment import check_device

    if not device.startswith("cuda"):  # what GPUs the nodes have is not known here
        check_device(device, workers=slots, runs_per_gpu=runs_per_gpu)
    options = ["--device", device, "--trainer", trainer, "--runs-per-gpu", str(runs_per_gpu)]
    options += [] if slots is None else ["--slots", str(slots)]
    ExecutionOptions(trust_code=trust_code).check_trusted(directory, open_store(directory).experiment.arms)
    options += ["--trust-code"]  # a node may not know what this user has typed here
    jobs = submit_to_slurm(directory, array=array, time=time, sbatch=sbatch or (), options=options)
    say(f"submitted {len(jobs)} jobs ({jobs[0]} ...); their logs: {directory / 'slurm'}; `headway status {directory}`")

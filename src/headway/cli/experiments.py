"""The verbs on experiments: list, show, plan, run."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.base.text import capital
from headway.cli import options as opt
from headway.cli.options import app, print_files, print_tables, print_verdicts, say, tell, tell_plugins, warn
from headway.errors import RunFailed, UserError, shortened

if TYPE_CHECKING:
    from headway.config.experiment import Experiment


@app.command("list")
def list_() -> None:
    """List the experiments that come with Headway."""
    from headway.config.yaml import read_file, shipped

    experiments = {name: read_file(path) for name, path in shipped().items()}
    groups: dict[str, list[str]] = {}
    for name, content in experiments.items():
        line = f"{name:<{max(map(len, experiments))}}  {len(content['arms']):>2} arms  {content['question']}"
        groups.setdefault(content.get("about", "other things"), []).append(line)
    say("\n\n".join("\n".join((f"{capital(about)}:", *groups[about])) for about in sorted(groups)))


@app.command()
def show(name: opt.Name, scale: opt.Scale = None, settings: opt.Settings = None, plugins: opt.Plugins = None) -> None:
    """Print the complete file of an experiment, as a template for your own.

    Example: headway show icl-heads > mine.yaml
    """
    from headway.config.load import load

    experiment = load(name, scale=scale, settings=settings or (), plugins=plugins or ())
    experiment.check_settings()
    tell_plugins(experiment)
    say(experiment.dump(as_given=True), end="")


@app.command()
def plan(
    name: opt.Name,
    scale: opt.Scale = None,
    settings: opt.Settings = None,
    arms: opt.Arms = None,
    control: opt.Controls = None,
    seeds: opt.Seeds = None,
    plugins: opt.Plugins = None,
    timing: Annotated[bool, typer.Option(help="Time a few training steps of each arm on this machine.")] = True,
    out: Annotated[Path | None, opt.file_option("FILE", "Plot the parameters to a png, svg, pdf or html file.")] = None,
) -> None:
    """Show the parameters, FLOPs, memory and training time of each arm.

    Counts the parameters of each part of the model, times a few training steps, and lists arms with equal parameters
    or FLOPs. Fails if `headway run` would be unable to read the data.

    Example: headway plan head-progression
    """
    from headway.api import about_comparisons, as_compared
    from headway.execute.costs import costs, preflight, remarks, too_large
    from headway.execute.worker import set_up_process
    from headway.report.charts.parameters import write_picture
    from headway.report.plan import PlannedCosts
    from headway.report.progress import follow_trials
    from headway.store.directory import is_directory

    cache = set_up_process(threads=1)  # as a worker has a core to itself
    experiment = _experiment(name, scale, settings, arms, control, seeds, plugins)
    place = Path(name) if is_directory(name) else experiment.directory
    experiment = as_compared(experiment, place)
    notes = preflight(experiment)
    for said in (*experiment.ignored_settings, *remarks(experiment)):
        warn(said)
    for said in (*experiment.no_op_controls, *about_comparisons(experiment, place)):
        tell(said)
    found = costs(experiment, trial=timing, follow=follow_trials)
    planned = PlannedCosts(experiment=experiment, costs=found)
    for said in too_large(found):
        warn(said)
    if cache and "torch" in sys.modules:
        warn(cache)
    print_tables(*planned.tables(), *planned.starts())
    for sentence in (*planned.sentences(), *notes):
        say(sentence)
    if out is not None:
        say(f"figure: {write_picture(out, planned.picture.figure(f'Parameters of {experiment.name}'))}")


@app.command()
def run(
    name: opt.NameOrDirectory,
    scale: opt.Scale = None,
    settings: opt.Settings = None,
    arms: opt.Arms = None,
    control: opt.Controls = None,
    seeds: opt.Seeds = None,
    plugins: opt.Plugins = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="X%",
            help="Instead of --seeds: add seeds until each comparison has a verdict, with an equivalence margin of X%.",
        ),
    ] = None,
    at_most: Annotated[
        int | None,
        typer.Option("--max-seeds", metavar="N", help="The maximum number of seeds for --until. Default: 12."),
    ] = None,
    workers: Annotated[
        int | None, opt.whole_number(1, "The number of runs to train at once. Default: one per core.", most=10_000)
    ] = None,
    trainer: opt.Trainer = "auto",
    together: Annotated[
        str,
        typer.Option(
            "--batch-runs",
            metavar="auto|N|1",
            help="Train up to N runs with equal model shapes as one batch; auto: only small runs.",
        ),
    ] = "auto",
    device: opt.OnDevice = "auto",
    runs_per_gpu: opt.RunsPerGpu = 1,
    ray: Annotated[
        str | None,
        typer.Option(metavar="auto|ADDRESS", help="Train on a Ray cluster that you started with `ray start`."),
    ] = None,
    timing: Annotated[
        bool | None,
        typer.Option(
            "--timing/--no-timing",
            help="After training, time each language model without other runs. Default: only if this is quick.",
        ),
    ] = None,
    figures: opt.Figures = True,
    look: opt.Look = None,
    directory: Annotated[Path | None, opt.file_option("DIR", "Folder. Default: results/NAME-SCALE.", "--out")] = None,
    trust_code: opt.TrustCommands = False,
) -> None:
    """Train every arm and seed, compare the arms, and write a report.

    If the results directory exists, Headway trains only the missing runs. `headway run DIR` trains all
    unfinished runs that earlier commands asked for. You can stop with Ctrl-C and resume later. With --until, repeated
    tests do not raise the false-positive rate (a group-sequential plan).

    Example: headway run icl-heads --seeds 3
    """
    from headway.adaptive.until import goal_of
    from headway.api import carry_out
    from headway.execute.sweep import ExecutionOptions
    from headway.report.progress import watch
    from headway.store.directory import is_directory

    goal = goal_of(until=until, at_most=at_most, seeds=seeds)
    store, runs, _ = carry_out(
        _experiment(name, scale, settings, arms, control, seeds, plugins, directory),
        Path(name) if is_directory(name) else directory,
        where=ExecutionOptions(
            trust_code=trust_code,
            workers=workers,
            trainer=trainer,
            together=together,
            device=device,
            runs_per_gpu=runs_per_gpu,
            ray=ray,
        ),
        timing=timing,
        figures=figures,
        look=look,
        goal=goal,
        warn=warn,
        tell=tell,
        watch=watch,
        show=print_verdicts,
    )
    print_files(store)
    unfinished = [run for run in (store.run(run.name, run.seed) for run in runs) if run.status != "done"]
    if unfinished:
        damaged = any(run.status == "damaged" for run in unfinished)
        again = "tries them again" + ("; move damaged runs aside first (`headway drop`)" if damaged else "")
        raise RunFailed(
            f"{len(unfinished)} of {len(runs)} runs gave no result; see the reasons above and in log.txt of each run's "
            f"folder. The same command {again}"
        )


def _experiment(
    name: str,
    scale: str | None,
    settings: list[str] | None,
    arms: str | None,
    controls: list[str] | None,
    seeds: str | None,
    plugins: list[str] | None,
    directory: Path | None = None,
) -> "Experiment":
    from headway.config.load import load
    from headway.store.directory import asked_in, is_directory

    if is_directory(name):
        given = {"--scale": scale, "--set": settings, "--out": directory}
        changed = [option for option, value in given.items() if value is not None]
        experiment = asked_in(Path(name), plugins=plugins or (), changed=changed)
    else:
        experiment = load(name, scale=scale, settings=settings or (), plugins=plugins or ())
    tell_plugins(experiment)
    chosen = None if arms is None else [arm for arm in arms.split(",") if arm]
    selected = experiment.select(arms=chosen, controls=controls, seeds=_seeds(seeds))
    selected.check_settings()
    return selected


def _seeds(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part] if "," in text else int(text)
    except ValueError:
        raise UserError(f"--seeds {shortened(text)}: give a number, such as 5, or a list, such as 3,5") from None

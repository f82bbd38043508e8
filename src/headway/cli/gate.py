"""The verb gate: keep or discard a change to any training command, without being fooled by one lucky run."""

import json
import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from headway.cli import options as opt
from headway.cli.options import app, path_of, say, tell
from headway.errors import UserError, shortened

gate = typer.Typer(rich_markup_mode=None)

EXIT_CODES = {"keep": 0, "discard": 10, "undecided": 11}

GateDirectory = Annotated[Path, typer.Argument(callback=path_of, metavar="DIR", help="The gate's directory.")]

_NUMBER = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)\s*(%?)\s*")
_MOST_PAIRS = 1_000


@gate.callback(invoke_without_command=True)
def _gate(ctx: typer.Context) -> None:
    """Test changes to a training command; keep or discard each change.

    The probability that the gate ever keeps a useless change stays below a rate that you set (docs/gate.md).
    """
    if ctx.invoked_subcommand is None:
        raise UserError("headway gate: type `headway gate init DIR ...` first, then `headway gate try DIR ...`")


@gate.command()
def init(
    directory: GateDirectory,
    metric: Annotated[str, typer.Option(metavar="NAME", help="The metric that a run prints, such as val_bpb.")],
    run: Annotated[
        str, typer.Option(metavar="COMMAND", help="The command of the first champion; {seed} stands for a random seed.")
    ] = "",
    margin: Annotated[
        str,
        typer.Option(metavar="X%|X", help="The smallest improvement that matters, in per cent or in metric units."),
    ] = "0",
    budget: Annotated[int, opt.whole_number(2, "At most N pairs of runs per challenger.", most=_MOST_PAIRS)] = 12,
    rate: Annotated[
        str, typer.Option(metavar="X%", help="The probability of ever keeping a useless change; below 50%.")
    ] = "5%",
    challengers: Annotated[
        int, opt.whole_number(1, "The planned number of challengers; later tests are stricter.", most=1_000_000)
    ] = 50,
    higher_is_better: Annotated[
        bool, typer.Option("--higher-is-better/--lower-is-better", help="Whether a higher or a lower metric is better.")
    ] = False,
) -> None:
    """Create a gate; your current command is its first champion.

    Example: headway gate init results/gate --metric val_bpb --run "python train.py --seed {seed}" --margin 0.3%
    """
    from headway.config.plugins import allow_command
    from headway.gate.command import Candidate
    from headway.gate.journal import GateSettings, Journal
    from headway.gate.trial import pairs_to_keep

    margin_value, is_percent = _number(margin, f"--margin {margin}", "0.3% or 0.01")
    chance = _rate(rate)
    if not re.fullmatch(r"[^\s=:\"']+", metric):
        raise UserError(f"--metric {shortened(repr(metric))}: give one word as runs print it, such as val_bpb")
    settings = GateSettings(
        metric=metric,
        margin=margin_value,
        is_percent=is_percent,
        budget=budget,
        rate=chance,
        challengers=challengers,
        lower_is_better=not higher_is_better,
        first_seed=secrets.randbelow(2**30),  # drawn, so that nobody has chosen a change by runs with it
    )
    needed = pairs_to_keep(settings, challenger=1)
    champion = Candidate.typed("baseline", run, Path.cwd()) if run else Candidate(name="baseline")
    allow_command(champion.run, champion.folder)
    Journal.create(directory, settings, champion)
    say(f"{directory}: keeping a change takes {needed} to {budget} pairs of runs; try a change with `headway gate try`")


@gate.command("try")
def try_(
    directory: GateDirectory,
    run: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="The challenger's command; {seed} stands for a random seed.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            callback=path_of,
            metavar="FILE",
            help="Instead of --run: a CSV or JSONL file with columns arm (champion or challenger), seed and metric.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The challenger's name.")] = None,
    timeout: Annotated[int | None, opt.whole_number(1, "Number of seconds after which a run counts as failed.")] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run the champion's command even if somebody else typed it.")
    ] = False,
) -> None:
    """Compare a challenger, a changed command, with the champion.

    The exit code is 0 for keep, 10 for discard and 11 for undecided. To resume an interrupted comparison, type the same
    command again.

    Example: headway gate try results/gate --run "python wider.py --seed {seed}" --name wider
    """
    from headway.execute.stop import SignalHandler
    from headway.gate.run_file import try_results
    from headway.gate.trial import try_command

    if (run is None) == (results is None):
        raise UserError("headway gate try: give the challenger's command with --run, or a file of runs with --results")
    if run is None:
        verdict = try_results(directory, results or Path(), name=name)
    else:
        with SignalHandler().heard():
            verdict = try_command(directory, run or "", name=name, timeout=timeout, trust_code=trust_code, tell=tell)
    say(json.dumps(verdict, ensure_ascii=False))
    raise SystemExit(EXIT_CODES[verdict["verdict"]])


def _rate(text: str) -> float:
    """Return a chance that was given in per cent.

    Raises:
        UserError: if the text is none.
    """
    chance, is_percent = _number(text, f"--rate {text}", "5%")
    if not is_percent or not 0 < chance < 50:
        raise UserError(f"--rate {text}: give a chance in per cent, above 0% and below 50%, such as 5%")
    return chance / 100


def _number(text: str, asked: str, example: str) -> tuple[float, bool]:
    """Return a number of 0 or more, and whether it is in per cent.

    Raises:
        UserError: if the text is none.
    """
    written = _NUMBER.fullmatch(text)
    if not written:
        raise UserError(f"{asked}: it is not a number of 0 or more; type {example}")
    return float(written[1]), bool(written[2])


app.add_typer(gate, name="gate")

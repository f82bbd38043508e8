"""Door: the verbs with which other machines join the work on a results directory: worker, submit."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headway.cli.options import Directory, app

if TYPE_CHECKING:
    from headway.runs.joining import Left

Slots = Annotated[
    int | None, typer.Option(min=1, max=10_000, metavar="N", help="Runs at a time; by default a core or a GPU each.")
]
Trainer = Annotated[Literal["auto", "fused", "torch"], typer.Option(help="fused is native code.")]
Together = Annotated[
    str, typer.Option(metavar="auto|N|1", help="Of no effect: `headway run` fixes it when it makes runs.")
]
OnDevice = Annotated[str, typer.Option(metavar="auto|cpu|cuda[:N]", help="auto takes GPUs where there are any.")]
RunsPerGpu = Annotated[int, typer.Option(metavar="N", help="Runs that share a GPU.")]

_STOPPED, _LEFT = 130, 75
"""Exit codes of a worker, the latter EX_TEMPFAIL of sysexits.h: a scheduler's script then puts its job back."""


@app.command()
def worker(
    directory: Directory,
    slots: Slots = None,
    device: OnDevice = "auto",
    runs_per_gpu: RunsPerGpu = 1,
    trainer: Trainer = "auto",
    together: Together = "auto",
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Store and stop then: after 1h50m, or at 18:30.")
    ] = None,
    tell_left: Annotated[
        bool, typer.Option("--tell-left", help="Exit with 75 after SIGUSR1, or when time is up, if runs are left.")
    ] = False,
) -> None:
    """Join the work on a results directory, on any machine that sees it.

    Takes runs that nobody works on, the longest first, until nothing is left or it is time. SIGTERM, Ctrl-C and SIGUSR1
    store a checkpoint of each and let go. Exits with 0, with 1 when runs failed meanwhile, with 2 for a user's error,
    and with 130 when a signal stopped it.
    """
    from functools import partial

    from headway.runs.deadline import deadline
    from headway.runs.joining import Joining
    from headway.show.terminal.progress import watch

    joining = Joining(
        directory=directory,
        slots=slots,
        device=device,
        runs_per_gpu=runs_per_gpu,
        trainer=trainer,
        together=together,
        until=None if until is None else deadline(until),
    )
    try:
        left = joining.work(watch, partial(typer.echo, err=True))
    except KeyboardInterrupt as stopped:
        left = joining.left()
        typer.echo(f"stopped; what was worked on is stored: {left}", err=True)
        # Who ends it by hand does not want it back.
        comes_back = tell_left and left.undone and stopped.args[:1] == (signal.SIGUSR1,)
        raise SystemExit(_LEFT if comes_back else _STOPPED) from None
    _end(directory, left, tell_left=tell_left)


def _end(directory: Path, left: "Left", *, tell_left: bool) -> None:
    """What a worker says when it ends by itself, and its exit code."""
    from headway.errors import RunFailed

    print(f"{'time is up' if left.undone else 'done'}: {left}")
    if tell_left and left.undone:
        raise SystemExit(_LEFT)
    if left.failed_here:
        raise RunFailed(
            f"{left.failed_here} of the runs failed meanwhile; `headway status {directory}` says why, and "
            "`headway run` tries them again"
        )


@app.command()
def submit(
    directory: Directory,
    slurm: Annotated[bool, typer.Option("--slurm", help="To Slurm, from a machine that has sbatch.")] = False,
    array: Annotated[int, typer.Option(metavar="N", help="Jobs, each a worker.")] = 1,
    time: Annotated[str, typer.Option(metavar="TIME", help="The limit of a job, as in 2:00:00.")] = "1:00:00",
    sbatch: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Further options of sbatch; repeatable.")
    ] = None,
    slots: Slots = None,
    device: OnDevice = "auto",
    runs_per_gpu: RunsPerGpu = 1,
    trainer: Trainer = "auto",
    together: Together = "auto",
) -> None:
    """Have a scheduler start workers that join a results directory.

    Each stores before its time limit, and comes back into the queue by itself while something is left.
    """
    from headway.errors import UserError
    from headway.runs.batches import checked_together
    from headway.runs.devices import check_device
    from headway.runs.slurm import submit as submit_to_slurm

    if not device.startswith("cuda"):  # what GPUs the nodes have is not known here
        check_device(device, workers=slots, runs_per_gpu=runs_per_gpu)
    if not slurm:
        raise UserError("submit: to what? --slurm is what there is; elsewhere start `headway worker` yourself")
    options = ["--device", device, "--trainer", trainer, "--runs-per-gpu", str(runs_per_gpu)]
    options += ["--together", checked_together(together)]
    options += [] if slots is None else ["--slots", str(slots)]
    jobs = submit_to_slurm(directory, array=array, time=time, sbatch=sbatch or (), options=options)
    print(
        f"submitted {len(jobs)} jobs ({jobs[0]} ...); their logs: {directory / 'slurm'}; `headway status {directory}`"
    )

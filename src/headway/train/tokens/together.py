"""Train: studies of runs of one shape, which are trained as one batched program."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from headway.data.tokens.examples import Batch, Examples, open_examples
from headway.declare.tokens.run import TokensRun
from headway.train.device import find_device
from headway.train.loop import Study
from headway.train.meter import Meter
from headway.train.tokens.ensemble import Ensemble, members_of
from headway.train.tokens.judge import check_judged
from headway.train.tokens.loss import TokensLoss
from headway.train.tokens.schedule import steps_of
from headway.train.tokens.study import execution_of, initial_module, study_of


def open_together(runs: Sequence[TokensRun], *, device: str = "auto", joins: Collection[int] = ()) -> tuple[Study, ...]:
    """A study of each of some runs; advanced in turn, they take their steps together.

    Args:
        runs: of one shape (`RunSpec.shape`).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        joins: steps at which runs that were stored there are put in.

    Raises:
        UserError: as `open_study`.
    """
    assert len({run.shape for run in runs}) == 1
    assert runs[0].shape is not None
    place = find_device(device)
    examples = open_examples(runs[0].task)
    steps = steps_of(runs[0], examples)
    check_judged(runs[0], examples)
    meter = Meter(place)
    ensemble, losses = ensemble_of(runs, examples, steps, place, joins)
    execution = {**execution_of(examples, place, compiled=False), "together": len(runs)}
    memory = partial(_shared, meter, len(runs))
    return tuple(
        replace(study_of(loss, examples, steps, trainer=member, execution=execution, memory=memory), clock=member.clock)
        for loss, member in zip(losses, members_of(ensemble), strict=True)
    )


def ensemble_of(
    runs: Sequence[TokensRun], examples: Examples, steps: int, place: torch.device, joins: Collection[int] = ()
) -> tuple[Ensemble, list[TokensLoss]]:
    """Runs of one shape at their beginnings, as one batched program, and what judges each."""
    losses = [TokensLoss(run, initial_module(run, examples).to(place), compile=False) for run in runs]

    def batch(member: int, step: int) -> Batch:
        # The first step of a trainer is 1, the first batch 0.
        return examples.training_batch(runs[member].seed, step - 1, runs[member].training.batch_size)

    ensemble = Ensemble(
        [loss.module for loss in losses], [run.training for run in runs], steps, batch, losses[0].asked_last, joins
    )
    return ensemble, losses


def _shared(meter: Meter, n: int) -> Mapping[str, int]:
    """What the process takes, and each member's share of what its models take."""
    found = meter.metrics()
    return {**found, "memory_bytes": found["memory_bytes"] // n}

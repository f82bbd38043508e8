"""The study of a language-model run: its trainer, its measurements during training, and its evaluation.

Arms are paired: runs of one seed get equal batches in equal order, and equal initial weights wherever names and
shapes agree. The evaluation data depend on the task alone.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from headway.base import rng
from headway.base.files import json_text
from headway.config.lm.run import TokensRun
from headway.data.batch import Examples, open_examples
from headway.errors import UserError
from headway.models.transformer import Transformer
from headway.models.weights import Weights, initial_weights
from headway.store.records import BEGINNING
from headway.train.device import Meter, check_precision, find_device
from headway.train.lm.evaluate import check_judged, judge_of
from headway.train.lm.init_from import Started, begin
from headway.train.lm.loss import Parts, TokensLoss, guided
from headway.train.lm.optimizer import rate_share, steps_of, tokens_optimizers
from headway.train.lm.probes import METRICS, ablated, head_probes
from headway.train.loop import InitFrom, Study, Trainer, TrainerChoice
from headway.train.torch_trainer import Part, Rules, TorchTrainer, compiling_obstacle

_WORTH_COMPILING = {"cuda": 1_000, "bf16": 2_000, "fp32": 5_000}
"""Steps from which on compiling, about half a minute, is won back: on GPUs, and on processors in either precision."""


def open_study(
    run: TokensRun,
    *,
    trainer: TrainerChoice = "auto",
    compile: bool | None = None,
    device: str = "auto",
    origin: InitFrom | None = None,
    beginning: Mapping[str, Any] | None = None,
) -> Study:
    """A run, ready to be trained from its initial weights, or from those of the run that it starts from.

    Args:
        run: what is asked for.
        trainer: `auto` and `torch` are the same.
        compile: whether torch compiles the loss; None: where that pays. Where torch cannot, a warning says so.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        origin: see `TrainingSlice.open_study`.
        beginning: see there.

    Raises:
        UserError: for a corpus or tokenizer that cannot be used, a text that is too short, or a device or precision
            that is not to be had.
    """
    if trainer == "fused":
        raise UserError("trainer fused: it trains in-context models of one layer only; take auto")
    place = find_device(device)
    check_precision(run.training.precision, place)
    examples = open_examples(run.task)
    steps = steps_of(run, examples)
    check_judged(run, examples)
    compiled = _compiles(run, compile, steps, place)
    meter = Meter(place)  # what torch loads for compiling is loaded by now, and no part of what the model takes
    begun, weights = _begun(run, origin, beginning, examples, place)
    run = run if begun is None else run.model_copy(update={"model": begun.model})
    module = Transformer(run.model, examples.vocab_size, weights)
    loss = TokensLoss(run, module.to(place), compile=compiled)
    return study_of(
        loss,
        examples,
        steps,
        trainer=tokens_trainer(loss, steps, _metered(_parts(loss, examples, begun), meter)),
        execution=execution_of(examples, place, compiled),
        memory=meter.metrics,
        begun=begun,
    )


def initial_module(run: TokensRun, examples: Examples) -> Transformer:
    """The model that a run starts from."""
    weights = initial_weights(run.model, examples.vocab_size, run.seed)
    return Transformer(run.model, examples.vocab_size, weights)


def study_of(
    loss: TokensLoss,
    examples: Examples,
    steps: int,
    *,
    trainer: Trainer,
    execution: Mapping[str, Any],
    memory: Callable[[], Mapping[str, int]],
    begun: Started | None = None,
) -> Study:
    """Return the study that the loop drives: a trainer of a loss's model, with the measurements of that model."""
    run = loss.run
    judge, after = judge_of(run, examples, loss, steps), ablated(run.after.ablate, examples, loss, steps)
    return Study(
        trainer=trainer,
        measures=(*judge.measures(), *head_probes(run, examples, loss, steps), *after),
        execution=execution,
        conclude=judge.conclude,
        loss=f"train_{run.task.loss}",
        terms=tuple(term.metric for term in run.training.regularizers),
        steps=steps,
        extra=judge.extra,
        carried=(f"train_{run.task.loss}", *(METRICS if after else ())),
        files={**examples.files, **({} if begun is None else {BEGINNING: json_text(begun.content)})},
        memory=memory,
    )


def tokens_trainer(loss: TokensLoss, steps: int, parts: Parts) -> TorchTrainer:
    """Return the trainer of a loss's model for a number of steps, on the parts of each step's batch.

    The parts hold inputs and targets; the additional inputs of a guided loss are added here.
    """
    run, parameters = loss.run, dict(loss.module.named_parameters())
    return TorchTrainer(
        parameters,
        tokens_optimizers(run.training, parameters),
        parts=guided(parts, run, steps, loss.device) if loss.guided else parts,
        loss=loss.value,
        rules=Rules(
            rate_share=partial(rate_share, run.training, steps=steps),
            clip=run.training.clip,
            seed=partial(rng.key, run.seed, "dropout") if run.model.dropout else None,
        ),
    )


def _begun(
    run: TokensRun,
    origin: InitFrom | None,
    beginning: Mapping[str, Any] | None,
    examples: Examples,
    place: torch.device,
) -> tuple[Started | None, Weights]:
    """Return how a run started from another run, and its weights; a resumed run restores its weights later."""
    if run.start is None or beginning is not None:
        begun = None if beginning is None else Started.read(run, beginning)
        model = run.model if begun is None else begun.model
        return begun, initial_weights(model, examples.vocab_size, run.seed)
    if origin is None:
        raise UserError(f"it starts from {run.start.run}, and that run was not given; train it in its directory")
    began = begin(run, origin, examples, place)
    return began.begun, began.weights


def _parts(loss: TokensLoss, examples: Examples, begun: Started | None) -> Parts:
    run, behind = loss.run, 0 if begun is None else begun.steps_before
    # The first step of a trainer is 1, the first batch of a corpus 0.
    return lambda step: loss.split(examples.training_batch(run.seed, behind + step - 1, run.training.batch_size))


def _metered(parts: Parts, meter: Meter) -> Parts:
    """Return the parts unchanged; at the second step, after compilation, start measuring the memory of training."""
    steps = itertools.count()

    def metered(step: int) -> Sequence[Part]:
        if next(steps) == 1:
            meter.begin_training()
        return parts(step)

    return metered


def _compiles(run: TokensRun, asked: bool | None, steps: int, place: torch.device) -> bool:
    kind = "cuda" if place.type == "cuda" else run.training.precision
    compile = steps >= _WORTH_COMPILING[kind] if asked is None else asked
    if compile and (obstacle := compiling_obstacle(place.type)):
        warnings.warn(obstacle, RuntimeWarning, stacklevel=3)
        return False
    return compile


def execution_of(examples: Examples, place: torch.device, compiled: bool) -> dict[str, Any]:
    """Return the execution record of a run."""
    computed = {"trainer": "torch", "device": place.type, "compile": compiled, "corpus": examples.digest}
    if place.type == "cuda":
        gpu = torch.cuda.get_device_properties(place)
        computed |= {"gpu": gpu.name, "gpu_memory_bytes": gpu.total_memory}
    return computed

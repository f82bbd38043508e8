"""The study of a language-model run: its trainer, its measurements during training, and its evaluation.

Arms are paired: runs of one seed get equal batches in equal order, and equal initial weights wherever names and
shapes agree. The evaluation data depend on the task alone.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from headway.base import rng
from headway.base.files import json_text
from headway.config.lm.run import TokensRun
from headway.data.batch import Examples, open_examples
from headway.errors import UserError
from headway.models.transformer import Transformer
from headway.models.weights import Weights, initial_weights
from headway.store.records import INIT_RECORD
from headway.train.device import Meter, check_precision, find_device
from headway.train.lm.evaluate import judge_class
from headway.train.lm.loss import Parts, TokensLoss, guided
from headway.train.lm.optimizer import rate_share, steps_of, tokens_optimizers
from headway.train.lm.probes import METRICS, ablated, head_probes
from headway.train.loop import InitFrom, Study, Trainer, TrainerChoice
from headway.train.torch_trainer import Part, TorchTrainer, compiling_obstacle

if TYPE_CHECKING:
    from headway.train.lm.init_from import InitRecord

_WORTH_COMPILING = {"cuda": 1_000, "bf16": 2_000, "fp32": 5_000}
"""Steps from which on compiling, about half a minute, is won back: on GPUs, and on processors in either precision."""


def open_study(
    run: TokensRun,
    *,
    trainer: TrainerChoice = "auto",
    compile: bool | None = None,
    device: str = "auto",
    init_from: InitFrom | None = None,
    init_record: Mapping[str, Any] | None = None,
) -> Study:
    """A run, ready to be trained from its initial weights, or from those of the run that it starts from.

    Args:
        run: the declared run.
        trainer: `auto` and `torch` are the same.
        compile: True to compile the loss with torch; None: if that is faster. If torch cannot, a warning says so.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        init_from: the run that it is initialised from; None if there is none, or if the run resumes.
        init_record: the record of the initialisation from another run, if the run resumes and has one.

    Raises:
        UserError: if a corpus or tokenizer cannot be used, a text is too short, or a device or precision is not
            available.
    """
    if trainer == "fused":
        raise UserError("trainer fused: it trains in-context models of one layer only; use auto")
    on = find_device(device)
    check_precision(run.training.precision, on)
    examples = open_examples(run.task)
    steps = steps_of(run, examples)
    judge_class(run).check(run, examples)
    compiled = _compiles(run, compile, steps, on)
    meter = Meter(on)  # what torch loads for compiling is loaded by now, and no part of what the model takes
    record, weights = _initial(run, init_from, init_record, examples, on)
    run = run if record is None else run.model_copy(update={"model": record.model})
    loss = TokensLoss(run, Transformer(run.model, examples.vocab_size, weights).to(on), compile=compiled)
    parts = _parts(loss, examples, record)
    if compiled and run.plugins:  # so that errors name a line of the plugin, and not one of the compiler
        loss.eager(*parts(1)[0].tensors)
    return study_of(
        loss,
        examples,
        steps,
        trainer=tokens_trainer(loss, steps, _metered(parts, meter)),
        execution=execution_of(examples, on, compiled),
        memory=meter.metrics,
        init_record=record,
    )


def initial_module(run: TokensRun, examples: Examples) -> Transformer:
    """The model that a run starts from."""
    return Transformer(run.model, examples.vocab_size, initial_weights(run.model, examples.vocab_size, run.seed))


def study_of(
    loss: TokensLoss,
    examples: Examples,
    steps: int,
    *,
    trainer: Trainer,
    execution: Mapping[str, Any],
    memory: Callable[[], Mapping[str, int]],
    init_record: "InitRecord | None" = None,
) -> Study:
    """Return the study that the loop drives: a trainer of a loss's model, with the measurements of that model."""
    run = loss.run
    judge, post = judge_class(run)(examples, loss, steps), ablated(run.after.ablate, examples, loss, steps)
    return Study(
        trainer=trainer,
        measures=(*judge.measures(), *head_probes(examples, loss, steps), *post),
        execution=execution,
        conclude=judge.conclude,
        loss=f"train_{run.task.loss}",
        terms=tuple(term.metric for term in run.training.regularizers),
        steps=steps,
        extra=judge.extra,
        carried=(f"train_{run.task.loss}", *(METRICS if post else ())),
        files={**examples.files, **({} if init_record is None else {INIT_RECORD: json_text(init_record.content)})},
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
        rate_share=partial(rate_share, run.training, steps=steps),
        clip=run.training.clip,
        seed=partial(rng.key, run.seed, "dropout") if run.model.dropout else None,
    )


def _initial(
    run: TokensRun,
    init_from: InitFrom | None,
    init_record: Mapping[str, Any] | None,
    examples: Examples,
    device: torch.device,
) -> tuple["InitRecord | None", Weights]:
    """Return how a run was initialised from another, and its weights; a resumed run restores its weights later."""
    if run.init_from is None:
        return None, initial_weights(run.model, examples.vocab_size, run.seed)
    from headway.train.lm.init_from import InitRecord, initialise  # it loads how heads are pruned

    if init_record is not None:
        record = InitRecord.read(run, init_record)
        return record, initial_weights(record.model, examples.vocab_size, run.seed)
    if init_from is None:
        raise UserError(f"it starts from {run.init_from.run}, which was not given; train it in its directory")
    return initialise(run, init_from, examples, device)


def _parts(loss: TokensLoss, examples: Examples, record: "InitRecord | None") -> Parts:
    run, before = loss.run, 0 if record is None else record.steps_before
    # The first step of a trainer is 1, the first batch of a corpus 0.
    return lambda step: loss.split(examples.training_batch(run.seed, before + step - 1, run.training.batch_size))


def _metered(parts: Parts, meter: Meter) -> Parts:
    """Return the parts unchanged; at the second step, after compilation, start measuring the memory of training."""
    steps = itertools.count()

    def metered(step: int) -> Sequence[Part]:
        if next(steps) == 1:
            meter.begin_training()
        return parts(step)

    return metered


def _compiles(run: TokensRun, asked: bool | None, steps: int, device: torch.device) -> bool:
    kind = "cuda" if device.type == "cuda" else run.training.precision
    compile = steps >= _WORTH_COMPILING[kind] if asked is None else asked
    if compile and (obstacle := compiling_obstacle(device.type)):
        warnings.warn(obstacle, RuntimeWarning, stacklevel=3)
        return False
    return compile


def execution_of(examples: Examples, device: torch.device, compiled: bool) -> dict[str, Any]:
    """Return the execution record of a run."""
    computed = {"trainer": "torch", "device": device.type, "compile": compiled, "corpus": examples.digest}
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        computed |= {"gpu": gpu.name, "gpu_memory_bytes": gpu.total_memory}
    return computed

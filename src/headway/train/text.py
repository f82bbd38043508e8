"""Train: the language-model laboratory's study: what trains a run, what is measured meanwhile, how it is judged.

Arms are paired: the same seed gives the same batches in the same order, and equal initial weights wherever names and
shapes agree. What a model is judged on depends on the task alone.
"""

import itertools
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch

from headway import streams
from headway.data.text import Tokens, open_corpus, steps_per_epoch, training_batch
from headway.declare.run import TextRun
from headway.errors import UserError
from headway.model.transformer import Transformer
from headway.model.weights import Weights, initial_weights
from headway.train.device import check_precision, find_device
from headway.train.loop import Study
from headway.train.meter import Meter
from headway.train.optimizer import text_optimizers
from headway.train.probes import head_probes
from headway.train.regularizers import Parts, guided
from headway.train.samples import prompt_tokens
from headway.train.schedule import rate_share, steps_of
from headway.train.text_judge import TextJudge
from headway.train.text_loss import TextLoss
from headway.train.trainer import Part, Rules, TorchTrainer, compiling_obstacle

_WORTH_COMPILING = {"cuda": 1_000, "bf16": 2_000, "fp32": 5_000}
"""Steps from which on compiling, about half a minute, is won back: on GPUs, and on processors in either precision."""


def open_study(
    run: TextRun,
    *,
    trainer: Literal["auto", "fused", "torch"] = "auto",
    compile: bool | None = None,
    device: str = "auto",
) -> Study:
    """A run, ready to be trained from its initial weights.

    Args:
        run: what is asked for.
        trainer: `auto` and `torch` are the same.
        compile: whether torch compiles the loss; None: where that pays. Where torch cannot, a warning says so.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        UserError: for a corpus or tokenizer that cannot be used, a text that is too short, or a device or precision
            that is not to be had.
    """
    if trainer == "fused":
        raise UserError("--trainer fused: it trains in-context models of one layer only; take --trainer auto")
    place = find_device(device)
    check_precision(run.training.precision, place)
    tokens = open_corpus(run.task)
    steps = steps_of(run.task, run.training, steps_per_epoch(tokens, run.task, run.training.batch_size))
    if run.samples is not None:
        prompt_tokens(run.samples, tokens)
    compiled = _compiles(run, compile, steps, place)
    meter = Meter(place)  # what torch loads for compiling is loaded by now, and no part of what the model takes
    module = Transformer(run.model, tokens.vocab_size, initial_weights(run.model, tokens.vocab_size, run.seed))
    loss = TextLoss(run, module.to(place), compile=compiled)
    judge = TextJudge(run, tokens, loss, steps)
    return Study(
        trainer=text_trainer(loss, steps, _metered(_parts(loss, tokens), meter)),
        measures=(*judge.measures(), *head_probes(run, tokens, loss, steps)),
        execution=_execution(tokens, place, compiled),
        conclude=judge.conclude,
        loss="train_loss_nats",
        terms=tuple(term.metric for term in run.training.regularizers),
        steps=steps,
        extra=judge.extra,
        carried=("train_loss_nats",),
        files={"tokenizer.json": tokens.tokenizer.inner.to_str()},
        memory=meter.metrics,
    )


def trained_model(run: TextRun, weights: Weights) -> Transformer:
    """The torch module of a run with these weights."""
    return Transformer(run.model, len(weights["embedding.weight"]), weights)


def text_trainer(loss: TextLoss, steps: int, parts: Parts) -> TorchTrainer:
    """What trains the model of a loss for a number of steps, on the parts of each step's batch.

    Parts hold inputs and targets; what a guided loss takes beside them is added here.
    """
    run, parameters = loss.run, dict(loss.module.named_parameters())
    return TorchTrainer(
        parameters,
        text_optimizers(run.training, parameters),
        parts=guided(parts, run, steps, loss.device) if loss.guided else parts,
        loss=loss.value,
        rules=Rules(
            rate_share=partial(rate_share, run.training, steps=steps),
            clip=run.training.clip,
            seed=partial(streams.key, run.seed, "dropout") if run.model.dropout else None,
        ),
    )


def _parts(loss: TextLoss, tokens: Tokens) -> Parts:
    run = loss.run
    # The first step of a trainer is 1, the first batch of a corpus 0.
    return lambda step: loss.split(training_batch(tokens, run.task, run.seed, step - 1, run.training.batch_size))


def _metered(parts: Parts, meter: Meter) -> Parts:
    """The same parts; at the second step, when everything is compiled, the memory of training begins to count."""
    steps = itertools.count()

    def metered(step: int) -> Sequence[Part]:
        if next(steps) == 1:
            meter.begin_training()
        return parts(step)

    return metered


def _compiles(run: TextRun, asked: bool | None, steps: int, place: torch.device) -> bool:
    kind = "cuda" if place.type == "cuda" else run.training.precision
    compile = steps >= _WORTH_COMPILING[kind] if asked is None else asked
    if compile and (obstacle := compiling_obstacle(place.type)):
        warnings.warn(obstacle, RuntimeWarning, stacklevel=3)
        return False
    return compile


def _execution(tokens: Tokens, place: torch.device, compiled: bool) -> dict[str, Any]:
    computed = {"trainer": "torch", "device": place.type, "compile": compiled, "corpus": tokens.digest}
    if place.type == "cuda":
        gpu = torch.cuda.get_device_properties(place)
        computed |= {"gpu": gpu.name, "gpu_memory_bytes": gpu.total_memory}
    return computed

"""The start of a run that is initialised from another run.

`initialise` changes the other run's model as the new run asks: it prunes heads, rewinds or redraws weights, and adds
heads back. Heads are pruned as by `headway prune`, by scores on training text, so evaluation text has no
influence on which heads go. Everything random depends on the seed, so a restarted run begins with the same bits.

`InitRecord` records the result; the run's folder holds it as `start.json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from headway.base import rng
from headway.base.text import counted
from headway.causal.checks import check_interventions
from headway.causal.effects import Head, every_head
from headway.causal.importance import METHODS, PruningText
from headway.causal.pruning import prune_to_number, pruned, regrown
from headway.config.lm.head_units import heads_to_keep, units_of
from headway.config.lm.init_from import StartPruning
from headway.config.lm.model import TransformerModel
from headway.config.lm.run import TokensRun, as_trained
from headway.data.batch import Examples
from headway.errors import ResultsError, UserError
from headway.models.transformer import Transformer
from headway.models.weights import Weights, initial_weights
from headway.train.loop import InitFrom


@dataclass(frozen=True, kw_only=True)
class InitRecord:
    """The record of how a run was initialised from another run.

    Attributes:
        origin: the other run's arm and seed.
        model: the model that is trained.
        heads: the names of its heads in the declared model, in the order of the model.
        steps_before: the number of training steps of the weights; the data continue from there.
    """

    origin: str
    model: TransformerModel
    heads: tuple[tuple[int, int], ...]
    steps_before: int

    @property
    def content(self) -> dict[str, Any]:
        """The content of the file `start.json`."""
        return {
            "origin": self.origin,
            "model": self.model.model_dump(mode="json"),
            "heads": [list(head) for head in self.heads],
            "steps_before": self.steps_before,
        }

    @classmethod
    def read(cls, run: TokensRun, content: Mapping[str, Any]) -> "InitRecord":
        """Return the record from the content of a run's file.

        Raises:
            ResultsError: when it is not what `content` gave.
        """
        try:
            return cls(
                origin=str(content["origin"]),
                model=as_trained(run, content).model,
                heads=tuple((int(layer), int(head)) for layer, head in content["heads"]),
                steps_before=int(content["steps_before"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"start.json is not as Headway wrote it ({error!r}); train the run again") from None


_BATCH = 1024
"""Tokens that are read together."""
_CHECKED = 32
"""Tokens of the check that masking a head equals removing it."""


def initialise(
    run: TokensRun, init_from: InitFrom, examples: Examples, device: torch.device | str = "cpu"
) -> tuple[InitRecord, Weights]:
    """Initialise a run from another run as the run asks, and return the record and the weights.

    Args:
        run: the run, with a start.
        init_from: the run that it is initialised from.
        examples: the examples of its task; importance is measured on its training sequences.
        device: the device that computes the importance.

    Raises:
        UserError: when heads cannot go as asked, weights of a step were not stored, or the model fails a check of what
            is done to it.
    """
    start = run.init_from
    assert start is not None
    source = _record_of(init_from)
    step = None if start.step in ("last", init_from.steps) else int(start.step)
    weights = init_from.weights(step)
    module = Transformer(source.model, examples.vocab_size, weights).eval().to(device)
    stays = source.heads
    if start.prune is not None:
        stays = _chosen(run, start.prune, module, source, examples, init_from.name)
    at = init_from.steps if step is None else step
    match start.weights:
        case "rewound":
            at = start.rewind_to
            weights = _rewound(init_from, source, at, examples.vocab_size)
        case "fresh":
            at = -source.steps_before
    kept = _only(Transformer(source.model, examples.vocab_size, weights), source.heads, stays)
    model, left = kept.model, kept.weights()
    if start.weights == "fresh":
        left = initial_weights(model, examples.vocab_size, run.seed)
    if start.regrow:
        if set(stays) == set(every_head(run.model.layout.n_heads)):
            raise UserError(
                f"init_from.regrow: {init_from.name} has all of the heads that its model declares; leave it out"
            )
        drawn = initial_weights(run.model, examples.vocab_size, rng.key(run.seed, "heads added back") >> 1)
        model, left = run.model, regrown(run.model, drawn, left, stays)
        stays = tuple(every_head(model.layout.n_heads))
    return InitRecord(origin=init_from.name, model=model, heads=stays, steps_before=source.steps_before + at), left


def _record_of(init_from: InitFrom) -> InitRecord:
    """Return the record of the other run: the model that it was trained as."""
    assert isinstance(init_from.run, TokensRun)
    if init_from.record is not None:
        return InitRecord.read(init_from.run, init_from.record)
    model = init_from.run.model
    return InitRecord(origin="", model=model, heads=tuple(every_head(model.layout.n_heads)), steps_before=0)


def _chosen(
    run: TokensRun, asked: StartPruning, module: Transformer, source: InitRecord, examples: Examples, name: str
) -> tuple[Head, ...]:
    """The heads that stay, as the declared model calls them."""
    keep = heads_to_keep(asked.keep, units_of(run.model.layout))
    if keep >= len(source.heads):
        raise UserError(
            f"init_from.prune.keep {asked.keep}: that is {counted(keep, 'head')}, and {name} has {len(source.heads)}; "
            "keep fewer, or start from another arm"
        )
    batch = examples.training_batch(run.seed, 0, asked.sequences)
    device = next(module.parameters()).device
    inputs, targets = (torch.from_numpy(tokens).to(device) for tokens in (batch.inputs, batch.targets))
    check_interventions(module, inputs[:1, :_CHECKED])
    text = PruningText(inputs=inputs, targets=targets, at_once=max(1, _BATCH // inputs.shape[1]), seed=run.seed)
    _, kept = prune_to_number(module, keep, METHODS[asked.by], text, steps=asked.steps)
    called = dict(zip(every_head(source.model.layout.n_heads), source.heads, strict=True))
    return tuple(called[head] for head in kept)


def _rewound(init_from: InitFrom, source: InitRecord, step: int, vocab_size: int) -> Weights:
    """Return the weights that the other run had at a step."""
    if step == 0 and init_from.record is None:
        return initial_weights(source.model, vocab_size, init_from.run.seed)
    return init_from.weights(step)


def _only(module: Transformer, heads: Sequence[Head], stays: Sequence[Head]) -> Transformer:
    """Return the model with only the heads that stay; `heads` and `stays` number them as the declared model does."""
    kept, at = set(stays), iter(heads)
    if len(kept) == len(heads):
        return module
    return pruned(module, [[next(at) in kept for _ in range(n)] for n in module.model.layout.n_heads])

"""Train: what the loss of the trained model does without each of its heads: exact effects, in all three ways.

Held-out sequences are read, the same for every arm and seed of a task, and as many others stand in for heads. Before
any number is given it is seen that what is done to the model is what is said.
"""

from typing import Any

import numpy as np
import torch

from headway.data.tokens.examples import Examples
from headway.declare.tokens.after import AblateHeads
from headway.errors import UserError
from headway.heads.causes.ablated import effect_scores
from headway.heads.causes.batched import BatchedText
from headway.heads.causes.effects import ExactEffects
from headway.heads.causes.kinds import KINDS
from headway.heads.causes.other_text import OtherText
from headway.heads.causes.selfcheck import check_interventions
from headway.heads.scores import to_arrays
from headway.train.loop import Measure, Measured
from headway.train.tokens.loss import TokensLoss

_BATCH = 1024
"""Tokens that are read together."""
_CHECKED = 32
"""Tokens of the check."""
_SMALL = 0.01
"""In nats per token: a head without which the loss rises by less hardly matters."""

_OF_A_WAY = ("largest_nats", "all_nats", "share_that_adds_up")
METRICS = (*(f"{kind}_ablation_{what}" for kind in KINDS for what in _OF_A_WAY), "idle_head_share", "half_effect_heads")
"""What the final record has of it."""


def ablated(asked: AblateHeads | None, examples: Examples, loss: TokensLoss, steps: int) -> tuple[Measure, ...]:
    """The measure that takes the heads away after the last step; none where nobody asks."""
    if asked is None or not loss.run.model.layout.total:
        return ()

    def take() -> Measured:
        exact, michel, first_order, integrated = _effects(asked, examples, loss)
        names = {layer: f"layers.{layer}.attention" for layer, n in enumerate(loss.run.model.layout.n_heads) if n}
        scores = effect_scores(names, exact, michel, first_order, integrated)
        return Measured(metrics=_metrics(exact), arrays=to_arrays(scores.values()))

    return (Measure(due=lambda step: step == steps, take=take),)


def _effects(asked: AblateHeads, examples: Examples, loss: TokensLoss) -> tuple[Any, ...]:
    """Exact effects and the estimates of them."""
    inputs, targets = _held_out(examples, 2 * asked.sequences, loss)
    half, module = len(inputs) // 2, loss.module
    module.eval()
    at_once = max(1, _BATCH // inputs.shape[1])
    check_interventions(module, inputs[:1, :_CHECKED])
    other = OtherText.read(module, inputs[:half], inputs[half:], mean_over=asked.mean, seed=0, at_once=at_once)
    work = BatchedText(model=module, inputs=inputs[:half], targets=targets[:half], other=other, at_once=at_once)
    exact, estimates, integrated = work.exact(), work.attributed(), work.integrated()
    module.train()
    return exact, estimates.michel, estimates.first_order, integrated


def _held_out(examples: Examples, sequences: int, loss: TokensLoss) -> tuple[torch.Tensor, torch.Tensor]:
    """Held-out sequences, those that are filled up with what is masked left out."""
    batches = [loss.tensors(batch) for batch in examples.evaluation_batches(sequences, loss.part_size)]
    inputs, targets = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
    # Effects are means over positions, which a sequence that is mostly padding has hardly any of.
    whole = (targets != -1).any(1)
    inputs, targets = inputs[whole][:sequences], targets[whole][:sequences]
    if len(inputs) < 4:
        raise UserError(
            f"after.ablate: the held-out text has {len(inputs)} sequences, and 4 are needed: two for an interval and "
            "two to stand in for heads; hold out more"
        )
    return inputs, targets


def _metrics(exact: ExactEffects) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in KINDS:
        effects = exact.single[kind].flat()
        found[f"{kind}_ablation_largest_nats"] = float(effects.max())
        found[f"{kind}_ablation_all_nats"] = exact.joint_mean(kind)
        found[f"{kind}_ablation_share_that_adds_up"] = exact.share_of_joint(kind)
    effects = exact.single["mean"].flat()
    found["idle_head_share"] = float((effects < _SMALL).mean())
    found["half_effect_heads"] = _heads_of_half(effects)
    return found


def _heads_of_half(effects: np.ndarray) -> int | None:
    """The fewest heads whose single effects, where they are above 0, are half of their sum; None where none is."""
    above = np.sort(effects.clip(0))[::-1]
    if not above.any():
        return None
    return int(np.searchsorted(above.cumsum(), above.sum() / 2) + 1)

"""Train: what is minimised beside the loss so that heads differ, and the tensors that steer it.

Weights and gates are tensors that go into the loss with the batch, so that a schedule compiles nothing anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headway.declare.tokens.run import TokensRun
from headway.declare.tokens.training import Regularizer
from headway.heads.terms import TERMS
from headway.model.trace import Trace
from headway.train.tokens.drophead import head_gates
from headway.train.trainer import Part

Parts = Callable[[int], Sequence[Part]]
"""The parts of the batch of a step."""


def is_guided(run: TokensRun) -> bool:
    """Whether a run is trained on more than its loss."""
    return bool(run.training.regularizers) or run.training.drophead is not None


def terms(trace: Trace, regularizers: Sequence[Regularizer]) -> Float[Tensor, " term"]:
    """Each measure's mean over the layers that have two heads or more."""
    several = [attention for attention in trace.attentions if attention.q.shape[1] > 1]
    means = [
        torch.stack([TERMS[term.metric].measure(attention).float() for attention in several]).mean()
        for term in regularizers
    ]
    return torch.stack(means)


def guided(parts: Parts, run: TokensRun, steps: int, device: torch.device) -> Parts:
    """The same parts, with what the guided loss takes beside inputs and targets.

    That is, as far as the run has them: the heads' gates (example, head of all layers), and the signed weight of each
    regularizer (term).
    """
    training = run.training

    def added(step: int) -> Sequence[Part]:
        whole, more, first = parts(step), [], 0
        sizes = [len(part.tensors[0]) for part in whole]
        gates = None
        if training.drophead is not None:
            probability = training.drophead.probability_at(step, steps)
            drawn = head_gates(run.model.layout.n_heads, probability, sum(sizes), seed=run.seed, step=step)
            gates = torch.from_numpy(drawn).to(device)
        weights = torch.from_numpy(_weights(training.regularizers, step, steps)).to(device)
        for part, size in zip(whole, sizes, strict=True):
            of_part = () if gates is None else (gates[first : first + size],)
            of_terms = (weights,) if training.regularizers else ()
            more.append(replace(part, tensors=(*part.tensors, *of_part, *of_terms)))
            first += size
        return more

    return added


def _weights(regularizers: Sequence[Regularizer], step: int, steps: int) -> np.ndarray:
    weights = [TERMS[term.metric].sign * term.weight_at(step, steps) for term in regularizers]
    return np.array(weights, np.float32)

"""Check: metrics of runs, callbacks and figures of one's own."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from headway.check.heads import VOCAB, small_model
from headway.check.tried import Broken, tried
from headway.data.tokens.examples import Batch


def run_metric(function: Callable[..., Any]) -> Iterator[str]:
    """What laws a metric of runs breaks, of a small model on random tokens."""
    model = small_model().eval()
    random = np.random.default_rng(0)
    batches = [
        Batch(inputs=random.integers(VOCAB, size=(4, 12)), targets=random.integers(VOCAB, size=(4, 12)))
        for _ in range(2)
    ]
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def measured() -> float:
        with torch.no_grad():
            return float(function(model, batches))

    try:
        value = tried(measured, "measuring a model of 11 tokens", lambda one, other: one == other or one != one)
    except Broken as error:
        yield str(error)
        return
    if not np.isfinite(value):
        yield f"it gave {value}; give a finite number"
    if any(not torch.equal(before[name], now) for name, now in model.state_dict().items()):
        yield "it changed the model's weights; leave the model as it is"


def callback(function: Callable[..., Any]) -> Iterator[str]:
    """Whether it can be called with a run and a line."""
    try:
        inspect.signature(function).bind(None, {})
    except TypeError as error:
        yield f"it cannot be called with a run and a line ({error}); write it as def {function.__name__}(run, line)"

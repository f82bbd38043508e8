"""A small transformer of ragged heads, and its trace."""

from dataclasses import replace

import torch

from headway.config.lm.model import Gpt2, TransformerModel
from headway.models.trace import Trace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2", windows=(None, 5), init_std=0.5)
VOCAB = 11


def small_model(model: TransformerModel = MODEL) -> Transformer:
    """A small model of ragged heads."""
    return Transformer(model, VOCAB, initial_weights(model, VOCAB, seed=0))


def traced() -> Trace:
    """Return a trace of the small model on random tokens."""
    tokens = torch.randint(0, VOCAB, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return replace(small_model().trace(tokens), tokens=tokens)

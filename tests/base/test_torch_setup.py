"""What is not compiled does without torch's compiler, and its bits are the same."""

import os
import subprocess
import sys

import pytest

TRAINED = """
import sys, zlib
{before}
from support import small_text
import torch
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.device import Meter
from headway.train.lm.optimizer import tokens_optimizers
from headway.train.torch_trainer import Part, TorchTrainer

torch.set_num_threads(1)
run = small_text.run_of(training=small_text.MUON)
Meter(torch.device("cpu"))
module = Transformer(run.model, 50, initial_weights(run.model, 50, seed=0))
parameters = dict(module.named_parameters())
tokens = torch.arange(24).reshape(2, 12) % 50
trainer = TorchTrainer(
    parameters,
    tokens_optimizers(run.training, parameters),
    parts=lambda step: [Part(tensors=(tokens,))],
    loss=lambda tokens: module(tokens)[0].square().mean(),
)
trainer.advance(3)
bits = b"".join(value.tobytes() for value in trainer.state().values())
print(type(run.training).__name__, zlib.crc32(bits), "torch._dynamo" in sys.modules)
"""
COMPILES = "print(torch.compile(lambda tensor: tensor + 1, backend='eager')(torch.ones(1)).item())"


def of(code):
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_training_does_not_import_the_compiler_and_has_the_same_bits_with_it():
    """And whoever compiles afterwards gets it."""
    kind, bits, imported, compiled = of(TRAINED.format(before="") + COMPILES)
    assert (kind, imported, compiled) == ("Muon", "False", "2.0")
    assert of(TRAINED.format(before="import torch._dynamo")) == ["Muon", bits, "True"]

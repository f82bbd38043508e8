"""The whole loss, compiled: one graph, the same value and gradients."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: shapes in signatures are checked in this one, which cannot be compiled.
SCRIPT = """
import torch
from support.tolerance import assert_same
from headway.config.lm.model import Gpt2, GptNeo, Llama, Ranks
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

torch.set_num_threads(1)
SMALL = {"d_model": 32, "n_positions": 40}
LANE = {"n_layers": 2, "n_heads": "4-8", "windows": (None, 10), "d_embed": 12, "lane": "switched"}
GROUPED = {"n_layers": 1, "n_heads": "3+1x8", "ranks": Ranks(q=4), "norm_place": "after"}
model, precise = {
    "neo": (GptNeo(family="gpt-neo", **SMALL, **LANE), True),
    "llama": (Llama(family="llama", **SMALL, **GROUPED), False),
}[MODEL]
tokens = torch.randint(0, 50, (2, 40), generator=torch.Generator().manual_seed(0))
targets = tokens.roll(-1, 1)
targets[0, 30:] = -1
module, results = Transformer(model, 50, initial_weights(model, 50, seed=0)), []


for run in (module.loss, torch.compile(module.loss, dynamic=False, fullgraph=True)):
    module.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=not precise):
        loss = run(tokens, targets)
    loss.backward()
    gradients = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    results.append((loss.detach(), gradients))
# In bf16 what enters a matrix product is rounded: 7 products of a layer, forwards and backwards.
roundings = {} if precise else {"dtype": torch.bfloat16, "terms": 30}
assert_same(*results, **roundings)
print("compiled")
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["neo", "llama"])
def test_the_compiled_loss_equals_the_eager_one(model):
    script = SCRIPT.replace("MODEL]", f"{model!r}]")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "compiled"

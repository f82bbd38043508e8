"""Laws of an x-ray: of a model that learnt nothing it is silent, and planted heads are found among its heads.

`benchmarks/silence.py` draws the models, and measures both over hundreds of them; here are a few of each.
"""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import headway

SCRIPT = Path(__file__).parents[2] / "benchmarks/silence.py"


@pytest.fixture(scope="module")
def silence():
    spec = importlib.util.spec_from_file_location("silence", SCRIPT)
    module = sys.modules["silence"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_an_x_ray_of_an_untrained_model_is_silent(silence):
    """At most 5 of 100 pages may speak; of 16, three would have a chance of 4 %."""
    said = [found for seed in range(16) if (found := silence.untrained(seed)[1])]
    assert len(said) <= 2, said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folded gains", "rank 2", "unequal rows", "shifted mean", "all positive"])
def test_an_x_ray_is_silent_whatever_untrained_weights_are(silence, kind):
    """Gaussian null heads spoke of half of these models or more."""
    said = [found for seed in range(4) if (found := silence.of_kind(kind, seed))]
    assert not said, said


@pytest.mark.slow
def test_a_shared_subspace_is_found(silence):
    for seed in range(3):
        label, found = silence.shares_subspace(seed)
        assert any(f"alike queries: {label}H" in finding.sentence for finding in found), (seed, label)


@pytest.mark.slow
def test_planted_heads_are_found(silence):
    """At least 95 of 100 are; of these, all but one."""
    planted = [silence.planted(seed) for seed in range(3)]
    missed = [
        (kind, name)
        for names, found in planted
        for kind, name in names.items()
        if not silence.is_found(kind, name, found)
    ]
    assert sum(len(names) for names, _ in planted) >= 12
    assert len(missed) <= 1, missed


class Sorter(torch.nn.Module):
    """One head whose tokens attend to the next larger value that was given, so far as the logits go."""

    def __init__(self):
        super().__init__()
        self.anything = torch.nn.Parameter(torch.zeros(1))

    def trace(self, tokens):
        x, random = torch.eye(20, 64)[tokens], torch.Generator().manual_seed(1)
        W_Q, W_K = torch.zeros(1, 64, 20), torch.eye(64)[None, :, :20]
        W_Q[0, torch.arange(19), torch.arange(1, 20)] = 4
        W_V, W_O = torch.randn(1, 64, 20, generator=random), torch.randn(1, 20, 64, generator=random)
        attention = headway.plain_attention(x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O, causal=False, scale=1.0)
        return headway.Trace(attentions=(attention,))


def test_a_sorting_head_has_no_role_and_is_counted():
    random = torch.Generator().manual_seed(0)
    tokens = torch.stack([torch.randperm(20, generator=random)[:16] for _ in range(64)])
    (finding,) = headway.xray(Sorter(), tokens=tokens).findings
    assert "differ" in finding.sentence
    assert "most of all L0H0" in finding.sentence

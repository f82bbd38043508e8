"""Laws of an x-ray: of a model that learnt nothing it is silent, and planted heads are found among its heads.

`benchmarks/silence.py` draws the models, and measures both over hundreds of them; here are a few of each.
"""

import importlib.util
import itertools
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
    """At most 5 of 100 pages may speak; of 16, here of two layers at most, three would have a chance of 4 %."""
    small = (seed for seed in itertools.count() if silence.drawn_model(seed)[0].n_layers <= 2)
    said = [found for seed in itertools.islice(small, 16) if (found := silence.untrained(seed)[1])]
    assert len(said) <= 2, said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folded gains", "rank 2", "unequal rows", "shifted mean", "all positive"])
def test_an_x_ray_is_silent_whatever_untrained_weights_are(silence, kind):
    """Gaussian null heads spoke of half of these models or more."""
    said = [found for seed in range(2) if (found := silence.of_kind(kind, seed))]
    assert not said, said


@pytest.mark.slow
def test_a_shared_subspace_is_found(silence):
    label, found = silence.shares_subspace(0)
    assert any(f"Similar queries (CKA): {label}H" in finding.sentence for finding in found), found


@pytest.mark.slow
def test_planted_heads_are_found(silence):
    """At least 95 of 100 are; of these, all but one."""
    planted = [silence.planted(seed) for seed in (2, 3)]
    missed = [
        (kind, name)
        for names, found in planted
        for kind, name in names.items()
        if not silence.is_found(kind, name, found)
    ]
    assert sum(len(names) for names, _ in planted) >= 12
    assert len(missed) <= 1, missed


def test_a_sorting_head_has_no_role_and_is_counted(silence):
    (finding,) = silence.of_sorter(0, 20, 16).findings
    (difference,) = finding.statements
    assert difference.kind == "differ"
    assert difference.values["heads"] == ("L0H0",)


@pytest.mark.slow
def test_a_head_that_sorts_few_values_is_missed(silence):
    """Its copies keep the spectrum of its matrices, and are half as confident as it is."""
    assert not silence.of_sorter(0, 10, 6).findings


class Fixed(torch.nn.Module):
    """One head whose tokens attend three places back, whatever they are."""

    def __init__(self):
        super().__init__()
        self.anything = torch.nn.Parameter(torch.zeros(1))

    def trace(self, tokens):
        n = tokens.shape[1]
        places = torch.eye(n, 32).expand(len(tokens), -1, -1)
        x = torch.cat((torch.eye(16)[tokens], places), 2)
        W_Q = torch.zeros(1, 48, n)
        W_Q[0, torch.arange(19, 16 + n), torch.arange(n - 3)] = 8
        W_K = torch.eye(48)[None, :, 16 : 16 + n]
        random = torch.Generator().manual_seed(1)
        W_V, W_O = torch.randn(1, 48, n, generator=random), torch.randn(1, n, 48, generator=random)
        return headway.Trace(attentions=(headway.plain_attention(x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O, scale=1.0),))


def test_a_head_with_a_fixed_pattern_is_named_and_is_no_neighbour_head():
    torch.manual_seed(0)
    found = headway.xray(Fixed(), tokens=torch.randint(16, (32, 24)))
    assert found.scores["fixed_pattern_score"].values["layers.0.attention"][0] > 0.8
    assert any(finding.about == "fixed_pattern_score" for finding in found.findings)
    assert any(finding.about == "positional_score" for finding in found.not_found)


@pytest.mark.slow
def test_a_model_of_hops_has_an_induction_head_on_its_own_text(silence):
    found = [finding.sentence for finding in silence.of_hops(1).findings]
    assert any("Induction heads on repeats within the text (" in sentence for sentence in found)


@pytest.mark.slow
def test_models_trained_on_noise_have_no_roles_and_constant_heads_are_said(silence):
    """Training changes such models, and pages may say that outputs are alike or a head is small."""
    for seed in range(2):
        xray = silence.of_noise(seed)
        about = {finding.about for finding in xray.findings}
        assert not any(each.endswith(("_score", "_composition")) for each in about), (seed, xray.findings)
        assert any(finding.about == "output_constant_share" for finding in xray.not_found), seed

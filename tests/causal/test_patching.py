"""Patching, against whole passes with edits; what it finds of planted heads; estimates, paths and their checks."""

import numpy as np
import pytest
import torch
from support import induction
from support.tolerance import assert_same

from headway.causal.checks import check_patching
from headway.causal.patch_result import PATCH_SITES
from headway.causal.patching import TwoRuns, cancelling, estimated_effects, head_paths, patched_effects
from headway.config.lm.model import Gpt2, Llama
from headway.errors import UserError
from headway.models.trace import AttentionTrace
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

SHAPE = {"d_model": 16, "n_layers": 3, "n_positions": 12, "init_std": 0.3}
MODELS = {
    "plain": Gpt2(family="gpt-2", n_heads="4-2-4", **SHAPE),
    "windowed": Gpt2(family="gpt-2", n_heads=2, windows=(None, 3), **SHAPE),
    "grouped, rotary": Llama(family="llama", n_heads="4:2-4:2-2", **SHAPE),
    "no attention in a layer": Gpt2(family="gpt-2", n_heads="2-0-4", **SHAPE),
}


def answer(logits):
    return logits[:, -1, 1] - logits[:, -1, 2]


def runs_of(name, metric=answer) -> TwoRuns:
    declared = MODELS[name]
    model = Transformer(declared, 9, initial_weights(declared, 9, seed=0)).eval()
    draw = torch.Generator().manual_seed(0)
    clean, corrupted = (torch.randint(9, (3, 8), generator=draw) for _ in range(2))
    return TwoRuns(model, clean, corrupted, metric)


def by_edits(runs, layer, head, site, at) -> torch.Tensor:
    """A whole pass with the site edited."""
    clean = next(each for each in runs.clean.attentions if each.layer == layer)
    value = getattr(clean, site)

    def edit(x):
        x = x.clone()
        x[:, head, at] = value[:, head, at]
        return x

    with torch.no_grad():
        return answer(runs.model(runs.tokens, edits={(layer, site): edit})[0]) - answer(runs.model(runs.tokens)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("by_position", [False, True])
def test_patches_are_whole_passes_with_what_the_clean_run_had(name, by_position):
    runs = runs_of(name)
    for site in ("z", "q", "k", "v"):
        heads, effects = runs.heads, patched_effects(runs, site, by_position=by_position)
        layout = MODELS[name].layout
        for at, (layer, head) in enumerate(heads):
            grouped = set(layout.layers[layer].queries) != {1}
            if grouped and site in "kv":
                continue  # an edit of a KV head is one of all that read it
            for place in range(8) if by_position else [slice(None)]:
                found = effects[at, place] if by_position else effects[at]
                assert_same(
                    found,
                    by_edits(runs, layer, head, site, place).double(),
                    scale=runs.values(runs.tokens),
                    dtype=np.float32,
                )


def test_the_pattern_of_the_clean_run_moves_the_corrupted_values():
    runs = runs_of("plain")
    heads, effects = runs.heads, patched_effects(runs, "pattern")
    clean, of = next(iter(runs.pairs()))
    z = clean.patterns()[:, 2] @ of.v[:, 2]

    def edit(x):
        x = x.clone()
        x[:, 2] = z
        return x

    with torch.no_grad():
        wanted = answer(runs.model(runs.tokens, edits={(0, "z"): edit})[0]) - answer(runs.model(runs.tokens)[0])
    assert_same(effects[heads.index((0, 2))], wanted.double(), dtype=np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_estimates_are_exact_where_only_the_read_out_follows(name):
    runs = runs_of(name)
    # Without norms or MLPs after it, the last layer's heads act in line.
    declared = MODELS[name].model_copy(update={"norm": "none", "mlp": "none"})
    model = Transformer(declared, 9, initial_weights(declared, 9, seed=0)).eval()
    runs = TwoRuns(model, runs.clean_tokens, runs.tokens, answer)
    estimates = estimated_effects(runs, PATCH_SITES)
    for site in PATCH_SITES:
        heads, effects = runs.heads, patched_effects(runs, site)
        last = [at for at, (layer, _) in enumerate(heads) if layer == declared.n_layers - 1]
        # Effects are differences of two passes, and are rounded as what these give is.
        assert_same(estimates[site][last], effects[last], dtype=np.float32, scale=runs.values(runs.tokens))


def test_estimates_by_position_add_up_to_those_of_contexts():
    runs = runs_of("plain")
    whole, each = (estimated_effects(runs, ("z",), by_position=place)["z"] for place in (False, True))
    assert_same(each.sum(1), whole, dtype=np.float32)


def test_paths_that_cancel_are_named():
    # A head writes into the stream, and the next layer's only head takes it back: to first order it does nothing.
    declared = Gpt2(family="gpt-2", d_model=4, n_layers=2, n_heads=1, n_positions=4, norm="none", mlp="none", biases=(),
                    tied=False)  # fmt: skip
    weights = {name: np.zeros_like(array) for name, array in initial_weights(declared, 4, 0).items()}
    weights["embedding.weight"][:] = np.eye(4)
    weights["readout.weight"][:] = np.eye(4)
    for layer, sign in ((0, 1.0), (1, -0.999)):
        weights[f"layers.{layer}.attention.v.weight"][:] = np.eye(4)
        weights[f"layers.{layer}.attention.o.weight"][:] = sign * np.eye(4)
    model = Transformer(declared, 4, weights).eval()
    # Of one token, so that attention is what it is on any text.
    runs = TwoRuns(model, torch.tensor([[1]]), torch.tensor([[2]]), lambda logits: logits[:, -1, 1])
    assert cancelling(runs) == (True, False)


def induction_runs(file):
    """The letter before the one to be repeated is another one; the metric is the right letter's log-probability."""
    clean = torch.from_numpy(induction.on_its_task(3, 100, seed=0))
    corrupted, before = clean.clone(), induction.CONTEXT - 1 - 3
    corrupted[:, before] = (clean[:, before] + 7) % induction.VOCAB
    right = clean[:, before + 1]

    def metric(logits):
        return logits[torch.arange(len(right)), -1].log_softmax(1).gather(1, right[:, None])[:, 0]

    return TwoRuns(induction.read(file), clean, corrupted, metric)


def test_either_head_of_the_trained_induction_model_restores_all_through_the_keys_of_the_second():
    runs = induction_runs("trained")
    difference = float((runs.values(runs.clean_tokens) - runs.values(runs.tokens)).mean())
    assert difference > 10
    heads, effects = runs.heads, patched_effects(runs, "z")
    assert heads == ((0, 0), (1, 0))
    np.testing.assert_allclose(effects.mean(1).numpy() / difference, 1, atol=0.01)
    through = {name: changes[0, 1] / difference for name, changes in head_paths(runs).through.items()}
    assert through["k"] == pytest.approx(1, abs=0.01)
    assert max(abs(through["q"]), abs(through["v"])) < 0.02


def test_nothing_restores_anything_in_the_destroyed_induction_model():
    runs = induction_runs("destroyed")
    assert float(patched_effects(runs, "z").mean(1).abs().max()) < 1e-4
    assert all(abs(changes[0, 1]) < 1e-4 for changes in head_paths(runs).through.values())


@pytest.mark.parametrize("name", MODELS)
def test_our_own_pass_the_checks_of_patching(name):
    runs = runs_of(name)
    check_patching(runs.model, runs.tokens, PATCH_SITES, paths=True)


def test_contexts_that_attention_does_not_give_are_refused(monkeypatch):
    monkeypatch.setattr(AttentionTrace, "patterns", lambda self: self.logits().sigmoid())
    with pytest.raises(UserError, match="the check that failed: in layer 0 patching every head with its own q"):
        check_patching(runs_of("plain").model, torch.tensor([[1, 2, 3, 4]]), PATCH_SITES)


def test_what_cannot_be_patched_is_said():
    runs = runs_of("plain")
    with pytest.raises(UserError, match=r"a clean text of \[3, 8\] and a corrupted one of \[3, 7\]"):
        TwoRuns(runs.model, runs.clean_tokens, runs.tokens[:, 1:], answer)
    with pytest.raises(UserError, match=r"metric: it returned \[\] for 3 examples; turn logits"):
        TwoRuns(runs.model, runs.clean_tokens, runs.tokens, lambda logits: answer(logits).mean())
    for said, choice in (
        ("this model's norms come after its sub-layers", {"norm_place": "after"}),
        ("this model has no residual stream", {"residual": False}),
    ):
        declared = Gpt2(family="gpt-2", n_heads=2, **choice, **SHAPE)
        model = Transformer(declared, 9, initial_weights(declared, 9, seed=0)).eval()
        with pytest.raises(UserError, match=f"paths between heads are not measured: {said}"):
            head_paths(TwoRuns(model, runs.clean_tokens, runs.tokens, answer))

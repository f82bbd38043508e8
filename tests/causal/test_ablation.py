"""Exact effects of heads: the fast way against whole passes, what stands in, and what heads do together."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, built, every_model, text
from support.substitutes import substitutes
from support.tolerance import assert_same, nearly

from headway.causal import removal
from headway.causal.ablation import BatchedText, ablate, changes_without
from headway.causal.effects import KINDS
from headway.causal.removal import Removal, losses_without, reference_losses_without, shares_after_attention
from headway.causal.substitutes import (
    check_mean_over,
    check_targets,
    contexts_of,
    donors_of,
    heads_of,
)
from headway.errors import UserError

OTHER = torch.randint(0, VOCAB, (3, LENGTH + 5), generator=torch.Generator().manual_seed(7))


def read(uncounted=True):
    """Inputs, and targets of which the second sequence has fewer."""
    tokens = text(LENGTH + 1)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    if uncounted:
        targets[1, 20:] = -1
    return inputs, targets


def some_heads(model):
    """First and last of each layer, so that models of many heads take no longer."""
    return [(layer, head) for layer, n in enumerate(model.layout.n_heads) for head in sorted({0, n - 1}) if n]


@pytest.mark.slow
@every_model
def test_the_fast_way_has_the_losses_of_whole_passes(model, monkeypatch):
    module, (inputs, targets) = built(model), read()
    stand_ins = substitutes(module, inputs, OTHER)
    heads = some_heads(model)
    sets = [*((head,) for head in heads), tuple(heads), tuple(heads_of(module)), (heads[0], heads[-1]), ()]
    removals = [Removal(heads, stand_in) for stand_in in stand_ins.values() for heads in sets]
    slow = reference_losses_without(module, inputs, targets, removals)
    for at_once in (None, 5):
        if at_once is not None:
            monkeypatch.setattr(removal, "_sets_at_once", lambda _, n=at_once: n)
        fast = losses_without(module, inputs, targets, removals)
        assert_same(fast.without, slow.without, dtype=np.float32)
        assert_same(fast.whole, slow.whole, dtype=np.float32)
        assert fast.forward_passes < slow.forward_passes
    assert torch.equal(fast.without[len(sets) - 1], fast.whole)


def test_what_stands_in():
    module, (inputs, _) = built(MODELS["GQA"]), read()
    z = contexts_of(module, OTHER[:, :LENGTH])
    over_text, by_position = (
        substitutes(module, inputs, OTHER, mean_over=over) for over in ("positions", "per-position")
    )
    donors = donors_of(inputs, OTHER, 0)
    for layer in range(3):
        assert not over_text["zero"][layer].any()
        assert_same(over_text["mean"][layer][0, :, 0], z[layer].mean((0, 2)))
        assert_same(by_position["mean"][layer][0], z[layer].mean(0))
        assert torch.equal(over_text["resample"][layer], z[layer][list(donors)])
    assert len(set(donors)) == 2
    assert len({donors_of(inputs, OTHER, seed) for seed in range(20)}) == 6
    assert all(set(range(3)) <= set(donors_of(inputs.repeat(2, 1), OTHER, seed)) for seed in range(5))


def test_a_head_that_another_text_gives_the_same_context_has_no_effect():
    """Values that do not depend on the token: every mean and every donor is the context itself."""
    model = MODELS["ragged"]
    module, (inputs, targets) = built(model), read()
    with torch.no_grad():
        module.layers[1].attention.v.weight[4:8] = 0  # L1H1: d_head 4
    found = ablate(module, inputs, targets, substitutes(module, inputs, OTHER))
    for kind in KINDS:
        assert_same(found.single[kind].per_sequence[1][1], 0.0, dtype=np.float32, scale=found.loss)
        assert np.abs(found.single[kind].per_sequence[1][0]).max() > 1e-4


def test_changes_without_sets_are_those_of_whole_passes():
    module, (inputs, targets) = built(MODELS["unequal KV groups"]), read()
    stand_ins = substitutes(module, inputs, OTHER)
    sets = [(), ((0, 0),), ((0, 0), (0, 1)), ((0, 6), (2, 1)), ((2, 0), (1, 3))]
    found = changes_without(module, inputs, targets, stand_ins, sets)
    for kind in KINDS:
        removals = [Removal(heads, stand_ins[kind]) for heads in sets]
        losses = reference_losses_without(module, inputs, targets, removals)
        assert_same(found[kind], losses.without - losses.whole, dtype=np.float32, scale=losses.whole)


def test_the_share_of_the_joint_effect():
    module, (inputs, targets) = built(MODELS["published"]), read()
    found = ablate(module, inputs, targets, substitutes(module, inputs, OTHER))
    tokens = found.single["mean"].tokens
    assert tokens.tolist() == [LENGTH, 20]
    for kind in KINDS:
        joint = (found.joint[kind] * tokens).sum() / tokens.sum()
        assert found.share_of_joint(kind) == nearly(found.single[kind].flat().sum() / joint)
    assert found.single["zero"].ranked()[0][1] == max(found.single["zero"].flat())


def test_donors_are_paired_anew_where_a_sequence_would_get_its_own():
    """Of a task with few inputs the other text has the same ones; as few donors as can be stand in twice."""
    inputs = torch.randint(0, VOCAB, (6, 8), generator=torch.Generator().manual_seed(3))
    other = torch.cat((inputs[[0, 1, 2, 3]], inputs[[0, 0]]))
    for seed in range(30):
        donors = donors_of(inputs, other, seed)
        assert not any(torch.equal(inputs[at], other[donor]) for at, donor in enumerate(donors))
        assert sorted(donors) == list(range(6))
    assert donors_of(inputs[:2].repeat(2, 1), inputs[:2], 0) == (1, 0, 1, 0)


def test_few_sequences_have_students_intervals():
    from scipy import stats

    module = built(MODELS["published"])
    tokens = torch.randint(0, VOCAB, (6, 31), generator=torch.Generator().manual_seed(3))
    effects = ablate(module, tokens[:, :-1], tokens[:, 1:], substitutes(module, tokens[:, :-1], OTHER)).single["mean"]
    for layer, ends in enumerate(effects.interval(0.9)):
        for head, (low, high) in enumerate(ends):
            values = effects.per_sequence[layer][head]
            known = stats.t.interval(0.9, 5, values.mean(), stats.sem(values))
            assert (low, high) == nearly(known)
    one = ablate(module, tokens[:1, :-1], tokens[:1, 1:], substitutes(module, tokens[:1, :-1], OTHER)).single["zero"]
    assert all(np.isnan(ends).all() for ends in one.interval())


def test_the_work_is_counted():
    """Each head three times, and all together three times, from where they leave the shared pass."""
    model = MODELS["published"]
    module, (inputs, targets) = built(model), read()
    shares = shares_after_attention(model, VOCAB, LENGTH)
    found = ablate(module, inputs, targets, substitutes(module, inputs, OTHER))
    sets = [3 * 4 + 3, 3 * 4, 3 * 4]
    assert found.forward_passes == nearly(1 + sum(n * share for n, share in zip(sets, shares, strict=True)))


def test_wrong_requests_get_errors_that_teach():
    module, (inputs, targets) = built(MODELS["published"]), read()
    with pytest.raises(UserError, match="sequence 1 has no target that counts"):
        check_targets(torch.stack((targets[0], torch.full_like(targets[1], -1))))
    with pytest.raises(UserError, match="the other text has 3 sequences of 69 tokens, but the text has"):
        substitutes(module, inputs, OTHER[:, :69])
    with pytest.raises(UserError, match="is in the other text, too, which has no other sequence"):
        substitutes(module, inputs, inputs[:1])
    with pytest.raises(UserError, match="mean 'position' is not a kind of mean; did you mean positions"):
        check_mean_over("position")


@pytest.mark.slow
def test_a_short_reference_tells_what_its_own_error_adds_to_an_effect():
    model, length = built(MODELS["published"]), 16
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(2.0)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, VOCAB, (16, length + 1), generator=draw)
    heads = heads_of(model)[:4]

    def read_with(n):
        other = torch.randint(0, VOCAB, (n, length), generator=draw)
        return BatchedText.read(model, tokens[:, :-1], tokens[:, 1:], other, mean_over="per-position")

    def effects(work):
        return work.without([(head,) for head in heads])["mean"].mean(1)

    truth = np.mean([effects(read_with(1000)) for _ in range(6)], axis=0)
    short = [read_with(16) for _ in range(40)]
    added = np.array([effects(work) - truth for work in short])
    more = np.array([[work.reference_error(heads)[head][0] for head in heads] for work in short])
    noise = 2 * added.std(0) / np.sqrt(len(short)) + 0.01  # of the mean over references, and of the truth
    low, high = np.sort([more.mean(0) / 3, more.mean(0)], axis=0)
    assert (added.mean(0) >= low - noise).all()
    assert (added.mean(0) <= high + noise).all()
    assert (abs(more.mean(0)) > 0.02).any()
    assert read_with(3).reference_error(heads) == {}

"""Redundant heads are told as such without being asked for, and independent heads are not."""

import pytest
from support import planted

import headway
from headway.causal.effects import KINDS, named
from headway.causal.self_repair import AblationTogether
from headway.models.transformer import Transformer


def with_copy(seed, n_copies=1):
    """A planted model in which idle heads of layer 1 became copies of the induction head; and all its planted heads."""
    model, heads = planted.planted(seed)
    n, own = model.model.layout.n_heads[1], heads[1][1]
    copies = [head for head in range(n) if head != own][:n_copies]
    weights = {name: array.copy() for name, array in model.weights().items()}
    for name in "qkvo":
        array = weights[f"layers.1.attention.{name}.weight"]
        blocks = array.reshape(n, 16, -1) if name != "o" else array.reshape(len(array), n, 16).swapaxes(0, 1)
        for copy in copies:
            blocks[copy] = blocks[own]
    return Transformer(model.model, planted.VOCAB, weights).eval(), [heads[0], heads[1], *((1, c) for c in copies)]


def halves(seed):
    """A planted model whose induction head was cut in two: each half predicts half of the tokens, and does it alone."""
    model, heads = planted.planted(seed)
    n, own = model.model.layout.n_heads[1], heads[1][1]
    other = next(head for head in range(n) if head != own)
    weights = {name: array.copy() for name, array in model.weights().items()}
    for name in "qkv":
        blocks = weights[f"layers.1.attention.{name}.weight"].reshape(n, 16, -1)
        blocks[other] = blocks[own]
    o = weights["layers.1.attention.o.weight"].reshape(96, n, 16)
    o[:, other] = o[:, own]
    o[:, other, :8], o[:, own, 8:] = 0, 0
    return Transformer(model.model, planted.VOCAB, weights).eval(), [(1, own), (1, other)]


def measured(model, seed):
    inputs, targets, other = planted.texts(seed)
    return headway.ablate(model, text=inputs, targets=targets, reference=other[:, : inputs.shape[1]])


def repairs(found):
    return [finding.sentence for finding in found.findings if finding.about == "self_repair"]


def pairs_told(found):
    return {pair for kind in KINDS for at in found.repair.redundant(kind) for pair in [found.repair.pairs.heads[at]]}


SEEDS = range(4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_two_copies_of_a_head_are_told_as_such_and_no_other_pair(seed):
    model, (_, *copies) = with_copy(seed)
    found = measured(model, seed)
    assert pairs_told(found) == {tuple(sorted(copies))}
    one, other = map(named, sorted(copies))
    for sentence in repairs(found):
        assert f"{one} and {other} compensate for each other (" in sentence
        assert " Their outputs are nearly equal (cosine 1.00)." in sentence
    assert len(repairs(found)) == 1
    assert not found.not_found


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_heads_that_work_alone_or_in_a_chain_are_no_stand_ins(seed):
    model, _ = planted.planted(seed)
    split, _ = halves(seed)
    reset, _ = planted.planted(seed, reset=True)
    for each in (model, split, reset):
        found = measured(each, seed)
        assert not pairs_told(found)
        kinds = {each.kind for finding in found.findings for each in finding.statements}
        assert "stand_in" not in kinds
        assert found.not_found[0].statements[0].kind == "no_stand_ins"


def test_of_three_copies_no_pair_is_missed_but_all_together_are():
    seed = next(seed for seed in range(20) if planted.planted(seed)[0].model.layout.n_heads[1] > 3)
    model, (_, *copies) = with_copy(seed, 2)
    found = measured(model, seed)
    assert isinstance(found, AblationTogether)
    group = found.repair.others
    assert set(copies) <= set(group.heads)
    assert set(group.left_in) == set(copies)
    for sentence in repairs(found):
        assert " None of these heads has a clear effect on its own." in sentence
        for head in copies:
            assert f"Keeping {named(head)} lowers the loss by " in sentence
    content = found.to_json()["self_repair"]
    for kind in KINDS:
        effects = content["others"][kind]
        assert effects["joint"]["effect_nats"] > effects["single_effects"]["effect_nats"] + 1
        assert content["others"]["all_but_one"][named(copies[0])][kind]["effect_nats"] < effects["joint"]["effect_nats"]

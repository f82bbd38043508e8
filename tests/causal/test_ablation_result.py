"""Which heads are said to matter: by intervals that hold for all heads at once, and silent where there are none."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from support.tolerance import nearly

from headway.causal.ablation_result import Ablation, PairEffects, effect_scores
from headway.causal.effects import KINDS, ExactEffects, HeadEffects
from headway.causal.self_repair import heads_beyond
from headway.heads.results import AttentionHeads
from headway.report.models.ablation import WAYS, _title, ways

TOKENS = np.full(12, 100)


def effects(means, noise=0.002, seed=0):
    random = np.random.default_rng(seed)
    layers = tuple(np.array(layer)[:, None] + noise * random.normal(size=(len(layer), 12)) for layer in means)
    return HeadEffects(per_sequence=layers, tokens=TOKENS)


def ablation(means, pairs=None, joint=1.0):
    single = {kind: effects(means) for kind in KINDS}
    exact = ExactEffects(
        loss=np.full(12, 2.0), single=single, joint={kind: np.full(12, joint) for kind in KINDS}, forward_passes=3.0
    )
    michel = tuple(np.abs(np.array(layer)) for layer in means)
    names = {layer: f"layers.{layer}.attention" for layer in range(len(means))}
    return Ablation(
        name="made",
        model={},
        text="a.txt",
        n_tokens=1200,
        n_sequences=12,
        length=100,
        attentions=tuple(
            AttentionHeads(name=names[i], kind="self", kv_of=tuple(range(len(layer))), d_head=2)
            for i, layer in enumerate(means)
        ),
        scores=effect_scores(names, exact, michel, single, single),
        other="12 sequences of b.txt",
        mean_over="positions",
        exact=exact,
        michel=michel,
        first_order=single,
        integrated=single,
        pairs=pairs,
    )


def said(found, about="mean_ablation_nats"):
    return next(finding.sentence for finding in found.findings if finding.about == about)


def test_the_head_that_matters_is_named_and_of_the_others_nothing_is_said():
    sentence = said(ablation([[0.0, 0.001], [0.52, 0.0]]))
    assert sentence == (
        "1 of 4 heads matter (mean ablation). Loss changes (nats per token, simultaneous CIs): "
        "L1H0 0.520 (0.519 to 0.521)."
    )


def test_several_are_named_in_their_order_and_so_is_one_without_which_the_loss_falls():
    sentence = said(ablation([[0.1, 0.3, -0.2]]))
    assert re.search(r": L0H1 0\.299 \(.*\), L0H2 −0\.20. \(−0\.20. to −0\.19.\) and L0H0 0\.1.. \(.*\)\.$", sentence)


def test_of_many_three_are_named():
    found = ablation([[0.9 - 0.1 * head for head in range(8)]])
    assert [f"L0H{head}" in said(found) for head in range(8)] == [True] * 3 + [False] * 5
    assert " and 5 more." in said(found)
    (heads,) = (each.statements[0].values["heads"] for each in found.findings if each.about == "mean_ablation_nats")
    assert len(heads) == 8


def test_silent_where_nothing_is():
    sentence = said(ablation([[0.0] * 8, [0.001] * 8]))
    assert sentence == "None of the 16 heads clearly matters (mean ablation)."


def test_an_effect_that_few_sequences_feel_has_no_interval_and_is_not_named():
    means = [[0.0] * 30]
    one = np.zeros((30, 12))
    one[0, :3] = 0.2  # a few sequences only
    found = ablation(means)
    single = {kind: HeadEffects(per_sequence=(one,), tokens=TOKENS) for kind in KINDS}
    exact = ExactEffects(loss=found.exact.loss, single=single, joint=found.exact.joint, forward_passes=1.0)
    sentence = said(replace(found, exact=exact))
    assert sentence == (
        "None of the 30 heads clearly matters (mean ablation). No interval for L0H0: few of the 12 sequences "
        "show an effect. About 28 more are enough."
    )

    assert np.isnan(single["mean"].interval()[0][0]).all()


def test_corrected_intervals_hold_for_all_heads_at_once():
    """Of 400 models of 20 idle heads at most one in twenty has an interval that misses 0."""
    random = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        noise = HeadEffects(per_sequence=(random.normal(size=(20, 12)),), tokens=TOKENS)
        (ends,) = noise.corrected_interval()
        missed += bool(((ends[:, 0] > 0) | (ends[:, 1] < 0)).any())
    assert missed <= 30


def test_few_sequences_cannot_carry_many_claims():
    few = HeadEffects(per_sequence=(np.full((48, 7), 0.5),), tokens=np.full(7, 100))
    assert np.isnan(few.corrected_interval()[0]).all()
    found = ablation([[0.5] * 48])
    exact = ExactEffects(
        loss=np.full(7, 2.0),
        single=dict.fromkeys(KINDS, few),
        joint=dict.fromkeys(KINDS, np.ones(7)),
        forward_passes=1.0,
    )
    sentence = said(replace(found, exact=exact))
    assert sentence == ("Heads (mean ablation): too few sequences (7) for 48 tests. Give 8 documents or more.")


def test_effects_do_not_add_up_and_that_is_said():
    rows = ways(ablation([[0.2, 0.3]], joint=2.0)).rows
    assert [row.cells[1:3] for row in rows] == [("2.000 (2.000 to 2.000)", "25 %")] * 3


def test_of_a_joint_effect_that_is_not_told_from_none_there_is_no_share():
    around_0 = np.random.default_rng(0).normal(size=12)
    mixed = ablation([[0.2, 0.3]])
    joint = {"zero": around_0, "mean": np.full(12, 1.0), "resample": around_0}
    mixed = replace(mixed, exact=replace(mixed.exact, joint=joint))
    assert [row.cells[2] for row in ways(mixed).rows] == ["–", "50 %", "–"]


def test_where_no_effect_is_told_from_0_nothing_is_ranked():
    noise = ablation([[0.0] * 8, [0.0] * 8])
    assert all(_title(noise, kind, "first-order") == WAYS[kind] for kind in KINDS)
    content = noise.to_json()
    assert content["heads_told_from_0"] == dict.fromkeys(KINDS, 0)
    assert np.isfinite(content["rank_correlation_with_exact"]["zero"]["first-order"])


def test_what_has_no_sign_is_held_against_sizes_too():
    """Michel's importance ranks these heads as their sizes do, and not as their effects."""
    found = ablation([[0.2, -0.3, 0.1, -0.4]])
    content = found.to_json()
    assert content["rank_correlation_with_exact"]["zero"]["michel"] == nearly(-0.8)
    assert content["rank_correlation_with_absolute_exact"] == {kind: {"michel": 1.0} for kind in KINDS}
    assert _title(found, "mean", "michel") == "set to the mean: rank correlation −0.80 (1.00 with absolute effects)"
    assert _title(found, "mean", "integrated") == "set to the mean: rank correlation 1.00"


@pytest.mark.parametrize(
    ("value", "words"), [(0.2, "L0H0 and L0H1 0.200 (0.200 to 0.200)"), (0.0, "No pair of heads clearly")]
)
def test_pairs(value, words):
    values = np.full((1, 12), value) + 1e-5 * np.arange(12)
    pairs = PairEffects(
        heads=(((0, 0), (0, 1)),),
        why=("alike",),
        cosine=(0.9,),
        per_sequence=dict.fromkeys(KINDS, values),
        tokens=TOKENS,
    )
    found = ablation([[0.2, 0.3]], pairs)
    assert words in said(found, "interactions")
    assert found.to_json()["pairs"][0]["zero"]["interaction_nats"] == pytest.approx(value, abs=1e-4)


def test_intervals_of_pairs_are_of_each_alone_and_of_all_at_once():
    values = np.random.default_rng(0).normal(0.1, 0.05, size=(6, 12))
    pairs = PairEffects(
        heads=tuple(((0, 0), (0, head)) for head in range(1, 7)),
        why=("alike",) * 6,
        cosine=(0.9,) * 6,
        per_sequence=dict.fromkeys(KINDS, values),
        tokens=TOKENS,
    )
    found = ablation([[0.2] * 7], pairs)
    for at, pair in enumerate(found.to_json()["pairs"]):
        for kind in KINDS:
            student = scipy.stats.t.interval(0.95, 11, values[at].mean(), scipy.stats.sem(values[at]))
            own, all_at_once = pair[kind]["interval"], pair[kind]["corrected_interval"]
            assert own[0] <= student[0] * (1 + 1e-4)
            assert own[1] >= student[1] * (1 - 1e-4)
            assert all_at_once[0] < own[0] < own[1] < all_at_once[1]
    low, high = pairs.corrected_interval("zero")
    interactions = next(each.statements[0] for each in found.findings if each.about == "interactions")
    ends = {entry.values["heads"]: entry.values["interval"] for entry in interactions.values["pairs"]}
    assert ends["L0H0", "L0H1"] == (low[0], high[0])


def test_a_head_that_raises_the_loss_in_one_way_and_lowers_it_in_another_counts_once():
    exact = ablation([[0.5, 0.3]]).exact
    lowers = HeadEffects(per_sequence=tuple(-layer for layer in exact.single["zero"].per_sequence), tokens=TOKENS)
    mixed = replace(exact, single={**exact.single, "zero": lowers})
    assert heads_beyond(mixed, 1, -1) == ((0, 0), (0, 1))
    assert heads_beyond(exact, -1) == ()

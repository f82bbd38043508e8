"""How much some heads explain alone: planted ones nearly all of it, and far more than random ones."""

from dataclasses import replace

import numpy as np
import pytest
from support import planted
from support.substitutes import substitutes
from support.tolerance import assert_same, nearly

from headway.causal.ablation import BatchedText
from headway.causal.ablation_result import CircuitLosses, Faithfulness, circuit_statements
from headway.causal.effects import KINDS
from headway.causal.faithfulness import check_circuit, faithfulness, random_circuits
from headway.causal.substitutes import OtherText, heads_of
from headway.errors import UserError


def alone(model, inputs, targets, stand_ins, heads, **options):
    """The circuit on a text that is read at once, the others at their mean."""
    return faithfulness(model, [(inputs, targets, stand_ins)], heads, kinds=("mean",), **options)["mean"]


@pytest.mark.parametrize("seed", range(3))
def test_planted_heads_alone_keep_nearly_all_and_random_ones_little(seed):
    model, heads = planted.planted(seed)
    inputs, targets, other = planted.texts(seed)
    found = alone(model, inputs, targets, substitutes(model, inputs, other[:, :-1]), heads, draws=30)
    assert found.share > 0.95
    assert found.circuit < found.none
    reset, _ = planted.planted(seed, reset=True)
    nothing = alone(reset, inputs, targets, substitutes(reset, inputs, other[:, :-1]), heads, draws=30)
    assert abs(nothing.none - nothing.circuit) < 0.2 * (found.none - found.circuit)
    assert found.interval[0] > 0.9
    # Some random circuits have one of the two, and none has both.
    assert found.as_faithful == 0
    assert found.random_shares.max() < 0.6
    assert f"{len(found.random)} " in found.sentence


def made(whole, none, circuit, random, *, n=6, spread=0.0):
    """Losses of so many sequences about these means."""
    around = spread * np.linspace(-1, 1, n)
    losses = CircuitLosses(
        whole=np.full(n, whole), none=none + around, circuit=circuit + around,
        random=np.array(random)[:, None] + around,
    )  # fmt: skip
    return Faithfulness(heads=((0, 1),), kind="mean", losses=losses, tokens=np.full(n, 10))


def test_of_heads_that_are_good_for_nothing_there_is_no_share():
    useful = made(1.0, 2.0, 1.5, [1.2, 1.8])
    assert useful.share == nearly(0.5)
    assert useful.as_faithful == 1
    assert useful.sentence.startswith(
        "L0H1 alone have a faithfulness of 50.0 % (95 % CI 50.0 % to 50.0 %; mean ablation of all other heads). "
    )
    for found in (
        *(made(1.0, none, 1.5, [1.2, 1.8]) for none in (1.00001, 1.0, 0.5)),
        made(1.0, 2.0, 1.5, [2.0], spread=9.0),
    ):
        assert np.isnan(found.share)
        assert np.isnan(found.interval).all()
        assert found.to_json()["share"] is None
        assert found.to_json()["interval"] == [None, None]
        (nothing,) = circuit_statements(found)
        assert nothing.kind == "no_worth"


def test_a_way_in_which_heads_are_good_for_nothing_is_said():
    useful, nothing = made(1.0, 2.0, 1.5, [1.2, 1.8]), made(1.0, 1.0, 1.0, [1.0, 1.0])
    _, random = circuit_statements(replace(useful, kind="zero"))
    (none,) = circuit_statements(replace(nothing, kind="resample"))
    assert random.sentence == (
        "Median faithfulness of 2 random circuits of 1 head: 50 %; 1 are no less faithful than this circuit."
    )
    assert none.sentence.endswith(
        "Faithfulness is not defined: without any head, the loss rises by only 0.000 nats per token (resample "
        "ablation)."
    )


def test_the_interval_is_that_of_a_ratio_over_sequences():
    random, missed = np.random.default_rng(1), 0
    for _ in range(300):
        useful = random.normal(3, 0.5, 20)
        kept = 0.7 * useful + random.normal(0, 0.3, 20)
        losses = CircuitLosses(whole=np.ones(20), none=1 + useful, circuit=1 + useful - kept, random=np.ones((1, 20)))
        found = Faithfulness(heads=((0, 0),), kind="zero", losses=losses, tokens=np.full(20, 5))
        low, high = found.interval
        assert low < found.share < high
        missed += not low < 0.7 < high
    assert 5 <= missed <= 28  # 15 of 300 at 5 %


def test_random_circuits_are_others_and_no_two_the_same():
    every = [(layer, head) for layer in range(3) for head in range(4)]
    some = random_circuits(every, every[:3], 50, 0)
    assert len({frozenset(each) for each in some}) == 50
    assert frozenset(every[:3]) not in {frozenset(each) for each in some}
    assert some == random_circuits(every, every[2::-1], 50, 0) != random_circuits(every, every[:3], 50, 1)
    # Of few there are all: the other one of two heads, and the 65 other pairs of twelve.
    assert random_circuits(every[:2], every[:1], 50, 0) == [(every[1],)]
    assert len(random_circuits(every, every[:2], 65, 0)) == 65


def test_where_circuits_are_few_it_is_said_that_they_are_all():
    model, heads = small_of("2-2")
    inputs, targets, other = planted.texts(0)
    found = alone(model, inputs, targets, substitutes(model, inputs, other[:, :-1]), heads)
    assert found.exhaustive
    assert len(found.random) == 5
    assert found.chance == 1 / 6
    assert "Median faithfulness of all 5 other circuits of 2 heads: " in found.sentence
    assert found.sentence.endswith("; 0 are no less faithful than this circuit.")


def small_of(layout):
    """A planted model of that layout."""
    for seed in range(400):
        model, heads = planted.planted(seed)
        if "-".join(map(str, model.n_heads)) == layout:
            return model, heads
    raise AssertionError(layout)


def test_batches_change_nothing():
    model, heads = planted.planted(2)
    inputs, targets, other = planted.texts(2)
    given = {"model": model, "inputs": inputs, "targets": targets}
    texts = [
        BatchedText(**given, at_once=n, other=OtherText.read(model, inputs, other, mean_over="per-position", at_once=n))
        for n in (5, 24)
    ]
    some, whole = (text.faithfulness(heads, draws=4) for text in texts)
    for kind in KINDS:
        assert some[kind].share == nearly(whole[kind].share, dtype=np.float32)
        assert_same(some[kind].random, whole[kind].random, dtype=np.float32)
        assert some[kind].interval == nearly(whole[kind].interval, dtype=np.float32)
        assert len(some[kind].losses.circuit) == len(inputs)


def test_what_is_no_circuit_is_said():
    model, heads = planted.planted(0)
    every = heads_of(model)
    for wrong, said in (
        ([], "heads of a circuit: none was given; give some of the heads of the model \\("),
        ([(0, 99)], "heads of a circuit: L0H99 is not a head of the model; give"),
        ([heads[0], heads[0]], f"heads of a circuit: L0H{heads[0][1]} is named twice; give"),
        (every, f"heads of a circuit: all {len(every)} were given, so no head is left to ablate; give"),
    ):
        with pytest.raises(UserError, match=said):
            check_circuit(model, wrong)
    with pytest.raises(UserError, match="draws 0: a circuit is compared with random circuits; give 1 or more"):
        check_circuit(model, heads, draws=0)

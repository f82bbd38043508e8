"""How much some heads explain alone: planted ones nearly all of it, and far more than random ones."""

import numpy as np
import planted
import pytest

from headway.errors import UserError
from headway.heads.causes.faithfulness import Faithfulness, faithfulness
from headway.heads.causes.substitutes import substitutes


@pytest.mark.parametrize("seed", range(5))
def test_planted_heads_alone_keep_nearly_all_and_random_ones_little(seed):
    model, heads = planted.planted(seed)
    inputs, targets, other = planted.texts(seed)
    found = faithfulness(model, inputs, targets, substitutes(model, inputs, other[:, :-1]), heads, draws=30)
    assert found.share > 0.95
    assert found.circuit < found.none
    reset, _ = planted.planted(seed, reset=True)
    nothing = faithfulness(reset, inputs, targets, substitutes(reset, inputs, other[:, :-1]), heads, draws=30)
    assert abs(nothing.none - nothing.circuit) < 0.2 * (found.none - found.circuit)
    if len(found.random) and sum(model.model.layout.n_heads) > 6:
        assert found.chance < 0.3
        assert f"{len(found.random)} random circuits of as many heads keep" in found.sentence


def test_of_heads_that_are_good_for_nothing_there_is_no_share():
    numbers = {"heads": ((0, 1),), "kind": "mean", "circuit": 1.5, "random": np.array([1.2, 1.8])}
    useful = Faithfulness(whole=1.0, none=2.0, **numbers)
    assert useful.share == 0.5
    assert useful.sentence.startswith("L0H1 alone keeps 50 % of what all heads are good for")
    for none in (1.00001, 1.0, 0.5):
        found = Faithfulness(whole=1.0, none=none, **numbers)
        assert np.isnan(found.share)
        assert found.to_json()["share"] is None
        assert found.sentence.startswith(
            "all heads together are good for less than .010 nats per token (mean for them)"
        )


def test_of_all_heads_or_none_there_is_nothing_to_say():
    model, heads = planted.planted(0)
    inputs, targets, other = planted.texts(0)
    stand_ins = substitutes(model, inputs, other[:, :-1])
    for wrong, said in (([], "0 were given"), ([(0, 99)], "L0H99 is none of them"), ([heads[0], heads[0]], "2 were")):
        with pytest.raises(UserError, match=said):
            faithfulness(model, inputs, targets, stand_ins, wrong)

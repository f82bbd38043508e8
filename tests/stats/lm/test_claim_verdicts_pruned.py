"""Whether alike heads can go and layer 0's stay longest, by models that were pruned and not trained."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import small_text

from headway.config.lm.head_units import without_heads
from headway.config.lm.run import TokensRun, with_model
from headway.stats.evidence import Comparison
from headway.stats.lm.claim_verdicts import pruned_at_once, pruning_claims
from headway.store.run import Run


def pruned(by: str, keep: float = 0.5, **start) -> dict[str, Any]:
    return {"init_from": {"arm": "dense", "prune": {"by": by, "keep": keep}, **start}, "training": {"steps": 0}}


ARMS = {
    "dense": {},
    "random": pruned("random"),
    "alike": pruned("alike"),
    "either": pruned("alike-either"),
    "taylor": pruned("taylor"),
    "at": {"init_from": {"arm": "dense", "step": 10}, "training": {"steps": 0}},
    "taylor-at": pruned("taylor", step=10),
    "trained": {**pruned("taylor"), "training": {"steps": 5}},
}
OF = small_text.experiment(
    arms=ARMS, baseline="dense", model={"family": "gpt-neo", "d_model": 16, "n_layers": 2, "n_heads": 4}
)


def comparison(arm: str, baseline: str, *ends: float) -> Comparison:
    known = {"metric": "eval_loss_nats", "n_pairs": 5, "interval": ends, "estimate": sum(ends) / 2, "outcome": "apart"}
    sides = {"arm": arm, "baseline": baseline, "control": None, "group": None, "verdict": ""}
    return cast(Comparison, Comparison.partly_known(**known, **sides))


def runs_of(arm: str, *layouts: tuple[int, int]) -> list[Run]:
    spec = OF.arm(arm).resolved_spec
    assert isinstance(spec, TokensRun)
    models = [without_heads(spec.model, [[head < n for head in range(4)] for n in layout]) for layout in layouts]
    found = [SimpleNamespace(name=arm, status="done", spec=spec, trained=with_model(spec, model)) for model in models]
    return cast(list[Run], found)


@pytest.mark.parametrize(
    ("ends", "verdict"), [((-0.2, -0.1), "holds"), ((-0.2, 0.1), "cannot be told"), ((0.1, 0.2), "does not hold")]
)
def test_alike_heads_go_first_where_their_loss_is_below_that_of_random_ones(ends, verdict):
    of_others = [comparison("alike", "random", -1, -0.5), comparison("taylor", "random", -1, -0.5)]
    (claim,) = pruning_claims(OF, [], [comparison("either", "random", *ends), *of_others])
    assert (claim.name, claim.verdict, [arm.arm for arm in claim.arms]) == ("alike-heads-go-first", verdict, ["either"])
    assert claim.sentence.startswith(f"Pruning can remove similar heads first: {verdict}")


def test_layer_0_goes_last_where_more_of_its_heads_stay():
    runs = runs_of("taylor", (4, 0), (3, 1), (4, 0)) + runs_of("random", (0, 4))
    (claim,) = pruning_claims(OF, runs, [])
    assert (claim.name, claim.verdict) == ("layer-0-goes-last", "holds")
    assert claim.arms[0].value == pytest.approx((1 + 0.5 + 1) / 3)
    (against,) = pruning_claims(OF, runs_of("taylor", (0, 4), (1, 3), (0, 4)), [])
    assert against.verdict == "does not hold"


def test_nothing_is_said_where_nothing_was_pruned():
    assert list(pruning_claims(small_text.experiment(), [], [])) == []


def test_a_pruned_model_is_compared_with_the_whole_one_of_its_step():
    finals = {
        arm: {seed: {"eval_loss_nats": loss + seed, "total_heads": heads} for seed in (0, 1)}
        for arm, loss, heads in [
            ("dense", 2.0, 8), ("random", 2.5, 4), ("taylor", 2.1, 4), ("at", 3.0, 8), ("taylor-at", 3.0, 4),
            ("trained", 1.0, 4),
        ]
    }  # fmt: skip
    found = {one.arm: one for one in pruned_at_once(OF.arms, finals, {"dense": 40})}
    assert set(found) == {"random", "taylor", "taylor-at"}  # alike did not finish; what was trained is another question
    assert {name: (one.method, one.step, one.kept) for name, one in found.items()} == {
        "random": ("random", 40, 0.5), "taylor": ("taylor", 40, 0.5), "taylor-at": ("taylor", 10, 0.5),
    }  # fmt: skip
    assert found["taylor"].rises == pytest.approx({0: 0.1, 1: 0.1})
    assert found["taylor-at"].rises == pytest.approx({0: 0.0, 1: 0.0})

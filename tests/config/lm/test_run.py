"""Which runs are trained alone, and why: as the shape, as docs/running.md and as `plan` say."""

from pathlib import Path

import pytest

from headway.config.lm.run import UNBATCHABLE
from headway.config.load import load, resolve
from headway.execute.costs import remarks

PARITY = {
    "name": "alone",
    "task": {"kind": "parity", "n_bits": 2},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_head": 4, "n_positions": 3,
              "norm": "none", "mlp": "none", "tied": False},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 30, "clip": None},
    "samples": None,
    "baseline": "a",
    "seeds": 2,
}  # fmt: skip
GIVEN = {
    "model.dropout": {"model": {"dropout": 0.1}},
    "training.drophead": {"training": {"drophead": {"start": 0.2, "end": 0.0, "turn": 0.5}}},
    "training.regularizers": {"training": {"regularizers": [{"metric": "query_cka", "weight": 0.1}]}},
    "training.precision": {"training": {"precision": "bf16"}},
    "training.optimizer": {
        "training": {
            "optimizer": "muon",
            "learning_rate": 0.01,
            "adamw_learning_rate": 0.01,
            "batch_size": 4,
            "steps": 9,
        }
    },
    "training.grad_accumulation": {"training": {"grad_accumulation": 2}},
}


def test_a_plain_run_is_not_alone():
    run = resolve({**PARITY, "arms": {"a": {}}}).arm("a").resolved_spec
    assert run.batching.obstacles == ()
    assert run.batching.key is not None


@pytest.mark.parametrize("key", GIVEN)
def test_each_reason_is_named_and_has_no_shape(key):
    run = resolve({**PARITY, "arms": {"a": GIVEN[key]}}).arm("a").resolved_spec
    assert [why.split(":")[0] for why in run.batching.obstacles] == [key]
    assert run.batching.key is None


def test_no_shape_exactly_where_there_is_a_reason():
    for name in ("prune-heads", "icl-heads", "heads-for-parity", "regularized"):
        for arm in load(name).arms:
            assert (arm.resolved_spec.batching.key is None) == bool(arm.resolved_spec.batching.obstacles), arm.full_name


def test_the_docs_list_them():
    said = (Path(__file__).parents[3] / "docs" / "running.md").read_text()
    for key, (_, reason) in UNBATCHABLE.items():
        assert f"* `{key}`: {reason}." in said
    assert said.count("\n* `") >= len(UNBATCHABLE)


def test_plan_says_it_once_of_the_arms_that_it_is_true_of():
    experiment = resolve({**PARITY, "arms": {"a": {}, "b": GIVEN["model.dropout"], "c": GIVEN["model.dropout"]}})
    (said,) = [each for each in remarks(experiment) if "trained alone" in each]
    assert said.startswith("b and c: trained alone, and not together with others of its shape: model.dropout: dropout")

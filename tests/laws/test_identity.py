"""Law: equal values, equal id; every field that can change a result changes the id."""

import json

import pytest

from headway.declare.experiment import load, resolve
from headway.declare.run import RegressionRun, parse_run

GOLDEN = {
    ("icl-heads", "h2", 0): "run1-a3050d9aff89e458",
    ("icl-paper", "h8", 1): "run1-a79f6b8017ff0eb7",
    ("icl-depth", "l3-tied-residual", 0): "run1-ca6ab8efcab5f624",
    ("icl-two-tasks", "h3", 2): "run1-0c3301dcc73c3b56",
    ("icl-anisotropic", "h2+stronger", 0): "run1-abe473936ba8537b",
    ("icl-optimizer", "adamw", 0): "run1-28d75e508f04705f",
}
"""Ids that stored results already carry: a changed default or a renamed field would orphan them."""


@pytest.mark.parametrize(("key", "id"), GOLDEN.items())
def test_ids_are_frozen(key, id):
    name, arm, seed = key
    assert load(name).arm(arm).spec(seed).id == id


def test_defaults_are_frozen():
    # They are left out of ids: a changed default would give an old id another meaning.
    minimal = parse_run(
        {
            "task": {"kind": "regression", "d_x": 5, "n_pairs": 40},
            "model": {"family": "icl", "n_heads": 2},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 128, "steps": 1000},
            "seed": 0,
        }
    )
    assert json.loads(minimal.model_dump_json()) == {
        "seed": 0,
        "task": {"kind": "regression", "d_x": 5, "d_y": 1, "n_pairs": 40, "beta_variance": 1.0, "noise_variance": 0.0,
                 "noisy_query": False, "covariance": {"kind": "identity"}, "reads": None},
        "model": {"attention": "softmax", "n_heads": 2, "bias": False, "init": "random",
                  "family": "icl", "n_out": None},
        "training": {"steps": 1000, "batch_size": 128, "learning_rate": 0.001, "betas": [0.9, 0.999], "eps": 1e-8,
                     "optimizer": "adamw", "weight_decay": 0.01},
        "evaluation": {"every": 1000, "prompts_during": 500, "prompts": 100_000,
                       "curve": {"prompts": 10_000, "longest": 500, "lengths": 40, "resamples": 200}},
        "probes": {"every": 1000, "circuits": [1, 1000, 10_000, 100_000, 500_000]},
    }  # fmt: skip


def test_defaults_written_out_change_no_id():
    run = load("icl-heads").arm("h2").spec(0)
    assert parse_run(json.loads(run.model_dump_json())).id == run.id


def test_names_scale_and_logging_change_no_id():
    base = load("icl-heads")
    content = {**base.plain(), "name": "other", "question": "?", "scales": {"laptop": {}}}
    other = resolve(content, settings=["logging.every=7"])
    assert other.scale == "laptop"
    assert [a.template.id for a in other.arms] == [a.template.id for a in base.arms]


VARIATIONS = {
    "task": {"d_x": 6, "d_y": 2, "n_pairs": 41, "beta_variance": 2.0, "noise_variance": 0.3, "noisy_query": True,
             "covariance": {"kind": "power", "rho": 0.1}, "reads": [[0]]},
    "model": {"attention": "linear-mean", "n_heads": 3, "bias": True, "init": "small_id", "n_out": None},
    "training": {"steps": 7, "batch_size": 7, "learning_rate": 0.7, "betas": [0.1, 0.2], "eps": 0.1,
                 "weight_decay": 0.1},
    "evaluation": {"every": 7, "prompts_during": 7, "prompts": 7, "curve": {"prompts": 7}},
    "probes": {"every": 7, "circuits": [7]},
}  # fmt: skip


@pytest.mark.parametrize(("part", "field"), [(p, f) for p, fields in VARIATIONS.items() for f in fields])
def test_every_field_changes_the_id(part, field):
    run = load("icl-heads").arm("h2").spec(0)
    content = run.content()
    content["model"].pop("n_out")  # so that d_y may vary
    base = parse_run(content)
    if field == "n_out":
        base = run
        content = run.content()
    content[part] = {**content.get(part, {}), field: VARIATIONS[part][field]}
    assert parse_run(content).id != base.id
    assert base.model_copy(update={"seed": 1}).id != base.id


def test_the_variations_cover_every_field():
    kinds = RegressionRun(**load("icl-heads").arm("h2").spec(0).__dict__)
    for part, fields in VARIATIONS.items():
        declared = set(type(getattr(kinds, part)).model_fields) - {"kind", "family", "optimizer"}
        assert declared == set(fields), part

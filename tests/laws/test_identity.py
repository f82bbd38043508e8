"""Law: equal values, equal id; every field that can change a result changes the id."""

import json

import pytest

from headway.config.kinds import parse_run
from headway.config.lm.init_from import Start
from headway.config.lm.model import OWN_ATTENTIONS
from headway.config.lm.run import TASKS
from headway.config.lm.synthetic import EndpointTask
from headway.config.load import load, resolve

GOLDEN = {
    ("icl-heads", "h2", 0): "run1-a3050d9aff89e458",
    ("icl-paper", "h8", 1): "run1-a79f6b8017ff0eb7",
    ("icl-depth", "l3-tied-residual", 0): "run1-ca6ab8efcab5f624",
    ("icl-two-tasks", "h3", 2): "run1-0c3301dcc73c3b56",
    ("icl-anisotropic", "h2+stronger", 0): "run1-abe473936ba8537b",
    ("icl-optimizer", "adamw", 0): "run1-28d75e508f04705f",
}
"""Ids that stored results already carry: a changed default or a renamed field would orphan them."""


GOLDEN_TEXT = {
    ("head-progression", "descending-low", 0): "run1-0c1b704ae0049f12",
    ("head-progression", "ascending-high+padding-as-published", 1): "run1-b75026a0a5272567",
    ("data-lane", "switched-quarter", 0): "run1-31af9888f46df7a0",
    ("data-lane", "lane-half+positions-outside-lane", 0): "run1-0e3501668e38bbd7",
    ("low-rank", "inc-sa", 2): "run1-7154a7491b139937",
    ("head-scaling", "openelm+learning-rates-half", 0): "run1-108bfc8c8f739b92",
}
"""At the scale of the papers."""


@pytest.mark.parametrize(("key", "id"), [*GOLDEN.items(), *GOLDEN_TEXT.items()])
def test_ids_are_frozen(key, id):
    name, arm, seed = key
    assert load(name, scale="paper" if key in GOLDEN_TEXT else None).arm(arm).spec(seed).id == id


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
        "plugins": [],
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


@pytest.mark.parametrize(("name", "arm"), [("icl-heads", "h2"), ("low-rank", "inc-sa"), ("head-scaling", "openelm")])
def test_defaults_written_out_change_no_id(name, arm):
    run = load(name).arm(arm).spec(0)
    assert parse_run(json.loads(run.model_dump_json())).id == run.id


def test_names_scale_and_logging_change_no_id():
    base = load("icl-heads")
    content = {**base.plain(), "name": "other", "question": "?", "scales": {"laptop": {}}}
    other = resolve(content, settings=["logging.every=7"])
    assert other.scale == "laptop"
    assert [a.resolved_spec.id for a in other.arms] == [a.resolved_spec.id for a in base.arms]


REGRESSION = load("icl-heads").arm("h1").spec(0).content()
MUON = {"optimizer": "muon", "steps": 100, "batch_size": 8, "learning_rate": 0.02, "adamw_learning_rate": 0.01}
ADAMW = {"optimizer": "adamw", "batch_size": 8, "learning_rate": 0.02}
TEXT = {
    "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
    "model": {"family": "gpt-neo", "d_model": 48, "n_layers": 2, "n_heads": 4, "d_embed": 24},
    "training": MUON,
    "seed": 0,
}
RETRIEVAL = {
    "task": {"kind": "retrieval", "targets": 2},
    "model": {"family": "gpt-2", "d_model": 16, "n_layers": 1, "n_heads": 2, "tied": False, "readout": 1,
              "encoder": 8, "class_token": True},
    "training": MUON,
    "seed": 0,
}  # fmt: skip
KNOWN = {
    "parity": {"n_bits": 4, "solved_above": 0.9},
    "endpoint": {"vertices": 7, "graph": "cycle", "solved_above": 0.9},
    "retrieval": {"targets": 3, "length": 7, "d_x": 7, "solved_above": 0.9},
    "hops": {"letters": 5, "length": 7, "hops": 7, "solved_above": 0.9},
    "recall": {"pairs": 3, "length": 77, "vocabulary": 777, "solved_above": 0.9},
    "induction": {"letters": 7, "length": 77, "solved_above": 0.9},
}
"""Other values of every field of a task whose answer is known, but of those of random graphs."""
BASES = {"regression": REGRESSION, "text": TEXT}

VARIATIONS = {
    "regression": {
        "task": {"d_x": 6, "d_y": 2, "n_pairs": 41, "beta_variance": 2.0, "noise_variance": 0.3, "noisy_query": True,
                 "covariance": {"kind": "power", "rho": 0.1}, "reads": [[0]]},
        "model": {"attention": "linear-mean", "n_heads": 3, "bias": True, "init": "small_id", "n_out": None},
        "training": {"steps": 7, "batch_size": 7, "learning_rate": 0.7, "betas": [0.1, 0.2], "eps": 0.1,
                     "weight_decay": 0.1},
        "evaluation": {"every": 7, "prompts_during": 7, "prompts": 7, "curve": {"prompts": 7}},
        "probes": {"every": 7, "circuits": [7]},
    },
    "text": {
        "task": {"corpus": "tinystories", "validation": "other.txt", "held_out": 0.1, "stories": 7,
                 "tokenizer": "gpt2", "n_ctx": 7, "padding": "published"},
        "model": {"d_model": 96, "n_layers": 3, "n_heads": 3, "n_kv_heads": 2, "d_head": 7, "attention_scale": 0.7,
                  "windows": [7], "positions": "sinusoidal", "n_positions": 77, "rotary_base": 7.0, "norm": "rms",
                  "norm_place": "after", "norm_eps": 0.7, "mlp": "gelu", "d_mlp": 7, "biases": ["mlp"],
                  "tied": False, "dropout": 0.7, "d_embed": 7, "lane": "switched", "positions_in_lane": False,
                  "ranks": {"q": 7}, "init_std": 0.7, "factor_init": "matched", "mask": "future",
                  "embedding_scale": "d_model", "embedding_init_std": 0.7, "emptied": [0], "residual": False,
                  "smeared_keys": True, "readout": 300, "encoder": 7, "class_token": True,
                  "attention": "sharper"},
        "training": {"steps": 7, "tokens": None, "epochs": None, "batch_size": 7, "grad_accumulation": 4,
                     "learning_rate": 0.7, "warmup_steps": 7, "lr_schedule": "cosine", "clip": None,
                     "precision": "bf16", "betas": [0.1, 0.2], "eps": 0.1, "weight_decay": 0.1, "momentum": 0.7,
                     "adamw_learning_rate": 0.7, "drophead": {"start": 0.7},
                     "regularizers": [{"metric": "orthogonality"}]},
        "evaluation": {"every": 7, "sequences_during": 7, "sequences": 7},
        "probes": {"every": 7, "dense_until": 7, "sequences": 7, "diversity": True, "patterns": True, "circuits": True,
                   "published": True, "outputs": True, "importance": True, "metrics": ["sink_score"]},
        "after": {"ablate": {"sequences": 7}},
        "init_from": {"run": "run1-7", "step": 7, "prune": {"by": "random", "keep": 1}, "regrow": True,
                      "weights": "fresh", "rewind_to": 7},
        "samples": {"prompt": "Seven", "tokens": 7, "temperature": 0.7, "top_k": 7, "top_p": 0.7, "count": 7},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "part", "field"),
    [
        (kind, part, field)
        for kind, parts in VARIATIONS.items()
        for part, fields in parts.items()
        for field in fields
        if field != "class_token"  # no task can do both with it and without it
    ],
)
def test_every_field_changes_the_id(kind, part, field, monkeypatch):
    content = BASES[kind]
    monkeypatch.setitem(OWN_ATTENTIONS, "sharper", lambda scores: 2 * scores)  # as a plugin registers one
    if (part, field) == ("task", "d_y"):  # else n_out would have to vary with it
        content = {**content, "model": {k: v for k, v in content["model"].items() if k != "n_out"}}
    if field == "mask":  # such a model has no windows and cannot write
        content = {**content, "samples": None, "model": {**content["model"], "windows": [None]}}
    if field in ("encoder", "class_token", "readout"):  # of which a text has no use, or no tied embedding
        content = RETRIEVAL if field != "readout" else {**content, "model": {**content["model"], "tied": False}}
    if field == "emptied":  # a layer that has heads has not lost them
        content = {**content, "model": {**content["model"], "n_heads": "0-4"}}
    if part == "init_from":  # a run that starts from another; rewinding is for weights that are rewound
        content = {
            **content,
            "init_from": {"run": "run1-0", **({"weights": "rewound"} if field == "rewind_to" else {})},
        }
    changed = {**content.get(part, {}), field: VARIATIONS[kind][part][field]}
    if field in ("tokens", "epochs") and part == "training":  # instead of steps
        changed = {**changed, "steps": None, field: 100}
    base = parse_run(content)
    assert parse_run({**content, part: changed}).id != base.id
    assert base.model_copy(update={"seed": 1}).id != base.id


@pytest.mark.parametrize("kind", BASES)
def test_code_of_ones_own_changes_the_id(kind, monkeypatch):
    monkeypatch.setattr("headway.config.plugins.is_registered", lambda _digest: True)
    plain, with_code, with_other = (
        parse_run({**BASES[kind], **given}).id for given in ({}, {"plugins": ["7" * 64]}, {"plugins": ["8" * 64]})
    )
    assert len({plain, with_code, with_other}) == 3
    assert parse_run({**BASES[kind], "plugins": []}).id == plain


@pytest.mark.parametrize("kind", BASES)
def test_the_variations_cover_every_field(kind):
    run = parse_run(BASES[kind])
    assert set(VARIATIONS[kind]) == set(type(run).model_fields) - {"seed", "plugins"}
    for part, fields in VARIATIONS[kind].items():
        declared = set((Start if part == "init_from" else type(getattr(run, part))).model_fields)
        declared -= {"kind", "family", "optimizer"}
        assert declared == set(fields), part


def test_no_samples_is_another_run():
    assert parse_run({**TEXT, "samples": None}).id != parse_run(TEXT).id


def test_every_optimizer_and_family_has_ids_of_its_own():
    runs = [
        *(parse_run({**TEXT, "model": {**TEXT["model"], "family": family}}) for family in FAMILIES),
        parse_run({**TEXT, "training": {**ADAMW, "steps": 100}}),
    ]
    assert len({run.id for run in runs}) == 4


TRANSFORMER = {
    "d_model": 48, "n_layers": 2, "n_heads": 4, "n_kv_heads": None, "d_head": None, "attention_scale": "d_head",
    "windows": [None], "positions": "learned", "n_positions": 2048, "rotary_base": 10_000.0, "norm": "layer",
    "norm_place": "before", "norm_eps": 1e-5, "mlp": "gelu_new", "d_mlp": None, "biases": [], "tied": True,
    "dropout": 0.0, "d_embed": None, "lane": "same", "positions_in_lane": True,
    "ranks": {"q": None, "k": None, "v": None, "o": None, "up": None, "down": None},
    "init_std": 0.02, "factor_init": "published", "mask": "past", "embedding_scale": "none",
    "embedding_init_std": None, "emptied": [], "residual": True, "smeared_keys": False, "readout": None,
    "encoder": None, "class_token": False, "attention": "softmax",
}  # fmt: skip
FAMILIES = {
    "gpt-neo": {"attention_scale": "none", "windows": [None, 256], "biases": ["output", "mlp"]},
    "gpt-2": {"n_positions": 1024, "biases": ["qkv", "output", "mlp"]},
    "llama": {"positions": "rotary", "norm": "rms", "mlp": "swiglu", "tied": False},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_of_language_models_are_frozen(family):
    shape = {"family": family, "d_model": 48, "n_layers": 2, "n_heads": 4}
    minimal = parse_run({**TEXT, "model": shape})
    assert json.loads(minimal.model_dump_json()) == {
        "seed": 0,
        "plugins": [],
        "task": {"kind": "text", "corpus": "stories", "validation": None, "held_out": 0.01, "stories": None,
                 "tokenizer": "bytes", "n_ctx": 16, "padding": "packed"},
        "model": {**TRANSFORMER, **FAMILIES[family], "family": family},
        "training": {"steps": 100, "tokens": None, "epochs": None, "batch_size": 8, "grad_accumulation": 1,
                     "learning_rate": 0.02, "warmup_steps": 0, "lr_schedule": "linear", "clip": 1.0,
                     "precision": "fp32", "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "optimizer": "muon",
                     "momentum": 0.95, "adamw_learning_rate": 0.01, "regularizers": [], "drophead": None},
        "evaluation": {"every": 1000, "sequences_during": 64, "sequences": None},
        "probes": {"every": 500, "dense_until": 0, "sequences": 8, "diversity": False, "patterns": False,
                   "circuits": False, "published": False, "outputs": False, "importance": False, "metrics": []},
        "after": {"ablate": None},
        "init_from": None,
        "samples": {"prompt": "Once upon a time there was", "tokens": 500, "temperature": 0.9, "top_k": None,
                    "top_p": None, "count": 1},
    }  # fmt: skip


def test_defaults_of_adamw_for_language_models_are_frozen():
    assert json.loads(parse_run({**TEXT, "training": {**ADAMW, "epochs": 1}}).training.model_dump_json()) == {
        "steps": None, "tokens": None, "epochs": 1.0, "batch_size": 8, "grad_accumulation": 1, "learning_rate": 0.02,
        "warmup_steps": 0, "lr_schedule": "linear", "clip": 1.0, "precision": "fp32", "betas": [0.9, 0.999],
        "eps": 1e-8, "weight_decay": 0.0, "optimizer": "adamw", "regularizers": [], "drophead": None,
    }  # fmt: skip


PROBED = {
    "probes": {"every": 100, "diversity": True, "metrics": ["sink_score"]},
    "model": {"family": "gpt-2", "d_model": 48, "n_layers": 2, "n_heads": 4, "embedding_scale": "d_model",
              "mask": "future", "embedding_init_std": 1.0},
    "samples": None,
    "training": {**ADAMW, "steps": 9, "drophead": {"end": 0.3},
                 "regularizers": [{"metric": "disagreement_output", "weight": 0.5, "schedule": "falling"}]},
}  # fmt: skip


def test_ids_of_probed_and_regularized_runs_are_frozen():
    assert parse_run({**TEXT, **PROBED}).id == "run1-c771c972e7f4becc"
    assert json.loads(parse_run({**TEXT, "training": PROBED["training"]}).training.model_dump_json())["drophead"] == {
        "start": 0.2,
        "end": 0.3,
        "turn": 0.5,
    }
    minimal = {**PROBED["training"], "regularizers": [{"metric": "orthogonality"}]}
    assert json.loads(parse_run({**TEXT, "training": minimal}).training.model_dump_json())["regularizers"] == [
        {"metric": "orthogonality", "weight": 1.0, "schedule": "constant"}
    ]


def test_ids_of_runs_that_start_from_others_are_frozen():
    parent = parse_run(TEXT)
    start = {"run": parent.id, "prune": {"by": "taylor", "keep": 0.5}}
    assert parent.id == "run1-f8fa18bdce8fafed"
    assert parse_run({**TEXT, "init_from": start}).id == "run1-98e3c88d79718cff"
    assert parse_run({**TEXT, "init_from": {**start, "weights": "kept", "regrow": False}}).id == "run1-98e3c88d79718cff"


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in KNOWN.items() for field in fields])
def test_every_field_of_a_task_whose_answer_is_known_changes_the_id(kind, field):
    least = {"parity": {"n_bits": 3}, "endpoint": {"vertices": 6}, "retrieval": {"targets": 2}}
    base = {**RETRIEVAL, "task": {"kind": kind, **least.get(kind, {})}, "samples": None}
    if kind != "retrieval":
        base["model"] = {"family": "gpt-2", "d_model": 16, "n_layers": 1, "n_heads": 2, "n_positions": 128}
    changed = {**base, "task": {**base["task"], field: KNOWN[kind][field]}}
    assert parse_run(changed).id != parse_run(base).id


@pytest.mark.parametrize("kind", KNOWN)
def test_those_fields_are_all(kind):
    assert set(TASKS[kind].model_fields) - {"kind", "edges", "graph_seed"} == set(KNOWN[kind])


def test_a_random_graph_is_known_by_its_edges_and_its_seed():
    drawn = [EndpointTask(kind="endpoint", vertices=5, graph="random", edges=e, graph_seed=s) for e, s in
             ((6, 0), (7, 0), (6, 1))]  # fmt: skip
    assert len({task.pairs for task in drawn}) == 3
    assert len({str(task.content()) for task in drawn}) == 3

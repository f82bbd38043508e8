"""Runs of tasks that are no text: xray, look, ablate and prune read the examples that they are judged on."""

import numpy as np
import pytest
from support.tolerance import nearly

import headway
from headway.analysis.inputs import own_text
from headway.config.load import resolve
from headway.errors import UserError

MODEL = {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_head": 4, "norm": "none", "mlp": "none",
         "tied": False}  # fmt: skip
TRAINING = {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 8, "steps": 4, "clip": None}
DOCUMENTS = {
    "parity": {
        "task": {"kind": "parity", "n_bits": 4},
        "model": {**MODEL, "positions": "joint", "n_positions": 5, "residual": False, "readout": 2},
    },
    "short": {
        "task": {"kind": "parity", "n_bits": 3},
        "model": {**MODEL, "d_head": 16, "positions": "joint", "n_positions": 4, "residual": False, "readout": 2},
    },
    "recall": {
        "task": {"kind": "recall", "pairs": 2, "length": 8, "vocabulary": 20},
        "model": {**MODEL, "n_layers": 2, "n_positions": 8},
    },
    "retrieval": {
        "task": {"kind": "retrieval", "targets": 2, "length": 6},
        "model": {**MODEL, "positions": "none", "n_positions": 7, "residual": False, "mlp": "gelu", "readout": 1,
                  "encoder": 8, "class_token": True, "n_layers": 2},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = {}
    for name, document in DOCUMENTS.items():
        whole = {"name": name, "question": "?", **document, "training": TRAINING, "evaluation": {"every": 4},
                 "samples": None, "arms": {"a": {}}, "baseline": "a", "seeds": 1}  # fmt: skip
        store = headway.run(
            resolve(whole), tmp_path_factory.mktemp(name) / "out", figures=False, timing=False, progress=False
        )
        found[name] = store.run("a", 0)
    return found


@pytest.mark.parametrize("name", ["parity", "short", "recall"])
def test_the_loss_is_that_of_the_run(runs, name):
    """Of all inputs, or of as many examples as the run was judged on."""
    run = runs[name]
    n = len(own_text(run.path).inputs)
    found = headway.xray(run.path, draws=2, sequences=n)
    assert found.loss_nats == nearly(run.metrics["eval_loss_nats"], dtype=np.float32)
    assert found.read.endswith("nats per answer")


def test_effects_are_those_on_the_loss_of_the_task(runs):
    """At the answers alone; all inputs stand in for one another, none for itself."""
    found = headway.ablate(runs["parity"].path, pairs=True)
    assert found.loss_nats == nearly(runs["parity"].metrics["eval_loss_nats"], dtype=np.float32)
    assert found.exact.tokens.tolist() == [1] * 16
    assert found.text == "all inputs of 4-bit parity"
    assert "16 of 80 tokens with an answer" in found.notes[0]
    some = headway.ablate(runs["recall"].path, sequences=20)
    assert some.other == "20 others of them"


def test_few_inputs_say_patterns_and_no_more(runs):
    found = headway.xray(runs["short"].path)
    assert "all inputs of 3-bit parity gives 32 tokens, too few to compare these heads with random" in found.notes[0]
    assert "previous_token_score" in found.scores
    assert "query_cka" not in found.scores


def test_a_look_says_why_circuits_are_in_no_tokens(runs):
    seen = headway.look(runs["parity"].path, draws=2)
    assert seen.circuits is None
    assert "does not embed the tokens that it answers with" in seen.no_circuits
    assert headway.look(runs["recall"].path, draws=0).circuits is not None


def test_inputs_of_numbers_are_measured_and_no_more(runs):
    """Heads are, with a note on what says nothing; what needs tokens or a stream says why not."""
    path = runs["retrieval"].path
    found = headway.xray(path, draws=2, sequences=64)
    assert np.isfinite(found.scores["query_cka"].values["layers.0.attention"]).any()
    assert found.loss_nats is None
    said = " ".join(found.notes)
    assert "this model reads numbers" in said
    assert "no residual stream (model.residual false)" in said
    assert "its loss is a squared error" in said
    for verb, options in ((headway.ablate, {}), (headway.look, {}), (headway.prune, {"by": "taylor", "keep": 1})):
        with pytest.raises(UserError, match="its inputs and answers are numbers, not tokens, and"):
            verb(path, **options)


def test_heads_are_pruned_on_the_examples(runs):
    found = headway.prune(runs["parity"].path, by="taylor", keep=1)
    assert found.losses["text"].before == nearly(runs["parity"].metrics["eval_loss_nats"], dtype=np.float32)
    assert " nats per answer before pruning, " in found.losses["text"].sentence
    assert len(found.kept) == 1


def test_what_cannot_be_read_is_said(runs, tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    path = runs["parity"].path
    for asked in (lambda: headway.xray(path, text=tmp_path / "a.txt"), lambda: headway.open_model(path).write("a")):
        with pytest.raises(UserError, match=r"was trained on 4-bit parity, whose tokens are not text: it can neither"):
            asked()
    with pytest.raises(UserError, match="length 3: all inputs of 4-bit parity have 5 tokens each, and are read whole"):
        headway.xray(path, length=3)
    with pytest.raises(UserError, match=r"are read whole .5 tokens each., and replacements come from them"):
        headway.ablate(path, reference=np.zeros((2, 5), int))
    found = headway.xray(path, tokens=np.zeros((40, 5), int), draws=0)
    assert "it predicts one of 2 answers, not the next token" in " ".join(found.notes)

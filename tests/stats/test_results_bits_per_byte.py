"""Losses are compared only where they can be: nats within the same tokens, bits per byte across tokenizers."""

import json

import pytest
from support.fabricate import material_of
from support.fabricate_text import SHARED, fabricate_text
from support.stored import rewrite

from headway.config.load import resolve
from headway.report.experiment.page import figures
from headway.report.lm.report import LABORATORY
from headway.stats import results
from headway.stats.answer import answer
from headway.store.directory import Store


def tokenizers(**changes):
    content = {
        **SHARED,
        "name": "tokenizers",
        "task": {"kind": "text", "corpus": "stories", "n_ctx": 512},
        "model": {"family": "gpt-neo", "d_model": 64, "n_layers": 2, "n_heads": 4},
        "arms": {"bytes": {"task": {"tokenizer": "bytes"}}, "merges": {"task": {"tokenizer": "bpe-1024"}}},
        "baseline": "bytes",
        "seeds": 3,
    }
    return resolve({**content, **changes})


@pytest.fixture
def stored(tmp_path):
    """Bytes have the lower loss per token; per byte of text the merges are better."""
    path = fabricate_text(tmp_path / "t", tokenizers())
    for file in path.glob("runs/*/*/run.json"):
        content = json.loads(file.read_text())
        wobble = 0.001 * content["seed"] ** 2 * (1 if content["arm"] == "bytes" else 2)
        nats, bits = (0.8, 1.2) if content["arm"] == "bytes" else (2.4, 1.0)
        content["metrics"] |= {"eval_loss_nats": nats + wobble, "eval_bits_per_byte": bits + wobble}
        content["metrics"]["bigram_loss_nats"] = 3.0
        rewrite(file.parent, metrics=content["metrics"])
    results.write(Store.open(path))
    return Store.open(path)


def test_arms_of_different_tokens_are_compared_by_bits_per_byte():
    assert tokenizers().primary == "eval_bits_per_byte"
    one = tokenizers(arms={"a": {"model": {"n_heads": 2}}, "bytes": {}})
    assert one.primary == "eval_loss_nats"
    corpora = {"a": {"task": {"corpus": "tinystories"}}, "bytes": {}}
    assert tokenizers(arms=corpora).primary == "eval_bits_per_byte"
    lengths = {"a": {"task": {"n_ctx": 256}}, "bytes": {}}
    assert tokenizers(arms=lengths).primary == "eval_loss_nats"


@pytest.mark.slow
def test_what_is_answered_compared_and_drawn_is_bits_and_no_percentage_of_nats(stored):
    found = results.read(stored.path)
    assert found.primary == "eval_bits_per_byte"
    assert {c.metric for c in found.comparisons}.isdisjoint({"eval_loss_nats", "train_loss_nats"})
    (said,) = [line for line in answer(found) if "bytes" in line]
    assert said.startswith("merges vs bytes: better, evaluation bits per byte −16.")
    material = material_of(stored)
    drawn = {figure.name: figure for figure in figures(material)}
    assert "bits per byte" in drawn["final-loss"].caption
    assert "vconcat" not in drawn["final-loss"].spec  # in one panel, where they can be compared
    table = LABORATORY.final(material)
    assert table.columns[1:3] == ("evaluation loss (bits per byte)", "against its baseline")
    assert table.rows[1].cells[2].startswith("−16.")


@pytest.mark.slow
def test_tokens_that_do_not_give_the_text_back_are_not_compared_by_bytes_and_why_is_said(tmp_path):
    for kept, gives in ((0.125, 12), (0.0, 0)):
        path = fabricate_text(tmp_path / str(kept), tokenizers())
        for file in path.glob("runs/*/*/run.json"):
            content = json.loads(file.read_text())
            if content["arm"] == "merges":
                content["metrics"] |= {"text_kept": kept}
            else:
                content["metrics"] |= {"text_kept": 1.0, "eval_bits_per_byte": 1.0 + 0.1 * content["seed"]}
            rewrite(file.parent, metrics=content["metrics"])
        built = results.build(Store.open(path))
        assert [one for one in built.warnings if "bits" in one] == [
            f"merges has no loss in bits per byte: only {gives} % of the text can be restored from its tokens. "
            "Use a tokenizer that restores 99 % or more."
        ]
        assert built.judged == ()
        assert list(figures(material_of(Store.open(path))))

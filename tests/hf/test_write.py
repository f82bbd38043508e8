"""Folders written for transformers: loaded by it with equal logits, and by us with the same bits."""

import json
import os

import numpy as np
import pytest
import torch
import transformers
from support import drawn
from support.tolerance import assert_same

import headway
from headway.data.tokenizer import bytes_tokenizer, trained_bpe
from headway.errors import UserError
from headway.hf.architectures import declared, describe, stock
from headway.hf.write import export
from headway.models.transformer import Transformer

MODELS = {name: model for name, (_, model) in drawn.STOCK.items()} | drawn.RAGGED
TOKENS = torch.randint(0, drawn.VOCAB_SIZE, (2, 50), generator=torch.Generator().manual_seed(1))


def reference(model):
    return Transformer(model, drawn.VOCAB_SIZE, drawn.weights_of(model)).eval()


@pytest.fixture(params=MODELS)
def exported(request, tmp_path):
    model = MODELS[request.param]
    kind = export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out", bytes_tokenizer())
    assert kind == (drawn.STOCK[request.param][0] if request.param in drawn.STOCK else "headway")
    return model, kind, tmp_path / "out"


def loaded(kind, folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=kind == "headway").eval()


def test_transformers_has_equal_logits(exported):
    model, kind, folder = exported
    with torch.no_grad():
        expected, found = reference(model)(TOKENS)[0], loaded(kind, folder)(TOKENS).logits
    assert expected.std() > 0.3  # not a model that says nothing
    assert_same(found, expected, dtype=np.float32)


def test_loading_back_gives_the_same_bits(exported):
    model, _, folder = exported
    back = headway.hf.load(folder)
    given, found = drawn.weights_of(model), back.weights()
    assert list(found) == list(given)
    assert all(np.array_equal(found[name], given[name]) for name in given)
    with torch.no_grad():
        assert torch.equal(back(TOKENS)[0], reference(model)(TOKENS)[0])


@pytest.mark.parametrize("name", drawn.RAGGED)
def test_what_no_stock_architecture_is_takes_its_layout_and_code_along(name, tmp_path):
    model = drawn.RAGGED[name]
    assert stock(model) is None
    assert export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out") == "headway"
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["num_attention_heads_per_layer"] == list(model.layout.n_heads)
    assert set(config["auto_map"]) == {"AutoConfig", "AutoModelForCausalLM"}
    code = (tmp_path / "out/modeling_headway.py").read_text()
    assert "import headway" not in code
    assert "from headway" not in code


@pytest.mark.parametrize("name", ["descending", "no-attention", "rotary-ragged", "lane-switched"])
def test_padding_changes_no_logit_and_generate_writes_what_headway_writes(name, tmp_path):
    model = drawn.RAGGED[name]
    export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out", bytes_tokenizer())
    theirs = loaded("headway", tmp_path / "out")
    prompt = TOKENS[:1, :20]
    padded = torch.cat((torch.full((1, 6), 256), prompt), 1)
    mask = torch.cat((torch.zeros(1, 6, dtype=torch.long), torch.ones_like(prompt)), 1)
    with torch.no_grad():
        plain, shifted = theirs(prompt).logits, theirs(padded, attention_mask=mask).logits
    assert_same(shifted[:, 6:], plain, dtype=np.float32)

    from headway.models.generate import generate

    written = generate(reference(model), prompt[0].tolist(), n_tokens=15, temperature=0.0)
    options = {"max_new_tokens": 15, "do_sample": False, "eos_token_id": None}
    assert theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0, 20:].tolist() == written
    options["use_cache"] = False
    assert theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0, 20:].tolist() == written
    del options["use_cache"]
    both = torch.cat((padded, torch.cat((prompt, TOKENS[1:, :6]), 1)))
    masks = torch.cat((mask, torch.ones_like(mask)))
    assert theirs.generate(both, attention_mask=masks, **options)[0, 26:].tolist() == written


def test_what_attends_to_the_future_sees_no_padding_and_cannot_write(tmp_path):
    model = drawn.RAGGED["future"]
    export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out", bytes_tokenizer())
    theirs, prompt = loaded("headway", tmp_path / "out"), TOKENS[:1, :20]
    padded = torch.cat((prompt, torch.full((1, 6), 256)), 1)
    mask = torch.cat((torch.ones_like(prompt), torch.zeros(1, 6, dtype=torch.long)), 1)
    with torch.no_grad():
        plain, followed = theirs(prompt).logits, theirs(padded, attention_mask=mask).logits
    assert_same(followed[:, :20], plain, dtype=np.float32)
    for use_cache in (True, False):
        with pytest.raises(ValueError, match="this model attends to the future, so it cannot generate text"):
            theirs.generate(prompt, max_new_tokens=2, use_cache=use_cache)


def test_folders_from_before_there_was_a_choice_are_read():
    model = drawn.RAGGED["descending"]
    described = describe(model)
    del described["attends"], described["embedding_scale"], described["emptied"]
    assert describe(declared(described, "gpt-neo")) == describe(model)


def test_the_loss_is_that_of_the_next_token(tmp_path):
    model = drawn.RAGGED["descending"]
    export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out")
    with torch.no_grad():
        theirs = loaded("headway", tmp_path / "out")(TOKENS, labels=TOKENS).loss
        ours = reference(model).loss(TOKENS[:, :-1], TOKENS[:, 1:])
    assert_same(theirs, ours, dtype=np.float32)


@pytest.mark.parametrize("name", ["neo", "gpt2", "llama", "descending"])
def test_the_tokenizer_goes_along_with_its_end_of_text(name, tmp_path):
    model = MODELS[name]
    tokenizer = trained_bpe(["Once upon a time there was a dog. " * 20, "The dog was happy. " * 20], 280)
    export(model, 280, drawn.weights_of(model, 280), tmp_path / "out", tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    text = "Once upon a time, a döner was.<|endoftext|>The dog"
    assert theirs(text).input_ids == tokenizer.encode(text)
    assert theirs.decode(tokenizer.encode(text)) == text
    assert theirs.eos_token_id == tokenizer.end_of_text
    assert loaded("headway" if name == "descending" else "stock", tmp_path / "out").config.eos_token_id == 0
    assert headway.hf.tokenizer(tmp_path / "out").digest == tokenizer.digest


def test_an_existing_folder_is_never_written_to(tmp_path):
    model = drawn.RAGGED["descending"]
    (tmp_path / "out").mkdir()
    export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out")  # empty: nothing is lost
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    with pytest.raises(UserError, match="out exists and is not an empty folder; choose another name, or remove it"):
        export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_a_folder_is_whole_or_absent(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("headway.hf.write.shutil.copyfile", full)
    model = drawn.RAGGED["descending"]
    with pytest.raises(UserError, match="out cannot be written: No space left on device; free space or check perm"):
        export(model, drawn.VOCAB_SIZE, drawn.weights_of(model), tmp_path / "deep/out")
    assert list((tmp_path / "deep").iterdir()) == []


def test_weights_of_another_model_are_not_written(tmp_path):
    model = drawn.RAGGED["descending"]
    weights = drawn.weights_of(model)
    del weights["norm.bias"]
    with pytest.raises(UserError, match=r"missing: norm.bias \[48\]"):
        export(model, drawn.VOCAB_SIZE, weights, tmp_path / "out")
    assert not (tmp_path / "out").exists()

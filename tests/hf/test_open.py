"""Any local folder of Hugging Face, opened without a network, and what is wrong with those that are not."""

import sys

import pytest
import tokenizers
import torch
import transformers
from support import drawn, zoo
from support.folders import edit, rewrite

import headway
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.hf.write import export


@pytest.fixture
def saved(tmp_path):
    def save(name):
        zoo.model_of(name).save_pretrained(tmp_path)
        return tmp_path

    return save


KINDS = {"bert": "masked", "t5": "encoder-decoder", "bart": "encoder-decoder"}


@pytest.mark.parametrize("name", zoo.CONFIGS)
def test_a_folder_is_the_model_that_was_saved(name, saved):
    model = zoo.model_of(name)
    opened = headway.hf.open_pretrained(saved(name))
    assert opened.kind == KINDS.get(name, "causal")
    assert opened.vocab_size == 97
    assert opened.n_ctx == (None if name == "t5" else 64)
    assert opened.tokenizer is None
    assert not opened.model.training
    inputs = zoo.text_for(model)
    with torch.no_grad():
        assert torch.equal(opened.model(**inputs).logits, model(**inputs).logits)


def test_nothing_is_printed(saved, capfd):
    folder = saved("bert")
    capfd.readouterr()
    headway.hf.open_pretrained(folder)
    rewrite(folder, lambda arrays: arrays.pop("cls.predictions.transform.dense.bias"))
    with pytest.raises(UserError, match="weights are missing"):
        headway.hf.open_pretrained(folder)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "kind"), [("bert", "masked"), ("llama", "causal"), ("t5", "encoder-decoder")])
def test_a_body_without_a_head_is_opened_too(name, kind, tmp_path):
    model = zoo.model_of(name)
    transformers.AutoModel.from_config(model.config).save_pretrained(tmp_path)
    opened = headway.hf.open_pretrained(tmp_path)
    assert opened.kind == kind
    assert headway.hf.trace(opened.model, zoo.tokens_of((1, 5))).attentions


def test_robertas_positions_begin_after_its_padding_token(tmp_path):
    config = transformers.RobertaConfig(
        vocab_size=97,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=66,
        pad_token_id=1,
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    opened = headway.hf.open_pretrained(tmp_path)
    assert opened.n_ctx == 64
    with torch.no_grad():
        opened.model(zoo.tokens_of((1, 64)))


def test_tokenizers_are_transformers_own(saved):
    folder = saved("gpt-2")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 3, "b": 4, "?": 5}, unk_token="?"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=32).save_pretrained(folder)
    opened = headway.hf.open_pretrained(folder)
    assert opened.tokenizer("a b a").input_ids == [3, 4, 3]
    assert opened.n_ctx == 32
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"its tokenizer cannot be read \(.*\); fetch its files again"):
        headway.hf.open_pretrained(folder)


def test_a_model_that_headway_exported_needs_none_of_its_code(tmp_path):
    model = drawn.RAGGED["rotary-ragged"]
    weights = drawn.weights_of(model)
    assert export(model, drawn.VOCAB_SIZE, weights, tmp_path / "it", bytes_tokenizer()) == "headway"
    (tmp_path / "it" / "modeling_headway.py").write_text("raise SystemExit")
    opened = headway.hf.open_pretrained(tmp_path / "it")
    assert opened.kind == "causal"
    tokens = torch.randint(0, drawn.VOCAB_SIZE, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = headway.hf.trace(opened.model, tokens).attentions
        own = headway.hf.load(tmp_path / "it").trace(tokens).attentions
    assert [each.name for each in found] == [each.name for each in own]
    assert all(torch.equal(one.z, other.z) for one, other in zip(found, own, strict=True))


def test_weights_that_are_missing_are_listed_and_never_drawn(saved):
    folder = saved("llama")
    rewrite(folder, lambda arrays: [arrays.pop(name) for name in list(arrays) if "layers.1.self_attn" in name])
    with pytest.raises(
        UserError,
        match=r"weights are missing, and transformers would draw them at random; fetch the whole folder:\n"
        r"  model.layers.1.self_attn.k_proj.weight\n  model.layers.1.self_attn.o_proj.weight\n",
    ):
        headway.hf.open_pretrained(folder)


def test_many_missing_weights_are_counted(saved):
    folder = saved("llama")
    rewrite(folder, lambda arrays: [arrays.pop(name) for name in list(arrays) if "layers" in name])
    with pytest.raises(UserError, match=r"weights are missing(.*\n){9}  and 10 more$"):
        headway.hf.open_pretrained(folder)


def test_weights_that_are_no_numbers_are_named(saved):
    folder = saved("gpt-2")
    rewrite(folder, lambda arrays: arrays["transformer.h.1.attn.c_attn.weight"].reshape(-1).__setitem__(3, torch.nan))
    with pytest.raises(
        UserError, match=r"weights are not finite \(NaN or infinite\).*:\n  transformer.h.1.attn.c_attn.weight$"
    ):
        headway.hf.open_pretrained(folder)


def damaged(path):
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "has no config.json; give a Hugging Face model folder"),
        (lambda folder: (folder / "config.json").write_text("{"), r"config.json: it cannot be read \("),
        (lambda folder: edit(folder, architectures=[]), "config.json names no architectures; add the model's class"),
        (
            lambda folder: edit(folder, architectures=["Llama9"], auto_map={"AutoModelForCausalLM": "code.Llama9"}),
            r"it needs the code that comes with it \(code.Llama9\), which is not run by default. .* give "
            "trust_code=True in Python, or --trust-code on the command line",
        ),
        (
            lambda folder: edit(folder, architectures=["Llama9"]),
            r"its architecture is Llama9, which transformers 5[.\d]+ does not have; nor does the folder name code",
        ),
        (
            lambda folder: edit(folder, architectures=["LlamaForQuestionAnswering"]),
            r"weights are missing.*\n  qa_outputs.bias\n",
        ),
        (
            lambda folder: edit(folder, intermediate_size=40),
            r"weights have other shapes than config.json gives.*:\n  model.layers.0.mlp.down_proj.weight \[32, 48\]\n",
        ),
        (
            lambda folder: edit(folder, num_attention_heads="many"),
            r"transformers cannot open it \(.*num_attention_heads.*many.*\); fetch or write it again",
        ),
        (
            lambda folder: (folder / "model.safetensors").unlink(),
            "has no model.safetensors; a folder of Hugging Face has",
        ),
        (
            lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            r"its weights are in pytorch_model.bin, a pickle, which can run any code and is not read; convert it",
        ),
        (
            lambda folder: damaged(folder / "model.safetensors"),
            r"model.safetensors: it is damaged \(.*\); fetch or write it again",
        ),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(spoil, said, saved):
    folder = saved("llama")
    spoil(folder)
    with pytest.raises(UserError, match=said):
        headway.hf.open_pretrained(folder)


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        headway.hf.open_pretrained(tmp_path / "none")


def test_a_model_that_reads_no_text_is_refused(tmp_path):
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="ViTModel is not a model of text that Headway knows"):
        headway.hf.open_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["open_pretrained", "traceable", "trace"])
def test_without_transformers_the_extra_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for module in ("open", "recorder"):
        monkeypatch.delitem(sys.modules, f"headway.hf.{module}", raising=False)
    with pytest.raises(UserError, match=r"needs the package transformers; pip install '\.\[hf\]'"):
        getattr(headway.hf, name)

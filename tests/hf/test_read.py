"""Folders of Hugging Face, read as Headway's model."""

import json

import numpy as np
import pytest
import torch
import transformers
from support.folders import edit, rewrite
from support.tolerance import assert_same

import headway
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError

SMALL = {"vocab_size": 97, "initializer_range": 0.2, "bos_token_id": None, "eos_token_id": None}
LLAMA = {
    **SMALL,
    "hidden_size": 48,
    "intermediate_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "gpt-neo": transformers.GPTNeoConfig(
        hidden_size=48,
        num_layers=3,
        num_heads=6,
        max_position_embeddings=64,
        attention_types=[[["global", "local"], 1], [["global"], 1]],
        window_size=8,
        **SMALL,
    ),
    "gpt2": transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=64, **SMALL),
    "gpt2-untied": transformers.GPT2Config(
        n_embd=48, n_layer=2, n_head=4, n_positions=64, tie_word_embeddings=False, scale_attn_weights=False, **SMALL
    ),
    "llama": transformers.LlamaConfig(**LLAMA),
    "llama-biased": transformers.LlamaConfig(
        attention_bias=True,
        mlp_bias=True,
        head_dim=16,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        **LLAMA,
    ),
    "mistral": transformers.MistralConfig(sliding_window=7, **LLAMA),
}


def made(config, folder, **options):
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    model.save_pretrained(folder, **options)
    return model


@pytest.fixture
def gpt2(tmp_path):
    made(CONFIGS["gpt2"], tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_transformers(name, tmp_path):
    theirs = made(CONFIGS[name], tmp_path)
    tokens = torch.randint(0, 97, (2, 50), generator=torch.Generator().manual_seed(1))
    ours = headway.hf.load(tmp_path)
    with torch.no_grad():
        expected, found = theirs(tokens).logits, ours(tokens)[0]
    assert expected.std() > 0.5  # not a model that says nothing
    assert_same(found, expected, dtype=np.float32)


def test_the_public_configuration_of_gpt_neo_is_the_declared_family():
    """As config.json of EleutherAI's models has it: the first release's keys."""
    from headway.hf.architectures import ARCHITECTURES

    config = {
        "hidden_size": 768,
        "num_layers": 12,
        "num_heads": 12,
        "max_position_embeddings": 2048,
        "attention_types": [[["global", "local"], 6]],
        "window_size": 256,
        "activation_function": "gelu_new",
        "intermediate_size": None,
    }
    model = ARCHITECTURES["gpt_neo"].read(config)
    assert [model.window(layer) for layer in range(4)] == [None, 256, None, 256]
    assert model.logit_scale(0) == 1
    assert model.mlp_widths == (3072,) * 12


def test_parts_with_an_index_are_one_model(tmp_path):
    made(CONFIGS["gpt-neo"], tmp_path / "whole")
    made(CONFIGS["gpt-neo"], tmp_path / "parts", max_shard_size="50KB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    whole, parts = (headway.hf.load(tmp_path / name).weights() for name in ("whole", "parts"))
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)
    next((tmp_path / "parts").glob("model-00002*")).unlink()
    with pytest.raises(UserError, match=r"names model-00002-of-\d+.safetensors, missing here; fetch the whole folder"):
        headway.hf.load(tmp_path / "parts")


def test_older_folders_without_prefix_and_with_masks_are_read(gpt2):
    expected = headway.hf.load(gpt2).weights()

    def as_in_2019(arrays):
        for name in list(arrays):
            arrays[name.removeprefix("transformer.")] = arrays.pop(name)
        arrays["h.0.attn.bias"] = np.tril(np.ones((1, 1, 64, 64), np.float32))
        arrays["h.0.attn.masked_bias"] = np.float32([-1e4])

    rewrite(gpt2, as_in_2019)
    found = headway.hf.load(gpt2).weights()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_arrays_that_do_not_fit_are_listed_at_once(gpt2):
    def spoil(arrays):
        del arrays["transformer.h.1.ln_2.weight"], arrays["transformer.wpe.weight"]
        arrays["transformer.h.0.mlp.c_fc.weight"] = np.zeros((192, 48), np.float32)
        arrays["transformer.h.2.ln_1.weight"] = np.zeros(48, np.float32)

    rewrite(gpt2, spoil)
    with pytest.raises(UserError) as error:
        headway.hf.load(gpt2)
    assert str(error.value).splitlines() == [
        f"{gpt2}: 4 arrays do not fit its config.json; one of the two is of another model:",
        "  missing: transformer.wpe.weight [64, 48]",
        "  missing: transformer.h.1.ln_2.weight [48]",
        "  unexpected: transformer.h.2.ln_1.weight [48]",
        "  wrong shape: transformer.h.0.mlp.c_fc.weight is [192, 48], the configuration needs [48, 192]",
    ]


def test_a_read_out_of_its_own_in_a_tied_folder(gpt2):
    rewrite(gpt2, lambda arrays: arrays.update({"lm_head.weight": arrays["transformer.wte.weight"]}))
    assert headway.hf.load(gpt2).model.tied  # the same array twice
    rewrite(gpt2, lambda arrays: arrays.update({"lm_head.weight": arrays["transformer.wte.weight"] + 1}))
    with pytest.raises(UserError, match=r"ties the read-out to the embedding, but lm_head.weight differs from"):
        headway.hf.load(gpt2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model_type": "bert"},
            "its architecture is 'bert', which Headway does not read; it reads gpt_neo, gpt2, llama, mistral, headway",
        ),
        (
            {"scale_attn_by_inverse_layer_idx": True, "add_cross_attention": True},
            "scale_attn_by_inverse_layer_idx is True and add_cross_attention is True, which Headway's model does not",
        ),
        ({"activation_function": "mish"}, "activation_function 'mish' is not known here; there is gelu_new"),
        ({"n_head": 5}, "48 is not divisible by 5; 4 and 6 are"),
        ({"n_head": "4 of them"}, "is not a layer; join layers by dashes"),
        ({"n_layer": None}, "config.json: n_layers: null was given"),
    ],
)
def test_a_configuration_that_headway_cannot_be(changes, message, gpt2):
    edit(gpt2, **changes)
    with pytest.raises(UserError) as error:
        headway.hf.load(gpt2)
    assert str(gpt2) in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            "rope_type 'linear' is not supported; Headway's model has the default",
        ),
        ({"rope_parameters": None, "rope_scaling": {"type": "dynamic"}}, "rope_type 'dynamic' is"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not known here; there is silu, swish"),
    ],
)
def test_a_llama_that_headway_cannot_be(changes, message, tmp_path):
    made(CONFIGS["llama"], tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        headway.hf.load(tmp_path)
    assert message in str(error.value)


def test_a_missing_key_is_named(gpt2):
    config = json.loads((gpt2 / "config.json").read_text())
    del config["n_embd"]
    (gpt2 / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"config.json: n_embd is missing; give it a value"):
        headway.hf.load(gpt2)


def test_what_is_no_folder_with_a_model(gpt2, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: there is no such folder; give one with a config.json"):
        headway.hf.load(tmp_path / "nowhere")
    (gpt2 / "config.json").write_text("[]")
    with pytest.raises(UserError, match=r"config.json: it is not a mapping"):
        headway.hf.load(gpt2)


def test_the_tokenizer_of_a_folder(gpt2):
    assert headway.hf.tokenizer(gpt2) is None
    bytes_tokenizer().save(gpt2)
    assert headway.hf.tokenizer(gpt2).encode("a") == [97]

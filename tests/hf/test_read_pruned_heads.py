"""Checkpoints of transformers 4 whose config.json has pruned_heads, and adapters beside base weights."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.tolerance import nearly

import headway
from headway.errors import UserError

SIZES = {
    "vocab_size": 61,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
TOKENS = np.random.default_rng(0).integers(1, 61, (8, 12))


def saved(folder, gone):
    """A GPT-2 without some heads, as transformers 4 wrote it; and the whole one with their rows of W_O at zero."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, initializer_range=0.3)).eval()
    model.save_pretrained(folder)
    arrays = load_file(folder / "model.safetensors")
    for layer, heads in gone.items():
        stay = torch.cat([torch.arange(8) + 8 * head for head in range(4) if head not in heads])
        joined = torch.cat([stay, stay + 32, stay + 64])
        at = f"transformer.h.{layer}.attn."
        arrays[f"{at}c_attn.weight"] = arrays[f"{at}c_attn.weight"][:, joined].contiguous()
        arrays[f"{at}c_attn.bias"] = arrays[f"{at}c_attn.bias"][joined].contiguous()
        arrays[f"{at}c_proj.weight"] = arrays[f"{at}c_proj.weight"][stay].contiguous()
        with torch.no_grad():
            for head in heads:
                model.transformer.h[layer].attn.c_proj.weight[8 * head : 8 * head + 8] = 0
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})
    changed(folder, pruned_heads={str(layer): heads for layer, heads in gone.items()})
    return model


def changed(folder, **keys):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))


@pytest.mark.parametrize("gone", [{0: [1], 1: [2, 3]}, {1: [0, 1, 2]}, {0: [3]}])
def test_the_loss_is_that_of_the_model_whose_heads_are_masked(gone, tmp_path):
    model = saved(tmp_path, gone)
    found = headway.xray(tmp_path, tokens=TOKENS, draws=0)
    assert [each.n_heads for each in found.attentions] == [4 - len(gone.get(layer, ())) for layer in range(2)]
    tokens = torch.from_numpy(TOKENS)
    with torch.no_grad():
        logits = model(tokens).logits[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    assert found.loss_nats == nearly(float(loss), dtype=np.float32)
    assert headway.ablate(tmp_path, text=TOKENS).exact.single["zero"].flat().size == sum(
        each.n_heads for each in found.attentions
    )


@pytest.mark.parametrize(
    ("pruned", "said"),
    [({"0": [9]}, r"pruned_heads names heads \[9\] of layer 0"), ({"7": [0]}, "of layer 7"), ([1], "is not a mapping")],
)
def test_heads_that_are_not_there(pruned, said, tmp_path):
    saved(tmp_path, {})
    changed(tmp_path, pruned_heads=pruned)
    with pytest.raises(UserError, match=said):
        headway.xray(tmp_path, tokens=TOKENS)


def test_another_architecture_with_pruned_heads_says_what_to_do(tmp_path):
    config = transformers.BertConfig(vocab_size=61, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    changed(tmp_path, pruned_heads={"0": [1]})
    with pytest.raises(UserError, match=r"supports pruned_heads only in GPT-2 .*; set the weights of"):
        headway.xray(tmp_path, tokens=TOKENS)


@pytest.mark.parametrize("base", [True, False])
def test_an_adapter_is_named(base, tmp_path):
    if base:
        saved(tmp_path, {})
    (tmp_path / "adapter_config.json").write_text("{}")
    for ask in (headway.xray, headway.look):
        with pytest.raises(
            UserError, match=r"it has an adapter \(adapter_config.json\), such as LoRA, .*merge the two"
        ):
            ask(tmp_path, tokens=TOKENS)

"""Law of forms: one function has one x-ray, whatever library, layout or precision its weights are stored in.

Each row of `FORMS` is one model in another form: Headway's own, as transformers computes it, with queries, keys and
values in one matrix, with gains folded into the projections, in bfloat16, or from a folder.
"""

from functools import cache

import numpy as np
import pytest
import torch
import transformers

import headway
from headway.config.lm.model import Gpt2, Llama
from headway.hf.write import export
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

VOCAB = 61
SIZES = {"d_model": 32, "n_layers": 2, "n_positions": 32, "init_std": 0.2}
LLAMA = Llama(family="llama", **SIZES, n_heads="4:2", d_mlp=48, tied=False)
GPT_2 = Gpt2(family="gpt-2", **SIZES, n_heads=4, positions="rotary", tied=False, mlp="gelu")
TOKENS = np.random.default_rng(0).integers(VOCAB, size=(8, 24))


def weights_of(declared):
    """Weights that bfloat16 holds, none of them trivial."""
    random = np.random.default_rng(1)
    weights = initial_weights(declared, VOCAB, 0)
    moved = {name: array + random.normal(0, 0.1, array.shape) for name, array in weights.items()}
    return {name: torch.tensor(array).bfloat16().float().numpy() for name, array in moved.items()}


def llama(**options):
    path = options.pop("path")
    export(LLAMA, VOCAB, weights_of(LLAMA), path, None)
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **options).eval()


def recorded(model):
    """The model as transformers computes it: one with a hook is not read into Headway's own."""
    model.model.norm.register_forward_hook(lambda module, args, output: None)
    return model


def joined(path):
    """The Llama as a Phi-3, whose queries, keys and values stand in one matrix."""
    own = llama(path=path)
    sizes = {key: value for key, value in own.config.to_dict().items() if key not in ("architectures", "model_type")}
    phi = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes | {"pad_token_id": 0})).eval()
    held = own.state_dict()
    for layer in range(LLAMA.n_layers):
        attention, mlp = f"model.layers.{layer}.self_attn.", f"model.layers.{layer}.mlp."
        held[f"{attention}qkv_proj.weight"] = torch.cat([held.pop(f"{attention}{name}_proj.weight") for name in "qkv"])
        held[f"{mlp}gate_up_proj.weight"] = torch.cat([held.pop(f"{mlp}{name}_proj.weight") for name in ("gate", "up")])
    phi.load_state_dict(held)
    return phi


def folded(path):
    """The Llama whose norms have their gains in what reads them."""
    own = llama(path=path)
    with torch.no_grad():
        for layer in own.model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            for norm, readers in (
                (layer.input_layernorm, (attention.q_proj, attention.k_proj, attention.v_proj)),
                (layer.post_attention_layernorm, (mlp.gate_proj, mlp.up_proj)),
            ):
                for reader in readers:
                    reader.weight *= norm.weight
                norm.weight.fill_(1)
    return own


def by_head(path):
    """A GPT-NeoX, whose matrix has a block of queries, keys and values for each head."""
    weights = {name: torch.tensor(array) for name, array in weights_of(GPT_2).items()}
    config = transformers.GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=32, rotary_pct=1.0, use_parallel_residual=False, hidden_act="gelu",
        layer_norm_eps=GPT_2.norm_eps, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = transformers.GPTNeoXForCausalLM(config).eval()
    names = {
        "gpt_neox.embed_in": "embedding", "lm_head": "readout", "gpt_neox.final_layer_norm": "norm",
    }  # fmt: skip
    held = {}
    for theirs, own in names.items():
        kinds = [kind for kind in ("weight", "bias") if f"{own}.{kind}" in weights]
        held |= {f"{theirs}.{kind}": weights[f"{own}.{kind}"] for kind in kinds}
    for layer in range(GPT_2.n_layers):
        theirs, own = f"gpt_neox.layers.{layer}.", f"layers.{layer}."
        places = {
            "input_layernorm": "attention_norm", "post_attention_layernorm": "mlp_norm",
            "attention.dense": "attention.o", "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down",
        }  # fmt: skip
        for kind in ("weight", "bias"):
            held |= {f"{theirs}{place}.{kind}": weights[f"{own}{name}.{kind}"] for place, name in places.items()}
            blocks = [weights[f"{own}attention.{name}.{kind}"].unflatten(0, (4, 8)) for name in "qkv"]
            held[f"{theirs}attention.query_key_value.{kind}"] = torch.cat(blocks, 1).flatten(0, 1)
    missing, unexpected = model.load_state_dict(held, strict=False)
    assert not unexpected
    assert all("rotary" in name or "bias" in name.split(".")[-1] for name in missing), missing
    return model


@cache
def xray_of(name):
    """The x-ray of Headway's own form."""
    declared = {"Llama": LLAMA, "GPT-2": GPT_2}[name]
    own = Transformer(declared, VOCAB, weights_of(declared)).eval()
    return headway.xray(own, tokens=TOKENS, draws=4)


def folder(path):
    llama(path=path)
    return path


FORMS = {
    "folder": ("Llama", folder),
    "as transformers computes it": ("Llama", lambda path: recorded(llama(path=path))),
    "eager": ("Llama", lambda path: recorded(llama(path=path, attn_implementation="eager"))),
    "joined": ("Llama", joined),
    "folded": ("Llama", folded),
    "folded, as transformers computes it": ("Llama", lambda path: recorded(folded(path))),
    "bfloat16": ("Llama", lambda path: llama(path=path).to(torch.bfloat16)),
    "in blocks by head": ("GPT-2", by_head),
}


def numbers(xray, family="circuits"):
    """Values, nulls and draws by metric; those read off weights alone want norms that no trace of transformers has."""
    found = {}
    for metric, score in xray.scores.items():
        if score.declared.family == family:
            continue
        for of in ("values", "null", "draws", "interval", "by_place"):
            found |= {f"{metric}, {of}, {at}": value for at, value in enumerate(getattr(score, of).values())}
    return found


@pytest.mark.parametrize("form", FORMS)
def test_one_function_has_one_x_ray(form, tmp_path):
    name, made = FORMS[form]
    expected = xray_of(name)
    found = headway.xray(made(tmp_path), tokens=TOKENS, draws=4)
    known = numbers(expected)
    shared = numbers(found)
    assert len(shared) > 100
    for name, value in shared.items():
        np.testing.assert_allclose(value, known[name], rtol=1e-5, atol=1e-5, err_msg=name)
    about = {finding.about for finding in expected.findings} - {f"{kind}_composition" for kind in "qkv"}
    assert about == {finding.about for finding in found.findings} - {f"{kind}_composition" for kind in "qkv"}

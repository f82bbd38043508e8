"""Law of models in memory: every verb gives what it gives of the model's folder, and leaves the model as it came.

Or it says in one sentence what to do. A row is a family, a column a form in which people have a model, and each verb is
tried on both.
"""

import contextlib
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from support.tolerance import assert_same

import headway
from headway.errors import UserError
from headway.hf.write import export
from headway.models.weights import initial_weights

PLAIN = {"vocab_size": 61, "bos_token_id": 0, "eos_token_id": 0}
WIDE = {
    **PLAIN, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32,
}  # fmt: skip
GROUPED = {**WIDE, "num_key_value_heads": 1, "attention_dropout": 0.2}
LATENT = {
    **WIDE, "num_key_value_heads": 2, "kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "qk_nope_head_dim": 8, "first_k_dense_replace": 2, "n_group": 1, "topk_group": 1, "n_routed_experts": 2,
    "num_experts_per_tok": 1, "moe_intermediate_size": 16, "n_shared_experts": 1, "attention_dropout": 0.2,
}  # fmt: skip
SHARED = {
    **GROUPED, "num_hidden_layers": 4, "head_dim": 8, "num_kv_shared_layers": 2, "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "vocab_size_per_layer_input": 61,
    "hidden_size_per_layer_input": 8, "pad_token_id": 0,
}  # fmt: skip
FAMILIES = {
    "GPT2": {**PLAIN, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "GPTNeo": {
        **PLAIN, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_position_embeddings": 32, "window_size": 4,
        "attention_types": [[["global", "local"], 1]], "resid_dropout": 0.2,
    },
    "GPTNeoX": {**WIDE, "hidden_dropout": 0.2},
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 4},
    "Qwen2": GROUPED,
    "Qwen3": {**GROUPED, "head_dim": 8},
    "Gemma2": {**GROUPED, "head_dim": 8, "sliding_window": 4},
    "Gemma3Text": {**GROUPED, "head_dim": 8, "sliding_window": 4},
    "Gemma4Text": {**SHARED, "global_head_dim": 16},
    "OPT": {
        **{key: size for key, size in WIDE.items() if key != "intermediate_size"}, "ffn_dim": 24,
        "word_embed_proj_dim": 16, "pad_token_id": 0, "dropout": 0.2,
    },
    "Phi": {**GROUPED, "resid_pdrop": 0.2},
    "DeepseekV2": LATENT,
    "DeepseekV3": LATENT,
    "Headway": {},
}  # fmt: skip
QUICK = ("GPT2", "GPTNeo", "Gemma4Text", "Headway")
"""Families of the quick tests: one of each way in which a model in memory is read."""


@cache
def folder_of(family):
    """A folder with bfloat16 weights that all forms share, large enough that heads matter."""
    folder = Path(tempfile.mkdtemp())
    torch.manual_seed(0)
    if family == "Headway":
        from headway.config.lm.model import GptNeo

        ragged = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-1", n_positions=32, dropout=0.2)
        weights = initial_weights(ragged, 61, seed=0)
        coarse = {name: torch.tensor(10 * array).bfloat16().float().numpy() for name, array in weights.items()}
        export(ragged, 61, coarse, folder, None)
        return folder
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**FAMILIES[family]))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape) / weight.shape[-1] ** 0.5)
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def loaded(family, **options):
    kind = options.pop("kind", transformers.AutoModelForCausalLM)
    return kind.from_pretrained(folder_of(family), trust_remote_code=True, **{"dtype": torch.float32, **options}).eval()


def low_precision(family):
    return loaded(family, dtype=torch.bfloat16), contextlib.nullcontext()


def cast_by_hand(family):
    return loaded(family).to(torch.bfloat16), contextlib.nullcontext()


def in_training(family):
    model = loaded(family).train()
    model.get_input_embeddings().weight.requires_grad_(False)
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    return model, contextlib.nullcontext()


def compiled(family):
    return torch.compile(loaded(family)), contextlib.nullcontext()


def compiled_in_place(family):
    model = loaded(family)
    model.compile()
    return model, contextlib.nullcontext()


def compiled_forward(family):
    model = loaded(family)
    model.forward = torch.compile(model.forward)
    return model, contextlib.nullcontext()


def made_in_inference_mode(family):
    with torch.inference_mode():
        return loaded(family), torch.inference_mode()


def half_as_default(family):
    @contextlib.contextmanager
    def default():
        torch.set_default_dtype(torch.bfloat16)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)

    return loaded(family), default()


FORMS = {
    "as it is": lambda family: (loaded(family), contextlib.nullcontext()),
    "in bfloat16": low_precision,
    "cast to bfloat16": cast_by_hand,
    "in training mode": in_training,
    "inside of inference mode": lambda family: (loaded(family), torch.inference_mode()),
    "made in inference mode": made_in_inference_mode,
    "inside of autocast": lambda family: (loaded(family), torch.autocast("cpu", dtype=torch.bfloat16)),
    "with another default type": half_as_default,
    "compiled": compiled,
    "compiled in place": compiled_in_place,
    "with a compiled forward": compiled_forward,
    "a folder inside of inference mode": lambda family: (folder_of(family), torch.inference_mode()),
    "a folder inside of autocast": lambda family: (folder_of(family), torch.autocast("cpu", dtype=torch.bfloat16)),
}
TOKENS = np.random.default_rng(0).integers(1, 61, (8, 12))


def metric(logits):
    return logits[:, -1, 7] - logits[:, -1, 8]


def numbers_of_page(found):
    """Sums over a page's patterns: a rounding may move an entry of a packed pattern by a step."""
    return [np.float32(packed.steps().mean()) for packed in found.patterns.values()]


def numbers_of_xray(found):
    measured = {name: scores.values for name, scores in sorted(found.scores.items())}
    return [found.loss_nats, *(value for by_layer in measured.values() for value in by_layer.values())]


VERBS = {
    "xray": lambda model: numbers_of_xray(headway.xray(model, tokens=TOKENS, draws=1)),
    "look": lambda model: numbers_of_page(headway.look(model, tokens=TOKENS, draws=0, sequences=1)),
    "ablate": lambda model: headway.ablate(model, text=TOKENS).exact.single["resample"].per_sequence,
    "patch": lambda model: list(headway.patch(model, TOKENS[:2], TOKENS[2:4], metric=metric).effects.values()),
    "circuit": lambda model: [headway.circuit(model, ["L0H1"], text=TOKENS, draws=2).circuit],
    "prune": lambda model: [headway.prune(model, by="taylor", keep=2, text=TOKENS).losses["text"].after],
}


def outcome(verb, model):
    try:
        return VERBS[verb](model)
    except UserError as refusal:
        return str(refusal)


@cache
def of_folder(family, verb):
    return outcome(verb, folder_of(family))


def state(model):
    """Whatever a verb might change of a model."""
    if not isinstance(model, torch.nn.Module):
        return []
    tensors = [*model.named_parameters(), *model.named_buffers()]
    held = [(name, tensor.dtype, tensor.requires_grad, tensor.data_ptr()) for name, tensor in tensors]
    bits = [tensor.detach().clone().float().numpy().tobytes() for _, tensor in tensors]
    gradients = [None if tensor.grad is None else tensor.grad.numpy().tobytes() for _, tensor in tensors]
    hooks = [(list(module._forward_hooks), list(module._forward_pre_hooks)) for module in model.modules()]
    parts = [(module.training, sorted(vars(module))) for module in model.modules()]
    return [held, bits, gradients, hooks, parts, getattr(model.config, "_attn_implementation", None)]


def assert_one_value(found, expected, verb):
    if isinstance(expected, str):
        assert isinstance(found, str), f"{verb}: {expected}"
        return
    assert not isinstance(found, str), f"{verb}: {found}"
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5, err_msg=verb)


def check(family, form, verbs):
    expected = {verb: of_folder(family, verb) for verb in verbs}
    model, where = FORMS[form](family)
    before = state(model)
    with where:
        found = {verb: outcome(verb, model) for verb in verbs}
    for verb in verbs:
        assert_one_value(found[verb], expected[verb], f"{family}, {form}, {verb}")
    assert state(model) == before


@pytest.mark.parametrize("form", ["in bfloat16", "in training mode", "inside of inference mode", "compiled"])
@pytest.mark.parametrize("family", QUICK)
def test_a_model_in_memory_is_its_folder(family, form):
    assert not any(isinstance(of_folder(family, verb), str) for verb in ("xray", "patch"))
    check(family, form, ("xray", "patch"))


OFTEN = ("as it is", "in bfloat16", "in training mode", "inside of autocast", "compiled in place")
"""Forms of the slow table that every family is tried in; those of the quick tests are tried in all forms."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "form"), [(each, form) for each in FAMILIES for form in FORMS if each in QUICK or form in OFTEN]
)
def test_every_family_takes_every_form(family, form):
    """With the verbs in turn, so that each meets every family and every form."""
    at = list(FAMILIES).index(family) + list(FORMS).index(form)
    check(family, form, (list(VERBS)[at % len(VERBS)],))


def tables(model):
    """Every number of an x-ray, of three ways of ablation and of patching, by its place."""
    found = headway.xray(model, tokens=TOKENS, draws=2)
    exact = headway.ablate(model, text=TOKENS).exact
    patched = headway.patch(model, TOKENS[:2], TOKENS[2:4], metric=metric)
    return {
        **{(name, layer): value for name, scores in found.scores.items() for layer, value in scores.values.items()},
        **{
            (name, "draws", layer): draws
            for name, scores in found.scores.items()
            for layer, draws in scores.draws.items()
        },
        **{way: effects.per_sequence for way, effects in exact.single.items()},
        **patched.effects,
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", ["GPT2", "GPTNeoX", "Llama", "Gemma4Text", "OPT", "DeepseekV3"])
def test_every_table_of_a_model_in_memory_is_that_of_its_folder(family):
    assert_same(tables(loaded(family)), tables(folder_of(family)), dtype=torch.float32, what=family)


@pytest.mark.slow
def test_what_a_folder_gives_is_no_refusal():
    """Else the table above would compare sentences."""
    refused = {(family, verb) for family in QUICK for verb in VERBS if isinstance(of_folder(family, verb), str)}
    assert refused == {("Gemma4Text", "prune")}


@pytest.mark.parametrize("family", ["GPT2", "GPTNeo", "GPTNeoX", "Llama"])
def test_a_model_without_a_language_model_head_says_what_to_load(family):
    model = loaded(family, kind=transformers.AutoModel)
    before = state(model)
    assert headway.xray(model, tokens=TOKENS, draws=0).loss_nats is None
    for verb in ("ablate", "patch", "circuit"):
        assert "load it with AutoModelForCausalLM" in outcome(verb, model)
    assert state(model) == before


def test_an_adapter_around_a_model_is_named():
    class PeftModel(torch.nn.Module):
        pass

    for verb in VERBS:
        assert "merge them first: model.merge_and_unload()" in outcome(verb, PeftModel())


def test_low_precision_with_a_hook_says_what_to_do():
    model = loaded("GPTNeoX", dtype=torch.bfloat16)
    model.gpt_neox.layers[0].register_forward_hook(lambda *_: None)
    assert outcome("ablate", model).endswith("Call model.float() first")


def test_a_hook_of_ones_own_stays_in_force():
    plain, changed = loaded("GPT2"), loaded("GPT2")
    changed.transformer.h[0].register_forward_hook(lambda _, __, output: 3 * output)
    assert np.abs(np.array(outcome("ablate", changed)[0]) - outcome("ablate", plain)[0]).max() > 1e-3

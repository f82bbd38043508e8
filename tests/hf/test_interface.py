"""What the heads of traced architectures add to the stream, against what it gains with the rest of a layer silenced."""

import numpy as np
import pytest
import torch
import transformers
from support import zoo
from support.tolerance import assert_same
from torch import nn
from transformers.pytorch_utils import Conv1D

import headway
from headway.errors import UserError
from headway.hf.interface import output_map

_llama, _wide = zoo._llama, zoo._wide
_narrow = {**_llama, "head_dim": 8}
FURTHER = {
    "olmo-2": ("Olmo2Config", _llama),
    "olmo-3": ("Olmo3Config", _llama),
    "glm-4": ("Glm4Config", {**_narrow, "partial_rotary_factor": 0.5}),
    "exaone-4": ("Exaone4Config", {**_llama, "sliding_window": 4}),
    "granite": ("GraniteConfig", {**_llama, "residual_multiplier": 0.3}),
    "cohere": ("CohereConfig", _llama),
    "cohere-2": ("Cohere2Config", {**_llama, "sliding_window": 4}),
    "starcoder-2": ("Starcoder2Config", _llama),
    "stable-lm": ("StableLmConfig", _llama),
    "qwen-2": ("Qwen2Config", _llama),
    "mixtral": ("MixtralConfig", {**_llama, "num_local_experts": 2}),
    "phi-3": ("Phi3Config", _llama),
    "gemma": ("GemmaConfig", _narrow),
    "olmo": ("OlmoConfig", _llama),
    "nemotron": ("NemotronConfig", _llama),
    "smollm-3": ("SmolLM3Config", _llama),
    "biogpt": ("BioGptConfig", {**_wide, "intermediate_size": 48}),
    "helium": ("HeliumConfig", _narrow),
    "arcee": ("ArceeConfig", _llama),
    "seed-oss": ("SeedOssConfig", _narrow),
    "glm": ("GlmConfig", {**_narrow, "partial_rotary_factor": 0.5}),
    "persimmon": ("PersimmonConfig", {**_wide, "intermediate_size": 48}),
    "phi-moe": ("PhimoeConfig", _llama),
    "vault-gemma": ("VaultGemmaConfig", {**_narrow, "sliding_window": 4}),
    "gpt-big-code": (
        "GPTBigCodeConfig", {**zoo._plain, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
}  # fmt: skip
DECODERS = [name for name in zoo.CONFIGS if name not in ("bert", "t5", "bart")]
EXPERTS = {"mixtral", "phi-moe"}
"""Their experts are no linear maps that a hook can silence."""
NORMED = {"gemma-2", "gemma-3", "olmo-2", "olmo-3", "glm-4", "exaone-4"}


def model_of(name):
    if name in zoo.CONFIGS:
        return zoo.model_of(name)
    kind, given = FURTHER[name]
    if not hasattr(transformers, kind):
        pytest.skip(f"this transformers has no {kind}")
    torch.manual_seed(0)
    return zoo.stirred(transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**given))).eval()


def layers_of(model):
    """The modules that hold an attention and an MLP, by the name of the attention."""
    found = {}
    for name, module in model.named_modules():
        for child, attention in module.named_children():
            if any(hasattr(attention, each) for each in ("o_proj", "c_proj", "dense", "out_proj")) and "attn" in (
                child.replace("attention", "attn")
            ):
                found[f"{name}.{child}"] = module, attention
    return found


def added(model, layer, attention, tokens):
    """What the stream gains in a layer of which all linear maps outside of the attention give 0."""
    seen = {}

    def silent(module, args, output):
        return torch.zeros_like(output)

    inside = set(attention.modules())
    hooks = [layer.register_forward_hook(lambda _, args, output: seen.update(after=output))]
    hooks.append(
        layer.register_forward_pre_hook(
            lambda _, args, given: seen.update(before=args[0] if args else given["hidden_states"]), with_kwargs=True
        )
    )
    for module in layer.modules():
        if isinstance(module, nn.Linear | Conv1D) and module not in inside:
            hooks.append(module.register_forward_hook(silent))
        if "Experts" in type(module).__name__:
            hooks.append(module.register_forward_hook(silent))
    with torch.no_grad():
        model(tokens)
    for hook in hooks:
        hook.remove()
    after = seen["after"][0] if isinstance(seen["after"], tuple) else seen["after"]
    multiplier = getattr(model.config, "residual_multiplier", 1.0)
    assert multiplier  # it is in what is added, so nothing is divided by it
    return after - seen["before"]


@pytest.mark.parametrize("name", [name for name in (*DECODERS, *FURTHER) if name not in EXPERTS])
def test_contributions_sum_to_what_enters_the_stream(name):
    model, tokens = model_of(name), zoo.tokens_of((2, 9))
    assert not hasattr(model.config, "num_local_experts")
    with torch.no_grad():
        trace = headway.hf.trace(model, tokens)
    layers = layers_of(model)
    assert len(trace.attentions) == 2
    for attention in trace.attentions:
        layer, module = next(
            pair for path, pair in layers.items() if path.endswith(attention.name) or attention.name in path
        )
        bias = torch.zeros(()) if attention.b_O is None else attention.b_O
        gain = torch.ones(()) if attention.gain is None else attention.gain[..., None]
        found = attention.contributions().sum(1) + bias * gain
        assert_same(found, added(model, layer, module, tokens), dtype=np.float32)
        assert (attention.gain is not None) == (name in NORMED)


def test_a_norm_and_a_multiple_are_told_and_another_vector_is_not():
    random = torch.Generator().manual_seed(0)
    o, other = (torch.randn(2, 7, 16, generator=random) for _ in range(2))
    norm = nn.LayerNorm(16)
    nn.init.normal_(norm.weight, generator=random)
    nn.init.normal_(norm.bias, generator=random)
    with torch.no_grad():
        for added_, centred in ((nn.RMSNorm(16)(o), False), (norm(o), True)):
            found = output_map(o, added_)
            assert found is not None
            assert found.centred == centred
            assert found.slope > 0
        multiple = output_map(o, 0.3 * o)
        assert multiple is not None
        assert_same(multiple.weight, torch.full((16,), 0.3))
        assert output_map(o, other) is None
        assert output_map(o, o + 0.1 * other) is None
        assert output_map(o[:1, :1], 2 * o[:1, :1]) is None  # one position tells nothing


def test_what_is_neither_is_refused():
    model = zoo.model_of("llama")
    layer = model.model.layers[1].self_attn
    hook = layer.register_forward_hook(lambda _, args, output: (output[0].tanh(), output[1]))
    with torch.no_grad(), pytest.raises(UserError, match="changes the result of its output projection"):
        headway.hf.trace(model, zoo.tokens_of((2, 9)))
    hook.remove()

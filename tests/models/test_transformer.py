"""Models that others wrote and trained, as ours: the same logits, the loss that was published."""

import pytest
import torch
from support import stories as published
from support.stored import data

from headway.config.lm.model import Llama
from headway.models.transformer import Transformer

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 101, "bos_token_id": 0, "eos_token_id": 0}
LLAMA = Llama(family="llama", d_model=64, n_layers=3, n_heads=8, n_kv_heads=2, d_mlp=88, n_positions=80, norm_eps=1e-6)


def drawn(theirs):
    """Their model with weights so large that logits spread, and its arrays."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) * 0.15)
    return theirs.eval(), {name: array.detach().numpy() for name, array in theirs.named_parameters()}


def llama():
    config = transformers.LlamaConfig(
        **SIZES, hidden_size=64, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
        intermediate_size=88, max_position_embeddings=80, rms_norm_eps=1e-6, tie_word_embeddings=False,
    )  # fmt: skip
    theirs, arrays = drawn(transformers.LlamaForCausalLM(config))
    names = {"model.embed_tokens": "embedding", "model.norm": "norm", "lm_head": "readout"}
    for layer in range(3):
        at, ours = f"model.layers.{layer}", f"layers.{layer}"
        names |= {f"{at}.self_attn.{x}_proj": f"{ours}.attention.{x}" for x in "qkvo"}
        names |= {f"{at}.mlp.{x}_proj": f"{ours}.mlp.{x}" for x in ("gate", "up", "down")}
        names |= {
            f"{at}.input_layernorm": f"{ours}.attention_norm",
            f"{at}.post_attention_layernorm": f"{ours}.mlp_norm",
        }
    return LLAMA, theirs, renamed(arrays, names)


def renamed(arrays, names):
    parts = (name.rpartition(".") for name in arrays)
    return {f"{names[at]}.{part}": arrays[f"{at}.{part}"] for at, _, part in parts}


@pytest.mark.slow
def test_a_model_that_others_trained_keeps_its_loss():
    """stories260K: 1.297 nats per token were published; these stories give 1.296 +- .010 for the first 500."""
    weights, folder = published.load(data("stories260K/weights.npz")), data("stories260K")
    model = Transformer(published.MODEL, published.VOCAB_SIZE, weights).eval()
    tokenizer = published.Tokenizer(folder / "tok512.bin")
    stories = data("tinystories/valid.txt").read_text(encoding="utf-8").split("<|endoftext|>")[:100]
    inputs = torch.zeros(len(stories), 512, dtype=torch.long)
    targets = torch.full((len(stories), 512), -1)
    for row, story in enumerate(stories):
        tokens = torch.tensor([published.BOS, *tokenizer.encode(story.strip())][:513])
        inputs[row, : len(tokens) - 1], targets[row, : len(tokens) - 1] = tokens[:-1], tokens[1:]
    with torch.no_grad():
        loss = model.loss(inputs, targets)
    assert abs(loss - 1.297) < 0.03


def test_a_model_that_others_trained_tells_a_story():
    from headway.models.generate import generate

    model = Transformer(published.MODEL, 512, published.load(data("stories260K/weights.npz")))
    tokenizer = published.Tokenizer(data("stories260K/tok512.bin"))
    prompt = [published.BOS, *tokenizer.encode("Once upon a time")]
    text = tokenizer.decode(generate(model, prompt, n_tokens=40, temperature=0.0))
    assert text.startswith(", there was a little girl named Lily. She loved to play outside in the park.")

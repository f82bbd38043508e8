"""Transformers drawn by hand, which differ in every declared choice: laws run over all of them."""

import numpy as np
import pytest
import torch

from headway.config.lm.model import Gpt2, GptNeo, Llama, Ranks
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

SMALL = {"d_model": 48, "n_layers": 3, "n_positions": 128, "init_std": 0.2}
NEO = {"family": "gpt-neo", **SMALL}
GPT2 = {"family": "gpt-2", **SMALL}
LLAMA = {"family": "llama", **SMALL}
VOCAB = 31
LENGTH = 70
"""More than two blocks of queries."""

MODELS = {
    "published": GptNeo(**NEO, n_heads=4, windows=(None, 7)),
    "ragged": GptNeo(**NEO, n_heads="3-12-48", windows=(50, None, 1)),
    "GQA": Gpt2(**GPT2, n_heads="8:2-4:1-6:6", windows=(40, None)),
    "unequal KV groups": Gpt2(**GPT2, n_heads="4+3x4-1+2+1-2", windows=(None, 9)),
    "fixed d_head": Gpt2(**GPT2, n_heads="5-3-1", d_head=10, attention_scale="d_model"),
    "layers without heads": GptNeo(**NEO, n_heads="0-6-0"),
    "lane": GptNeo(**NEO, n_heads=4, d_embed=20),
    "switched lane": GptNeo(**NEO, n_heads=4, d_embed=20, lane="switched", positions_in_lane=False),
    "low rank": Gpt2(**GPT2, n_heads="2-4-8", ranks=Ranks(q=3, k="1-2-48", v=5, o=7, up="4-5-6", down=9)),
    "rotary": Llama(**LLAMA, n_heads="8:4-3+1x12-2", windows=(None, 20), tied=True),
    "low-rank SwiGLU": Llama(**LLAMA, n_heads="4-0-2", d_mlp="30-20-10", ranks=Ranks(up=3, o=4), norm_place="after"),
    "sinusoidal": Gpt2(**GPT2, n_heads=4, positions="sinusoidal", norm_place="after", mlp="relu", d_embed=15),
    "attention only": Gpt2(**GPT2, n_heads="1-2-3", positions="none", norm="none", mlp="none", attention_scale=0.3),
    "RMSNorm after": Gpt2(**GPT2, n_heads=4, norm="rms", norm_place="after", mlp="gelu", tied=False, d_mlp=17),
    "scaled embedding": Gpt2(
        **GPT2, n_heads=4, embedding_scale="d_model", embedding_init_std=1.0, positions="sinusoidal", d_embed=20
    ),
    "emptied layers": Gpt2(**GPT2, n_heads="0-5x12-0", emptied=(0, 2)),
    "emptied, norm after": Gpt2(**GPT2, n_heads="0-4-0", emptied=(2,), norm_place="after", mlp="none"),
    "attends to the future": Gpt2(**GPT2, n_heads="4:2-6-1", mask="future", positions="sinusoidal"),
    "no residual": Gpt2(**GPT2, n_heads="2-0-4", residual=False),
    "no residual, norm after": Gpt2(**GPT2, n_heads=3, residual=False, norm_place="after", mlp="none"),
    "joint": Gpt2(**GPT2, n_heads=4, positions="joint", tied=False),
    "joint in a lane": Gpt2(**GPT2, n_heads=4, positions="joint", tied=False, d_embed=20),
    "smeared keys": Gpt2(**GPT2, n_heads="4:2-6-1", smeared_keys=True, windows=(None, 9)),
    "smeared rotary keys": Llama(**LLAMA, n_heads="4-2-3", smeared_keys=True),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def weights_of(model, seed=0):
    """Weights in which biases and norms are no longer what they start as."""
    random = np.random.default_rng(seed)
    weights = initial_weights(model, VOCAB, seed)
    return {name: array + random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in weights.items()}


def built(model, **changed):
    return Transformer(model, VOCAB, weights_of(model) | changed).eval()


def text(length=LENGTH, batch=2):
    return torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(1))


def logits_of(module, *arguments, **options):
    with torch.no_grad():
        return module(*arguments, **options)[0]


def ones(model):
    return [torch.ones(heads.n_heads) for heads in model.layout.layers]

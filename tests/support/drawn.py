"""Hand-drawn models that between them take every choice, with weights in which nothing is zero or one by luck."""

import numpy as np

from headway.config.lm.model import Gpt2, GptNeo, Llama, Ranks, TransformerModel
from headway.models.weights import Weights, initial_weights

VOCAB_SIZE = 257

_small = {"d_model": 48, "n_positions": 64, "init_std": 0.2}

STOCK: dict[str, tuple[str, TransformerModel]] = {
    "neo": ("gpt_neo", GptNeo(family="gpt-neo", n_layers=3, n_heads=6, windows=(None, 5), **_small)),
    "neo-untied": ("gpt_neo", GptNeo(family="gpt-neo", n_layers=2, n_heads=4, tied=False, d_mlp=50, **_small)),
    "neo-relu": ("gpt_neo", GptNeo(family="gpt-neo", n_layers=2, n_heads=4, mlp="relu", dropout=0.1, **_small)),
    "gpt2": ("gpt2", Gpt2(family="gpt-2", n_layers=2, n_heads=6, d_mlp=50, **_small)),
    "gpt2-unscaled": ("gpt2", Gpt2(family="gpt-2", n_layers=2, n_heads=6, attention_scale="none", **_small)),
    "llama": ("llama", Llama(family="llama", n_layers=2, n_heads=6, n_kv_heads=2, d_head=16, **_small)),
    "llama-biased": (
        "llama",
        Llama(
            family="llama",
            n_layers=2,
            n_heads=4,
            biases=("mlp", "qkv", "output"),
            rotary_base=500.0,
            tied=True,
            **_small,
        ),
    ),
    "mistral": ("mistral", Llama(family="llama", n_layers=2, n_heads="9:3x4", windows=(7,), **_small)),
}
"""With the `model_type` that each becomes."""

RAGGED: dict[str, TransformerModel] = {
    "descending": GptNeo(family="gpt-neo", n_layers=3, n_heads="12-6-3", windows=(None, 5), **_small),
    "no-attention": GptNeo(family="gpt-neo", n_layers=3, n_heads="0-4-6", **_small),
    "pruned": Gpt2(family="gpt-2", n_layers=2, n_heads="4+1x8-3x8", d_mlp="50-20", **_small),
    "shared-keys": GptNeo(family="gpt-neo", n_layers=2, n_heads=6, n_kv_heads=2, **_small),
    "lane": GptNeo(family="gpt-neo", n_layers=2, n_heads=4, d_embed=20, **_small),
    "lane-switched": GptNeo(
        family="gpt-neo", n_layers=2, n_heads=4, d_embed=20, lane="switched", positions_in_lane=False, **_small
    ),
    "ranks": GptNeo(
        family="gpt-neo", n_layers=2, n_heads=4, ranks=Ranks(q="5-6", k=7, v=8, o=9, up="10-11", down=12), **_small
    ),
    "post-norm": Gpt2(family="gpt-2", n_layers=2, n_heads=4, norm_place="after", positions="sinusoidal", **_small),
    "odd-sinusoids": Gpt2(
        family="gpt-2", n_layers=1, n_heads=4, d_embed=21, positions="sinusoidal", positions_in_lane=False, **_small
    ),
    "attention-only": Gpt2(
        family="gpt-2", n_layers=2, n_heads=1, mlp="none", norm="none", positions="none", biases=(), **_small
    ),
    "rotary-ragged": Llama(family="llama", n_layers=2, n_heads="8:4-2x10", windows=(None, 4), mlp="gelu", **_small),
    "odd-scale": GptNeo(family="gpt-neo", n_layers=2, n_heads=4, attention_scale=0.3, **_small),
    "emptied": Gpt2(family="gpt-2", n_layers=3, n_heads="0-3x8-0", emptied=(0, 2), **_small),
    "emptied-norm-after": Gpt2(
        family="gpt-2", n_layers=2, n_heads="3x8-0", emptied=(1,), norm_place="after", biases=("mlp",), **_small
    ),
    "future": Gpt2(family="gpt-2", n_layers=2, n_heads="4:2-3", mask="future", **_small),
    "scaled-embedding": Gpt2(
        family="gpt-2", n_layers=2, n_heads=4, embedding_scale="d_model", d_embed=20, mlp="relu", **_small
    ),
    "model-scale": GptNeo(family="gpt-neo", n_layers=2, n_heads=4, attention_scale="d_model", **_small),
}
"""No stock architecture is one of these."""


def weights_of(model: TransformerModel, vocab_size: int = VOCAB_SIZE) -> Weights:
    random = np.random.default_rng(0)
    initial = initial_weights(model, vocab_size, seed=0)
    return {name: array + random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in initial.items()}

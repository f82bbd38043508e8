"""Models with a circuit planted by hand: a previous-token head and an induction head among heads that do nothing.

The stream has a part for the token, the position, the token before, and what is predicted, one entry for each value,
and a part that the read-out all but ignores. Layer 0 has a head that writes the token before, layer 1 one that looks
for where the token before was the current one and predicts what stands there. All other heads have random weights of
the same size, read everything and write into the ignored part.
"""

import numpy as np
import torch

from headway.config.lm.model import Gpt2
from headway.heads.measure import repeated_tokens
from headway.models.transformer import Transformer

VOCAB, PERIOD, POSITIONS, SEQUENCES = 16, 12, 32, 24
TOKEN, POSITION, BEFORE, PREDICTED, IGNORED = (
    slice(0, 16), slice(16, 48), slice(48, 64), slice(64, 80), slice(80, 96),
)  # fmt: skip
WIDTHS = (32, 16)
SHARP, LOUD, NOISE = 12.0, 6.0, 0.05


def planted(seed, *, reset=False):
    """A drawn model and its planted heads; `reset`: the planted heads have random weights like the others."""
    random = np.random.default_rng(seed)
    counts = random.integers(2, 9, 2)
    heads = [(layer, int(random.integers(n))) for layer, n in enumerate(counts)]
    weights = {
        "embedding.weight": _entries((VOCAB, 96), TOKEN),
        "positions.weight": _entries((POSITIONS, 96), POSITION),
        "readout.weight": LOUD * _entries((VOCAB, 96), PREDICTED),
    }
    weights["readout.weight"][:, IGNORED] = NOISE * random.normal(size=(VOCAB, 16))
    for layer, (n, width) in enumerate(zip(counts, WIDTHS, strict=True)):
        of_heads = [_idle(random, width) for _ in range(n)]
        if not reset:
            of_heads[heads[layer][1]] = _previous() if layer == 0 else _induction()
        for name in "qkv":
            weights[f"layers.{layer}.attention.{name}.weight"] = np.concatenate([head[name] for head in of_heads])
        weights[f"layers.{layer}.attention.o.weight"] = np.concatenate([head["o"] for head in of_heads], axis=1)
    declared = Gpt2(
        family="gpt-2", d_model=96, n_layers=2, n_heads=f"{counts[0]}x32-{counts[1]}x16", n_positions=POSITIONS,
        norm="none", mlp="none", tied=False, biases=(), attention_scale="none",
    )  # fmt: skip
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    return Transformer(declared, VOCAB, weights).eval(), heads


def planted_elsewhere(seed, n_heads=6):
    """The same circuit in an OPT of transformers, whose norms are almost nothing and whose MLPs are; and its heads."""
    import transformers

    random, width, wide = np.random.default_rng(seed), 32, 32 * n_heads
    config = transformers.OPTConfig(
        vocab_size=VOCAB, hidden_size=wide, word_embed_proj_dim=wide, ffn_dim=4, num_hidden_layers=2,
        num_attention_heads=n_heads, max_position_embeddings=POSITIONS, tie_word_embeddings=False, dropout=0.0,
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = transformers.OPTForCausalLM(config).eval()
    heads = [(layer, int(random.integers(n_heads))) for layer in range(2)]
    arrays = {name: torch.zeros_like(array) for name, array in model.state_dict().items()}
    decoder = "model.decoder."
    # Two ones among so many zeros: a norm of this weight gives back about what it is given, less its mean.
    arrays |= {name: array + (2 / wide) ** 0.5 for name, array in arrays.items() if "norm.weight" in name}
    arrays[f"{decoder}embed_tokens.weight"][:, :96] = torch.from_numpy(_entries((VOCAB, 96), TOKEN))
    arrays[f"{decoder}embed_positions.weight"][2:, :96] = torch.from_numpy(_entries((POSITIONS, 96), POSITION))
    arrays["lm_head.weight"][:, :96] = torch.from_numpy(LOUD * _entries((VOCAB, 96), PREDICTED))
    for layer in range(2):
        of_heads = [_idle(random, width) for _ in range(n_heads)]
        of_heads[heads[layer][1]] = _previous() if layer == 0 else _induction()
        path = f"{decoder}layers.{layer}.self_attn"
        for at, head in enumerate(of_heads):
            rows = slice(width * at, width * at + len(head["q"]))
            for name in "qkv":
                # Logits are divided by the root of the width.
                times = width**0.5 if name == "q" else 1.0
                arrays[f"{path}.{name}_proj.weight"][rows, :96] = torch.from_numpy(times * head[name]).float()
            arrays[f"{path}.out_proj.weight"][:96, rows] = torch.from_numpy(head["o"]).float()
    model.load_state_dict(arrays)
    return model, heads


def texts(seed):
    """Inputs and targets of random tokens, repeated, and others of the kind."""
    one, other = (torch.from_numpy(repeated_tokens(VOCAB, PERIOD, SEQUENCES, 2 * seed + i)) for i in (0, 1))
    return one[:, :-1], one[:, 1:], other


def _entries(shape, part):
    array = np.zeros(shape)
    array[: part.stop - part.start, part] = np.eye(*(part.stop - part.start,) * 2)[: shape[0]]
    return array


def _previous():
    q, k, v = (np.zeros((32, 96)) for _ in "qkv")
    q[:, POSITION] = SHARP * np.eye(32)
    k[1:, POSITION] = np.eye(32)[:-1]  # a key is looked for by the position after it
    v[:16, TOKEN] = np.eye(16)
    o = np.zeros((96, 32))
    o[BEFORE, :16] = np.eye(16)
    return {"q": q, "k": k, "v": v, "o": o}


def _induction():
    q, k, v = (np.zeros((16, 96)) for _ in "qkv")
    q[:, TOKEN] = SHARP * np.eye(16)
    k[:, BEFORE] = np.eye(16)
    v[:, TOKEN] = np.eye(16)
    o = np.zeros((96, 16))
    o[PREDICTED] = np.eye(16)
    return {"q": q, "k": k, "v": v, "o": o}


def _idle(random, width):
    """Matrices of the norms of a planted head's."""
    like = _previous() if width == 32 else _induction()
    head = {name: random.normal(size=array.shape) for name, array in like.items()}
    head["o"][: IGNORED.start] = 0
    return {name: array * np.linalg.norm(like[name]) / np.linalg.norm(array) for name, array in head.items()}

"""Models: where each of Headway's arrays stands in a folder of Hugging Face, a table per architecture.

Both directions read the same table. A `ArrayPlace` is a module's name, `*` being the layer; GPT-2 keeps its matrices
transposed and Q, K and V in one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headway.declare.tokens.parameters import Parameter


@dataclass(frozen=True)
class ArrayPlace:
    """A module of a folder: all of it, or part `part` of `parts` equal ones along its outputs."""

    module: str
    transposed: bool = False
    part: int = 0
    parts: int = 1


Table = Mapping[str, ArrayPlace]
"""From the name of a Headway module to its place."""


def _table(prefix: str, layer: str, **places: str | ArrayPlace) -> Table:
    """Places by short names: of the whole model, and of a layer (`layer` is prefixed to them)."""
    short = {
        "embedding": "embedding",
        "positions": "positions",
        "norm": "norm",
        "readout": "readout",
        **{name: f"layers.*.{name}" for name in ("attention_norm", "mlp_norm")},
        **{name: f"layers.*.attention.{name}" for name in "qkvo"},
        **{name: f"layers.*.mlp.{name}" for name in ("gate", "up", "down")},
    }
    table = {}
    for name, given in places.items():
        place = given if isinstance(given, ArrayPlace) else ArrayPlace(given)
        at = f"{prefix}.{layer}.*." if short[name].startswith("layers") else f"{prefix}."
        table[short[name]] = ArrayPlace(at + place.module, place.transposed, place.part, place.parts)
    return {**table, "readout": ArrayPlace("lm_head")}


NAMES: dict[str, Table] = {
    "gpt_neo": _table(
        "transformer",
        "h",
        embedding="wte",
        positions="wpe",
        attention_norm="ln_1",
        q="attn.attention.q_proj",
        k="attn.attention.k_proj",
        v="attn.attention.v_proj",
        o="attn.attention.out_proj",
        mlp_norm="ln_2",
        up="mlp.c_fc",
        down="mlp.c_proj",
        norm="ln_f",
    ),
    "gpt2": _table(
        "transformer",
        "h",
        embedding="wte",
        positions="wpe",
        attention_norm="ln_1",
        q=ArrayPlace("attn.c_attn", transposed=True, part=0, parts=3),
        k=ArrayPlace("attn.c_attn", transposed=True, part=1, parts=3),
        v=ArrayPlace("attn.c_attn", transposed=True, part=2, parts=3),
        o=ArrayPlace("attn.c_proj", transposed=True),
        mlp_norm="ln_2",
        up=ArrayPlace("mlp.c_fc", transposed=True),
        down=ArrayPlace("mlp.c_proj", transposed=True),
        norm="ln_f",
    ),
    "llama": _table(
        "model",
        "layers",
        embedding="embed_tokens",
        attention_norm="input_layernorm",
        q="self_attn.q_proj",
        k="self_attn.k_proj",
        v="self_attn.v_proj",
        o="self_attn.o_proj",
        mlp_norm="post_attention_layernorm",
        gate="mlp.gate_proj",
        up="mlp.up_proj",
        down="mlp.down_proj",
        norm="norm",
    ),
}
"""The table of each architecture; a Mistral's names are a Llama's, a Headway folder's are Headway's own."""

BUFFERS = re.compile(r".*\.(attn\.(attention\.)?(masked_)?bias|rotary_emb\.inv_freq)")
"""What older folders keep beside the weights: masks and frequencies, which follow from the configuration."""


def place_of(table: Table | None, name: str) -> tuple[str, ArrayPlace]:
    """The name in a folder of one of Headway's arrays, and its place; without a table, names are Headway's own.

    Examples:
        >>> place_of(NAMES["gpt2"], "layers.3.attention.k.weight")[0]
        'transformer.h.3.attn.c_attn.weight'
    """
    module, _, kind = name.rpartition(".")
    if table is None:
        return name, ArrayPlace(module)
    layer = re.search(r"\d+", module)
    place = table[re.sub(r"\d+", "*", module)]
    return place.module.replace("*", layer[0] if layer else "") + f".{kind}", place


def shapes_of(table: Table | None, parameters: Iterable[Parameter]) -> dict[str, tuple[int, ...]]:
    """The arrays that a folder must have, with their shapes."""
    shapes = {}
    for parameter in parameters:
        name, place = place_of(table, parameter.name)
        shape = (parameter.shape[0] * place.parts, *parameter.shape[1:])
        shapes[name] = shape[::-1] if place.transposed else shape
    return shapes


def from_folder(table: Table | None, name: str, array: np.ndarray) -> np.ndarray:
    """Headway's array `name` out of the folder's array it stands in."""
    _, place = place_of(table, name)
    whole = array.T if place.transposed else array
    return np.ascontiguousarray(np.split(whole, place.parts)[place.part])


def to_folder(table: Table | None, weights: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """The folder's arrays, of Headway's."""
    parts: dict[str, list[tuple[ArrayPlace, np.ndarray]]] = {}
    for name, array in weights.items():
        there, place = place_of(table, name)
        parts.setdefault(there, []).append((place, array))
    for there, found in parts.items():
        whole = np.concatenate([array for _, array in sorted(found, key=lambda pair: pair[0].part)])
        yield there, np.ascontiguousarray(whole.T if found[0][0].transposed else whole)

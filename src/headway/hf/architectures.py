"""Tables that map Hugging Face configurations and arrays to Headway's declarations, one per architecture.

Reading and writing use one table. An `ArrayPlace` is a module's name, `*` being the layer; GPT-2 keeps its matrices
transposed and Q, K and V in one.

A description states a transformer layer by layer in plain JSON, with nothing left to a default. Two declarations that
mean the same function have one description. So Headway compares descriptions to decide whether another library can
express a layout. The config.json of an exported ragged model holds its description.

`write` may assume a model that the architecture can express: `stock` reads the written configuration again and checks
that its meaning is unchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np

from headway.base.identity import without
from headway.config.lm.budget import Parameter
from headway.config.lm.layout import HeadLayout, LayerHeads
from headway.config.lm.model import Gpt2, GptNeo, LanguageModel, Llama, Projection, Ranks, TransformerModel
from headway.config.spec import WIDEST, parse
from headway.errors import UserError, shortened

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ArrayPlace:
    """A module of a folder: all of it, or part `part` of `parts` equal ones along its outputs."""

    module: str
    transposed: bool = False
    part: int = 0
    parts: int = 1


Table = Mapping[str, str | ArrayPlace]
"""A table from the name of a Headway module to its place, or to the name of a whole module."""

_GPT_NEO_NAMES: Table = {
    "embedding": "transformer.wte",
    "positions": "transformer.wpe",
    "layers.*.attention_norm": "transformer.h.*.ln_1",
    "layers.*.attention.q": "transformer.h.*.attn.attention.q_proj",
    "layers.*.attention.k": "transformer.h.*.attn.attention.k_proj",
    "layers.*.attention.v": "transformer.h.*.attn.attention.v_proj",
    "layers.*.attention.o": "transformer.h.*.attn.attention.out_proj",
    "layers.*.mlp_norm": "transformer.h.*.ln_2",
    "layers.*.mlp.up": "transformer.h.*.mlp.c_fc",
    "layers.*.mlp.down": "transformer.h.*.mlp.c_proj",
    "norm": "transformer.ln_f",
    "readout": "lm_head",
}

NAMES: dict[str, Table] = {
    "gpt_neo": _GPT_NEO_NAMES,
    "gpt2": {
        **_GPT_NEO_NAMES,
        "layers.*.attention.q": ArrayPlace("transformer.h.*.attn.c_attn", transposed=True, part=0, parts=3),
        "layers.*.attention.k": ArrayPlace("transformer.h.*.attn.c_attn", transposed=True, part=1, parts=3),
        "layers.*.attention.v": ArrayPlace("transformer.h.*.attn.c_attn", transposed=True, part=2, parts=3),
        "layers.*.attention.o": ArrayPlace("transformer.h.*.attn.c_proj", transposed=True),
        "layers.*.mlp.up": ArrayPlace("transformer.h.*.mlp.c_fc", transposed=True),
        "layers.*.mlp.down": ArrayPlace("transformer.h.*.mlp.c_proj", transposed=True),
    },
    "llama": {
        "embedding": "model.embed_tokens",
        "layers.*.attention_norm": "model.layers.*.input_layernorm",
        "layers.*.attention.q": "model.layers.*.self_attn.q_proj",
        "layers.*.attention.k": "model.layers.*.self_attn.k_proj",
        "layers.*.attention.v": "model.layers.*.self_attn.v_proj",
        "layers.*.attention.o": "model.layers.*.self_attn.o_proj",
        "layers.*.mlp_norm": "model.layers.*.post_attention_layernorm",
        "layers.*.mlp.gate": "model.layers.*.mlp.gate_proj",
        "layers.*.mlp.up": "model.layers.*.mlp.up_proj",
        "layers.*.mlp.down": "model.layers.*.mlp.down_proj",
        "norm": "model.norm",
        "readout": "lm_head",
    },
}
"""The table of each architecture; a Mistral's names are a Llama's, a Headway folder's are Headway's own."""

BUFFERS = re.compile(r".*\.(attn\.(attention\.)?(masked_)?bias|rotary_emb\.inv_freq)")
"""Arrays of older folders beside the weights: masks and frequencies, which follow from the configuration."""


def place_of(table: Table | None, name: str) -> tuple[str, ArrayPlace]:
    """Return the name in a folder of a Headway array, and its place; without a table, names are Headway's own.

    Examples:
        >>> place_of(NAMES["gpt2"], "layers.3.attention.k.weight")[0]
        'transformer.h.3.attn.c_attn.weight'
    """
    module, _, kind = name.rpartition(".")
    if table is None:
        return name, ArrayPlace(module)
    pattern = re.sub(r"\d+", "*", module)
    there = table[pattern]
    place = ArrayPlace(there) if isinstance(there, str) else there
    layer = re.sub(r"\D", "", module)
    return place.module.replace("*", layer) + f".{kind}", place


def shapes_of(table: Table | None, parameters: Iterable[Parameter]) -> dict[str, tuple[int, ...]]:
    """Return the arrays that a folder must have, with their shapes."""
    shapes = {}
    for parameter in parameters:
        name, place = place_of(table, parameter.name)
        shape = (parameter.shape[0] * place.parts, *parameter.shape[1:])
        shapes[name] = shape[::-1] if place.transposed else shape
    return shapes


Held = TypeVar("Held", np.ndarray, "Tensor")


def from_folder(table: Table | None, name: str, array: Held) -> Held:
    """Return Headway's array `name` from the folder's array that holds it, without a copy."""
    _, place = place_of(table, name)
    whole = array.T if place.transposed and array.ndim > 1 else array
    rows = len(whole) // place.parts
    return whole[rows * place.part : rows * (place.part + 1)]


def to_folder(table: Table | None, weights: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Return the folder's arrays made of Headway's arrays."""
    parts: dict[str, list[tuple[ArrayPlace, np.ndarray]]] = {}
    for name, array in weights.items():
        there, place = place_of(table, name)
        parts.setdefault(there, []).append((place, array))
    for there, found in parts.items():
        whole = np.concatenate([array for _, array in sorted(found, key=lambda pair: pair[0].part)])
        yield there, np.ascontiguousarray(whole.T if found[0][0].transposed else whole)


FAMILIES: dict[str, type[TransformerModel]] = {
    get_args(kind.model_fields["family"].annotation)[0]: kind for kind in get_args(get_args(LanguageModel)[0])
}
"""The declared families by name."""

_SCALES = ("none", "d_head", "d_model")
_DESCRIBED = {
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_positions": "max_position_embeddings",
    "mlp": "mlp",
    "mask": "attends",
    "embedding_scale": "embedding_scale",
    "norm": "norm",
    "norm_place": "norm_place",
    "norm_eps": "norm_eps",
    "positions": "positions",
    "tied": "tie_word_embeddings",
    "dropout": "dropout",
    "init_std": "initializer_range",
}
"""The key of a description for each of these fields of a declaration."""


def describe(model: TransformerModel) -> dict[str, Any]:
    """Return a model without schedules and defaults; null where a choice has no effect.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> described = describe(GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads="6-3"))
        >>> described["num_attention_heads_per_layer"], described["head_dim_per_layer"], described["window_per_layer"]
        ([6, 3], [8, 16], [None, 256])
    """
    layers, lane = range(model.n_layers), model.embedding_width < model.d_model
    heads = model.layout.layers
    return {
        **{key: getattr(model, field) for field, key in _DESCRIBED.items()},
        "embedding_size": model.embedding_width,
        "num_attention_heads_per_layer": [layer.n_heads for layer in heads],
        "queries_of_key_value_heads_per_layer": [list(layer.queries) for layer in heads],
        "head_dim_per_layer": [layer.d_head for layer in heads],
        "attention_scale_per_layer": [model.logit_scale(i) for i in layers],
        "window_per_layer": [model.window(i) for i in layers],
        "intermediate_size_per_layer": list(model.mlp_widths),
        "ranks_per_layer": {name: [model.rank(name, i) for i in layers] for name in get_args(Projection)},
        "biases": sorted(model.biases),
        "emptied": sorted(model.emptied),
        "positions_in_lane": model.positions_in_lane if lane else None,
        "rotary_base": model.rotary_base if model.positions == "rotary" else None,
        "lane": model.lane if lane else None,
    }


def declared(description: Mapping[str, Any], family: str | None) -> TransformerModel:
    """Return the declaration of a description; `describe` of it gives the description back.

    Raises:
        DeclarationError: when the description contradicts itself.
        KeyError: when it lacks a key.
        TypeError: when a value is of another kind.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> model = GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads="ascending(6)", d_head=8)
        >>> declared(describe(model), "gpt-neo").n_heads
        '2x8-4x8'
    """
    d_model, d_embed = description["hidden_size"], description["embedding_size"]
    layers = zip(description["queries_of_key_value_heads_per_layer"], description["head_dim_per_layer"], strict=True)
    layout = HeadLayout(
        d_model=d_model,
        layers=tuple(LayerHeads(queries=tuple(queries), d_head=d_head) for queries, d_head in layers),
    )
    widths = description["intermediate_size_per_layer"]
    values = {
        # Folders older than these choices lack their keys.
        **_read_keys(_DESCRIBED, description, {"mask": "past", "embedding_scale": "none"}),
        "emptied": description.get("emptied", ()),
        "biases": description["biases"],
        "d_embed": None if d_embed == d_model else d_embed,
        "n_heads": str(layout),
        "n_kv_heads": None,
        "d_head": None,
        "attention_scale": _scale(description["attention_scale_per_layer"], layout),
        "windows": description["window_per_layer"],
        "d_mlp": widths if all(widths) else None,
        "ranks": Ranks(**{name: tuple(ranks) for name, ranks in description["ranks_per_layer"].items() if any(ranks)}),
    }
    for key in ("positions_in_lane", "rotary_base", "lane"):
        if description[key] is not None:
            values[key] = description[key]
    if family is None:
        return parse(TransformerModel, values)
    return parse(FAMILIES[family], {"family": family, **values})


def _scale(scales: list[float], layout: HeadLayout) -> str | float:
    """Return the declared choice that gives these scales."""
    for name in _SCALES:
        width = {"none": 1, "d_model": layout.d_model}
        if scales == [width.get(name, layer.d_head or 1) ** -0.5 for layer in layout.layers]:
            return name
    return scales[0]


Config = Mapping[str, Any]


class NotOurs(UserError):
    """An error: a configuration has something that Headway's own model lacks."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture: the class that transformers loads it as, its names of arrays, and its configuration."""

    loaded_as: str
    table: Table | None
    read: Callable[[Config], TransformerModel]
    write: Callable[[TransformerModel], dict[str, Any]]


def stock(model: TransformerModel) -> tuple[str, dict[str, Any]] | None:
    """Return the first stock `model_type` and configuration that equal this model exactly; None if none does.

    Examples:
        >>> stock(GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads=6))[0]
        'gpt_neo'
        >>> stock(GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads="6-3"))
    """
    if 0 in model.layout.n_heads:
        return None
    for model_type in ("gpt_neo", "gpt2", "llama", "mistral"):
        architecture = ARCHITECTURES[model_type]
        config = architecture.write(model)
        try:
            same = _function(architecture.read(config)) == _function(model)
        except UserError:
            continue  # this architecture cannot even say it
        if same:
            return model_type, config
    return None


def _function(model: TransformerModel) -> dict[str, Any]:
    """Return a description without choices that have no effect after training: a Llama, for one, has no dropout."""
    return without(describe(model), "dropout", "initializer_range")


_ACTIVATIONS = {
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "gelu_fast": "gelu_new",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "swiglu",
    "swish": "swiglu",
}


def vocab_size_of(config: Config) -> int:
    """Return the rows of the token embedding.

    Raises:
        KeyError: when it is missing.
        UserError: when it is not a number of tokens.
    """
    rows = config["vocab_size"]
    if not isinstance(rows, int) or not 0 < rows <= WIDEST:
        raise UserError(f"vocab_size {shortened(repr(rows))} is not a number of tokens; give a whole one above 0")
    return rows


def _activation(config: Config, key: str, default: str, *, gated: bool = False) -> str:
    name_given = config.get(key, default)
    names = [name for name, kind in _ACTIVATIONS.items() if (kind == "swiglu") == gated]
    if name_given not in names:
        raise NotOurs(f"{key} {shortened(repr(name_given))} is not known here; there is {', '.join(names)}")
    return _ACTIVATIONS[name_given]


def _plain(config: Config, **values: Any) -> None:
    """Raise NotOurs for every setting that changes the function in a way Headway cannot express."""
    other = [
        f"{key} is {shortened(repr(config[key]))}"
        for key, value in values.items()
        if config.get(key) not in (value, None)
    ]
    if other:
        raise NotOurs(f"{' and '.join(other)}, which Headway's model does not have")


def _dropout(config: Config, *keys: str, default: float) -> float:
    """Return the dropout of all places; none if they differ, since a trained model does not use it."""
    shares = {float(config.get(key, default)) for key in keys}
    return shares.pop() if len(shares) == 1 else 0.0


_GPT_NEO = {
    "d_model": "hidden_size",
    "n_layers": "num_layers",
    "n_heads": "num_heads",
    "n_positions": "max_position_embeddings",
    "d_mlp": "intermediate_size",
    "norm_eps": "layer_norm_epsilon",
    "tied": "tie_word_embeddings",
    "init_std": "initializer_range",
}
_GPT2 = {
    **_GPT_NEO,
    "d_model": "n_embd",
    "n_layers": "n_layer",
    "n_heads": "n_head",
    "n_positions": "n_positions",
    "d_mlp": "n_inner",
}
_LLAMA = {
    **_GPT_NEO,
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "d_head": "head_dim",
    "norm_eps": "rms_norm_eps",
}
"""The key of a configuration for each of these fields of a declaration; reading and writing use one table."""
_DEFAULTS = {"d_mlp": None, "norm_eps": 1e-5, "tied": True, "init_std": 0.02}


def _read_keys(keys: Mapping[str, str], config: Config, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a configuration gives; what has no default has to be there."""
    return {
        field: config.get(key, defaults[field]) if field in defaults else config[key] for field, key in keys.items()
    }


def _write_keys(keys: Mapping[str, str], model: TransformerModel) -> dict[str, Any]:
    """Return the keys for a model whose layers are all like the first."""
    heads = model.layout.layers[0]
    of_layers = {
        "n_heads": heads.n_heads,
        "n_kv_heads": heads.n_kv_heads,
        "d_head": heads.d_head,
        "d_mlp": model.mlp_widths[0],
    }
    return {key: of_layers[field] if field in of_layers else getattr(model, field) for field, key in keys.items()}


def _read_gpt_neo(config: Config) -> GptNeo:
    types, n_layers = config["attention_types"], config["num_layers"]
    if unknown := {kind for kinds, _ in types for kind in kinds} - {"global", "local"}:
        raise UserError(f"attention_types names {shortened(', '.join(sorted(unknown)))}; give global and local")
    n_named = sum(len(kinds) * times for kinds, times in types)
    if n_named != n_layers:  # before a hostile number of them is listed
        raise UserError(f"attention_types names {n_named} layers, but num_layers is {n_layers}")
    kinds = [kind for kinds, times in types for kind in kinds * times]
    values = {
        "family": "gpt-neo",
        **_read_keys(_GPT_NEO, config, _DEFAULTS),
        "windows": [config.get("window_size", 256) if kind == "local" else None for kind in kinds],
        "mlp": _activation(config, "activation_function", "gelu_new"),
        "dropout": _dropout(config, "resid_dropout", "embed_dropout", "attention_dropout", default=0.0),
    }
    return parse(GptNeo, values)


def _write_gpt_neo(model: TransformerModel) -> dict[str, Any]:
    windows = [model.window(i) for i in range(model.n_layers)]
    return {
        **_write_keys(_GPT_NEO, model),
        "attention_types": [[["global" if window is None else "local"], 1] for window in windows],
        "window_size": next((window for window in windows if window), 256),
        "activation_function": model.mlp,
        **dict.fromkeys(("resid_dropout", "embed_dropout", "attention_dropout"), model.dropout),
    }


def _left_of_pruned(config: Config) -> str | int:
    """Return the layout of a checkpoint whose `pruned_heads` are gone from its arrays: transformers 4 wrote such files.

    Raises:
        UserError: if the model does not have these layers or heads.
    """
    n_heads, d_model = config["n_head"], config["n_embd"]
    pruned = config.get("pruned_heads") or {}
    if not pruned:
        return n_heads
    if not isinstance(pruned, dict) or d_model % n_heads:
        raise UserError(f"pruned_heads {shortened(repr(pruned))} is not a mapping from layers to lists of heads")
    left = [n_heads] * config["n_layer"]
    for layer, heads in pruned.items():
        gone = {int(head) for head in heads}
        if int(layer) not in range(len(left)) or not gone <= set(range(n_heads)):
            raise UserError(f"pruned_heads names heads {sorted(gone)} of layer {layer}, which the model does not have")
        left[int(layer)] = n_heads - len(gone)
    return "-".join(f"{n}x{d_model // n_heads}" if n else "0" for n in left)


def _read_gpt2(config: Config) -> Gpt2:
    _plain(config, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    values = {
        "family": "gpt-2",
        **_read_keys(_GPT2, config, _DEFAULTS),
        "n_heads": _left_of_pruned(config),
        "attention_scale": "d_head" if config.get("scale_attn_weights", True) else "none",
        "mlp": _activation(config, "activation_function", "gelu_new"),
        "dropout": _dropout(config, "resid_pdrop", "embd_pdrop", "attn_pdrop", default=0.1),
    }
    return parse(Gpt2, values)


def _write_gpt2(model: TransformerModel) -> dict[str, Any]:
    return {
        **_write_keys(_GPT2, model),
        "scale_attn_weights": model.logit_scale(0) != 1,
        "activation_function": model.mlp,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), model.dropout),
    }


def _read_llama(config: Config) -> Llama:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise UserError(f"rope_parameters {shortened(repr(rope))} is not a mapping, keys with values")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise NotOurs(f"rope_type {shortened(repr(kind))} is not supported; Headway's model has the default type")
    _plain({**config, **rope}, partial_rotary_factor=1.0)
    d_model, n_heads = config["hidden_size"], config["num_attention_heads"]
    if config.get("model_type", "llama") == "llama" and d_model % n_heads:
        raise UserError(f"hidden_size {d_model} is not a multiple of num_attention_heads {n_heads}, as in a Llama")
    biases = ["qkv", "output"] if config.get("attention_bias") else []
    values = {
        "family": "llama",
        **_read_keys(
            _LLAMA, config, {"norm_eps": 1e-6, "tied": False, "init_std": 0.02, "n_kv_heads": None, "d_head": None}
        ),
        "rotary_base": {"rope_theta": 10_000.0, **config, **rope}["rope_theta"],
        "mlp": _activation(config, "hidden_act", "silu", gated=True),
        "biases": [*biases, "mlp"] if config.get("mlp_bias") else biases,
    }
    return parse(Llama, values)


def _write_llama(model: TransformerModel) -> dict[str, Any]:
    return {
        **_write_keys(_LLAMA, model),
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rotary_base},
        "hidden_act": "silu",
        "attention_bias": "qkv" in model.biases,
        "mlp_bias": "mlp" in model.biases,
    }


def _read_mistral(config: Config) -> Llama:
    _plain(config, layer_types=None)
    plain = _read_llama({**config, "model_type": "mistral", "attention_bias": False, "mlp_bias": False})
    return parse(Llama, {**plain.content(), "windows": [config.get("sliding_window", 4096)]})


def _write_mistral(model: TransformerModel) -> dict[str, Any]:
    config = _write_llama(model)
    del config["attention_bias"], config["mlp_bias"]
    return {**config, "sliding_window": model.window(0)}


ARCHITECTURES: dict[str, Architecture] = {
    "gpt_neo": Architecture(
        loaded_as="GPTNeoForCausalLM", table=NAMES["gpt_neo"], read=_read_gpt_neo, write=_write_gpt_neo
    ),
    "gpt2": Architecture(loaded_as="GPT2LMHeadModel", table=NAMES["gpt2"], read=_read_gpt2, write=_write_gpt2),
    "llama": Architecture(loaded_as="LlamaForCausalLM", table=NAMES["llama"], read=_read_llama, write=_write_llama),
    "mistral": Architecture(
        loaded_as="MistralForCausalLM", table=NAMES["llama"], read=_read_mistral, write=_write_mistral
    ),
    "headway": Architecture(
        loaded_as="HeadwayForCausalLM",
        table=None,
        read=lambda config: declared(config, config["family"]),
        write=lambda model: {"family": getattr(model, "family", None), **describe(model)},
    ),
}
"""The architectures by `model_type`."""

"""Models: the configurations of Hugging Face that Headway's model can be: read as a declaration, and written from one.

`write` may assume a model that the architecture can express: whether it was one shows when what was written is
read again and means the same (`stock`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.declare.limits import MOST_LAYERS, WIDEST
from headway.declare.spec import parse
from headway.declare.tokens.transformer import Gpt2, GptNeo, Llama, TransformerModel
from headway.errors import UserError, shortened
from headway.hf.array_names import NAMES, Table
from headway.hf.description import declared, describe

Config = Mapping[str, Any]


class NotOurs(UserError):
    """A configuration has something that Headway's own model does not have."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An architecture: the class that transformers loads it as, its names of arrays, and its configuration."""

    loaded_as: str
    table: Table | None
    read: Callable[[Config], TransformerModel]
    write: Callable[[TransformerModel], dict[str, Any]]


def stock(model: TransformerModel) -> tuple[str, dict[str, Any]] | None:
    """The `model_type` and configuration of the first stock architecture that is this model exactly; None if none is.

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
    """The description without what has no effect once a model is trained: a Llama, for one, has no dropout."""
    return {key: value for key, value in describe(model).items() if key not in ("dropout", "initializer_range")}


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
    """Rows of the token embedding.

    Raises:
        KeyError: when it is missing.
        UserError: when it is no number of tokens.
    """
    given = config["vocab_size"]
    if not isinstance(given, int) or not 0 < given <= WIDEST:
        raise UserError(f"vocab_size {shortened(repr(given))} is no number of tokens; give a whole one above 0")
    return given


def _activation(config: Config, key: str, kinds: tuple[str, ...], default: str) -> str:
    given = config.get(key, default)
    names = [name for name, kind in _ACTIVATIONS.items() if kind in kinds]
    if given not in names:
        raise NotOurs(f"{key} {shortened(repr(given))} is not known here; there is {', '.join(names)}")
    return _ACTIVATIONS[given]


def _plain(config: Config, **values: Any) -> None:
    """Refuse every setting that changes the function in a way that Headway has no word for."""
    other = [
        f"{key} is {shortened(repr(config[key]))}"
        for key, value in values.items()
        if config.get(key) not in (value, None)
    ]
    if other:
        raise NotOurs(f"{' and '.join(other)}, which Headway's model does not have")


def _dropout(config: Config, *keys: str, default: float) -> float:
    """The one dropout of all places; where they differ, none, since it has no effect on a trained model."""
    found = {float(config.get(key, default)) for key in keys}
    return found.pop() if len(found) == 1 else 0.0


def _repeated(types: list[tuple[list[str], int]]) -> list[str]:
    """Lists of kinds, each as often as the number beside it says; of too many for any model, a few too many."""
    most, kinds = MOST_LAYERS + 1, list[str]()
    for names, times in types:
        kinds += (names[:most] * min(times, most))[:most]
        if len(kinds) > most:
            break
    return kinds[:most]


def _read_gpt_neo(config: Config) -> GptNeo:
    kinds = _repeated(config["attention_types"])
    if unknown := set(kinds) - {"global", "local"}:
        raise UserError(f"attention_types names {shortened(', '.join(sorted(unknown)))}; there is global and local")
    if len(kinds) != config["num_layers"]:
        raise UserError(f"attention_types names {len(kinds)} layers, but num_layers is {config['num_layers']}")
    values = {
        "family": "gpt-neo",
        "d_model": config["hidden_size"],
        "n_layers": config["num_layers"],
        "n_heads": config["num_heads"],
        "n_positions": config["max_position_embeddings"],
        "windows": [config.get("window_size", 256) if kind == "local" else None for kind in kinds],
        "mlp": _activation(config, "activation_function", ("gelu_new", "gelu", "relu"), "gelu_new"),
        "d_mlp": config.get("intermediate_size"),
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "tied": config.get("tie_word_embeddings", True),
        "dropout": _dropout(config, "resid_dropout", "embed_dropout", "attention_dropout", default=0.0),
        "init_std": config.get("initializer_range", 0.02),
    }
    return parse(GptNeo, values)


def _write_gpt_neo(model: TransformerModel) -> dict[str, Any]:
    windows = [model.window(i) for i in range(model.n_layers)]
    return {
        "hidden_size": model.d_model,
        "num_layers": model.n_layers,
        "num_heads": model.layout.n_heads[0],
        "max_position_embeddings": model.n_positions,
        "attention_types": [[["global" if window is None else "local"], 1] for window in windows],
        "window_size": next((window for window in windows if window), 256),
        "activation_function": model.mlp,
        "intermediate_size": model.mlp_widths[0],
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied,
        **dict.fromkeys(("resid_dropout", "embed_dropout", "attention_dropout"), model.dropout),
        "initializer_range": model.init_std,
    }


def _read_gpt2(config: Config) -> Gpt2:
    _plain(config, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    values = {
        "family": "gpt-2",
        "d_model": config["n_embd"],
        "n_layers": config["n_layer"],
        "n_heads": config["n_head"],
        "n_positions": config["n_positions"],
        "attention_scale": "d_head" if config.get("scale_attn_weights", True) else "none",
        "mlp": _activation(config, "activation_function", ("gelu_new", "gelu", "relu"), "gelu_new"),
        "d_mlp": config.get("n_inner"),
        "norm_eps": config.get("layer_norm_epsilon", 1e-5),
        "tied": config.get("tie_word_embeddings", True),
        "dropout": _dropout(config, "resid_pdrop", "embd_pdrop", "attn_pdrop", default=0.1),
        "init_std": config.get("initializer_range", 0.02),
    }
    return parse(Gpt2, values)


def _write_gpt2(model: TransformerModel) -> dict[str, Any]:
    return {
        "n_embd": model.d_model,
        "n_layer": model.n_layers,
        "n_head": model.layout.n_heads[0],
        "n_positions": model.n_positions,
        "scale_attn_weights": model.logit_scale(0) != 1,
        "activation_function": model.mlp,
        "n_inner": model.mlp_widths[0],
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), model.dropout),
        "initializer_range": model.init_std,
    }


def _read_llama(config: Config) -> Llama:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise UserError(f"rope_parameters {shortened(repr(rope))} is no mapping, keys with values")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise NotOurs(f"rope_type is {shortened(repr(kind))}, which Headway's model does not have; it has the default")
    _plain({**config, **rope}, partial_rotary_factor=1.0)
    d_model, n_heads = config["hidden_size"], config["num_attention_heads"]
    if config.get("model_type", "llama") == "llama" and d_model % n_heads:
        raise UserError(f"hidden_size {d_model} is not a multiple of num_attention_heads {n_heads}, as in a Llama")
    biases = ["qkv", "output"] if config.get("attention_bias") else []
    values = {
        "family": "llama",
        "d_model": d_model,
        "n_layers": config["num_hidden_layers"],
        "n_heads": n_heads,
        "n_kv_heads": config.get("num_key_value_heads"),
        "d_head": config.get("head_dim"),
        "n_positions": config["max_position_embeddings"],
        "rotary_base": {"rope_theta": 10_000.0, **config, **rope}["rope_theta"],
        "mlp": _activation(config, "hidden_act", ("swiglu",), "silu"),
        "d_mlp": config["intermediate_size"],
        "biases": [*biases, "mlp"] if config.get("mlp_bias") else biases,
        "norm_eps": config.get("rms_norm_eps", 1e-6),
        "tied": config.get("tie_word_embeddings", False),
        "init_std": config.get("initializer_range", 0.02),
    }
    return parse(Llama, values)


def _write_llama(model: TransformerModel) -> dict[str, Any]:
    heads = model.layout.layers[0]
    return {
        "hidden_size": model.d_model,
        "num_hidden_layers": model.n_layers,
        "num_attention_heads": heads.n_heads,
        "num_key_value_heads": heads.n_kv_heads,
        "head_dim": heads.d_head,
        "max_position_embeddings": model.n_positions,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rotary_base},
        "hidden_act": "silu",
        "intermediate_size": model.mlp_widths[0],
        "attention_bias": "qkv" in model.biases,
        "mlp_bias": "mlp" in model.biases,
        "rms_norm_eps": model.norm_eps,
        "tie_word_embeddings": model.tied,
        "initializer_range": model.init_std,
    }


def _read_mistral(config: Config) -> Llama:
    _plain(config, layer_types=None)
    plain = _read_llama({**config, "model_type": "mistral", "attention_bias": False, "mlp_bias": False})
    return parse(Llama, {**plain.content(), "windows": [config.get("sliding_window", 4096)]})


def _write_mistral(model: TransformerModel) -> dict[str, Any]:
    config = _write_llama(model)
    del config["attention_bias"], config["mlp_bias"]
    return {**config, "sliding_window": model.window(0)}


def _read_headway(config: Config) -> TransformerModel:
    return declared(config, config["family"])


def _write_headway(model: TransformerModel) -> dict[str, Any]:
    return {"family": getattr(model, "family", None), **describe(model)}


ARCHITECTURES: dict[str, Architecture] = {
    "gpt_neo": Architecture(
        loaded_as="GPTNeoForCausalLM", table=NAMES["gpt_neo"], read=_read_gpt_neo, write=_write_gpt_neo
    ),
    "gpt2": Architecture(loaded_as="GPT2LMHeadModel", table=NAMES["gpt2"], read=_read_gpt2, write=_write_gpt2),
    "llama": Architecture(loaded_as="LlamaForCausalLM", table=NAMES["llama"], read=_read_llama, write=_write_llama),
    "mistral": Architecture(
        loaded_as="MistralForCausalLM", table=NAMES["llama"], read=_read_mistral, write=_write_mistral
    ),
    "headway": Architecture(loaded_as="HeadwayForCausalLM", table=None, read=_read_headway, write=_write_headway),
}
"""By `model_type`."""

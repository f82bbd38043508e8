"""Models: what a transformer is, layer by layer and with nothing left to a default, in plain JSON.

Two declarations that mean the same function have the same description, so whether a layout can be said in another
library's words is asked by comparing descriptions. It is also what config.json of an exported ragged model holds.
"""

from collections.abc import Mapping
from typing import Any, get_args

from headway.declare.spec import parse
from headway.declare.tokens.layout import HeadLayout, LayerHeads
from headway.declare.tokens.transformer import LanguageModel, Ranks, TransformerModel

FAMILIES: dict[str, type[TransformerModel]] = {
    get_args(kind.model_fields["family"].annotation)[0]: kind for kind in get_args(get_args(LanguageModel)[0])
}
"""The declared families by name."""

_SCALES = ("none", "d_head", "d_model")
_PROJECTIONS = ("q", "k", "v", "o", "up", "down")


def describe(model: TransformerModel) -> dict[str, Any]:
    """A model without schedules and defaults; what has no effect is left as null.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> described = describe(GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads="6-3"))
        >>> described["num_attention_heads_per_layer"], described["head_dim_per_layer"], described["window_per_layer"]
        ([6, 3], [8, 16], [None, 256])
    """
    layers, lane = range(model.n_layers), model.embedding_width < model.d_model
    heads = model.layout.layers
    return {
        "hidden_size": model.d_model,
        "embedding_size": model.embedding_width,
        "num_hidden_layers": model.n_layers,
        "max_position_embeddings": model.n_positions,
        "num_attention_heads_per_layer": [layer.n_heads for layer in heads],
        "queries_of_key_value_heads_per_layer": [list(layer.queries) for layer in heads],
        "head_dim_per_layer": [layer.d_head for layer in heads],
        "attention_scale_per_layer": [model.logit_scale(i) for i in layers],
        "window_per_layer": [model.window(i) for i in layers],
        "intermediate_size_per_layer": list(model.mlp_widths),
        "ranks_per_layer": {name: [model.rank(name, i) for i in layers] for name in _PROJECTIONS},  # type: ignore[arg-type]
        "mlp": model.mlp,
        "biases": sorted(model.biases),
        "attends": model.attends,
        "embedding_scale": model.embedding_scale,
        "emptied": sorted(model.emptied),
        "norm": model.norm,
        "norm_place": model.norm_place,
        "norm_eps": model.norm_eps,
        "positions": model.positions,
        "positions_in_lane": model.positions_in_lane if lane else None,
        "rotary_base": model.rotary_base if model.positions == "rotary" else None,
        "lane": model.lane if lane else None,
        "tie_word_embeddings": model.tied,
        "dropout": model.dropout,
        "initializer_range": model.init_std,
    }


def declared(description: Mapping[str, Any], family: str | None) -> TransformerModel:
    """The declaration of a description; `describe` of it gives the description back.

    Raises:
        DeclarationError: when the description contradicts itself.
        KeyError: when it lacks a key.
        TypeError: when a value is of another kind.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> model = GptNeo(family="gpt-neo", d_model=48, n_layers=2, n_heads="ascending(6)", d_head=8)
        >>> declared(describe(model), "gpt-neo").n_heads
        '2x8-4x8'
    """
    d_model, n_layers = description["hidden_size"], description["num_hidden_layers"]
    layout = HeadLayout(
        d_model=d_model,
        layers=tuple(
            LayerHeads(queries=tuple(queries), d_head=d_head)
            for queries, d_head in zip(
                description["queries_of_key_value_heads_per_layer"], description["head_dim_per_layer"], strict=True
            )
        ),
    )
    widths = description["intermediate_size_per_layer"]
    values = {
        "d_model": d_model,
        "d_embed": None if description["embedding_size"] == d_model else description["embedding_size"],
        "n_layers": n_layers,
        "n_positions": description["max_position_embeddings"],
        "n_heads": str(layout),
        "n_kv_heads": None,
        "d_head": None,
        "attention_scale": _scale(description["attention_scale_per_layer"], layout),
        "windows": description["window_per_layer"],
        "d_mlp": widths if all(widths) else None,
        "ranks": Ranks(**{name: tuple(ranks) for name, ranks in description["ranks_per_layer"].items() if any(ranks)}),
        "tied": description["tie_word_embeddings"],
        "init_std": description["initializer_range"],
        **{
            key: description[key] for key in ("mlp", "biases", "norm", "norm_place", "norm_eps", "positions", "dropout")
        },
        **{
            key: description[key]
            for key in ("positions_in_lane", "rotary_base", "lane")
            if description[key] is not None
        },
        # Folders from before there was a choice have none of these.
        **{key: description[key] for key in ("attends", "embedding_scale", "emptied") if key in description},
    }
    if family is None:
        return parse(TransformerModel, values)
    return parse(FAMILIES[family], {"family": family, **values})


def _scale(scales: list[float], layout: HeadLayout) -> str | float:
    """The declared choice that gives these scales."""
    for name in _SCALES:
        width = {"none": 1, "d_model": layout.d_model}
        if scales == [width.get(name, layer.d_head or 1) ** -0.5 for layer in layout.layers]:
            return name
    return scales[0]

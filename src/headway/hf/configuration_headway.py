"""The configuration of an exported model that no stock architecture can be; it travels with the model.

Everything is stated layer by layer, and null is "none" or "has no effect".
"""

from typing import Any

from transformers import PretrainedConfig


class HeadwayConfig(PretrainedConfig):
    """A transformer with ragged heads."""

    model_type = "headway"

    family: str | None = None
    vocab_size: int = 257
    hidden_size: int = 64
    embedding_size: int = 64
    num_hidden_layers: int = 1
    max_position_embeddings: int = 64
    num_attention_heads_per_layer: Any = (4,)
    queries_of_key_value_heads_per_layer: Any = ((1, 1, 1, 1),)
    head_dim_per_layer: Any = (16,)
    attention_scale_per_layer: Any = (1.0,)
    window_per_layer: Any = (None,)
    intermediate_size_per_layer: Any = (256,)
    ranks_per_layer: Any = None
    mlp: str = "gelu_new"
    biases: Any = ()
    attends: str = "past"
    embedding_scale: str = "none"
    emptied: Any = ()
    norm: str = "layer"
    norm_place: str = "before"
    norm_eps: float = 1e-5
    positions: str = "learned"
    positions_in_lane: bool | None = None
    rotary_base: float | None = None
    lane: str | None = None
    tie_word_embeddings: bool = True
    dropout: float = 0.0
    initializer_range: float = 0.02

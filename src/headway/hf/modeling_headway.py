"""The code of an exported model that no stock architecture can be; it travels with the model.

It needs only transformers and torch. Its tests compare it with Headway's own model, the reference.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Cache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from .configuration_headway import HeadwayConfig


class HeadwayForCausalLM(PreTrainedModel, GenerationMixin):
    """A decoder-only transformer whose layers may have different numbers of heads."""

    config_class = HeadwayConfig
    base_model_prefix = ""
    _input_embed_layer = "embedding"
    _supports_sdpa = True
    _no_split_modules = ("HeadwayLayer",)

    def __init__(self, config: HeadwayConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_position_embeddings, _position_width(config))
        self.layers = nn.ModuleList(HeadwayLayer(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = _norm(config) if config.norm_place == "before" else nn.Identity()
        if not config.tie_word_embeddings:
            self.readout = nn.Linear(config.embedding_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embedding."""
        return self.embedding

    def get_output_embeddings(self) -> nn.Module | None:
        """Return the read-out; None if it is the embedding."""
        return None if self.config.tie_word_embeddings else self.readout

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        **_: object,
    ) -> CausalLMOutputWithPast:
        """Return logits, and with labels (-100: not counted) the loss of the next token.

        Args:
            input_ids: tokens, (batch, pos); with `past_key_values` what comes after the tokens in it.
            attention_mask: 0 where there is padding, (batch, past and pos).
            position_ids: (batch, pos); counted from the first token that is no padding if not given.
            past_key_values: keys and values of the tokens before; those of these tokens are added to it.
            labels: the same tokens as `input_ids`; they are shifted here.
        """
        config = self.config
        if past_key_values is not None:
            self._check_can_write()
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        n_keys = past + input_ids.shape[1]
        if n_keys > config.max_position_embeddings:
            raise ValueError(f"{n_keys} tokens were given, but the longest text is {config.max_position_embeddings}")
        unpadded = input_ids.new_ones(len(input_ids), n_keys) if attention_mask is None else attention_mask
        positions = (unpadded.cumsum(1) - 1).clamp(min=0)[:, past:] if position_ids is None else position_ids
        stream = self._enter(input_ids, positions)
        for layer in self.layers:
            stream = layer(stream, positions, unpadded.bool(), past_key_values)
        stream, width = self.norm(stream), config.embedding_size
        entries = stream[..., -width:] if config.lane == "switched" else stream[..., :width]
        weight = self.embedding.weight if config.tie_word_embeddings else self.readout.weight
        logits = functional.linear(entries, weight)
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the inputs of a step of `generate`, which looks for a parameter named kwargs here."""
        self._check_can_write()
        return super().prepare_inputs_for_generation(*args, **kwargs)

    def _check_can_write(self) -> None:
        if self.config.attends == "future":
            raise ValueError("this model attends to the future, so it cannot generate text")

    def _enter(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the stream before the first layer: the embedding in its first entries, the lane in the others."""
        config = self.config
        stream, width = self.embedding(tokens), _position_width(config)
        if config.embedding_scale == "d_model":
            stream = stream * config.hidden_size**0.5
        stream = functional.pad(stream, (0, config.hidden_size - config.embedding_size))
        if config.positions == "learned":
            stream = stream + functional.pad(self.positions(positions), (0, config.hidden_size - width))
        if config.positions == "sinusoidal":
            angles = _angles(positions, width + width % 2, 10_000.0)
            waves = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width].to(stream.dtype)
            stream = stream + functional.pad(waves, (0, config.hidden_size - width))
        return functional.dropout(stream, config.dropout, self.training)


class HeadwayLayer(nn.Module):
    """Attention, then MLP; either may be missing."""

    def __init__(self, config: HeadwayConfig, layer: int) -> None:
        super().__init__()
        self.before, self.dropout = config.norm_place == "before", config.dropout
        self.attention = self.emptied = self.mlp = None
        if config.num_attention_heads_per_layer[layer]:
            self.attention_norm, self.attention = _norm(config), HeadwayAttention(config, layer)
        elif layer in config.emptied:
            self.attention_norm, self.emptied = nn.Identity() if self.before else _norm(config), HeadwayEmptied(config)
        if config.intermediate_size_per_layer[layer]:
            self.mlp_norm, self.mlp = _norm(config), HeadwayMlp(config, layer)

    def forward(self, stream: Tensor, positions: Tensor, unpadded: Tensor, cache: Cache | None) -> Tensor:
        """Return the stream after the layer."""
        if self.attention is not None:
            seen = self.attention_norm(stream) if self.before else stream
            written = self.attention(seen, positions, unpadded, cache)
            stream = self._add(stream, written, self.attention_norm)
        elif self.emptied is not None:
            stream = self._add(stream, self.emptied(stream), self.attention_norm)
        if self.mlp is not None:
            written = self.mlp(self.mlp_norm(stream) if self.before else stream)
            stream = self._add(stream, written, self.mlp_norm)
        return stream

    def _add(self, stream: Tensor, written: Tensor, norm: nn.Module) -> Tensor:
        total = stream + functional.dropout(written, self.dropout, self.training)
        return total if self.before else norm(total)


class HeadwayAttention(nn.Module):
    """The heads of one layer."""

    def __init__(self, config: HeadwayConfig, layer: int) -> None:
        super().__init__()
        queries, self.d_head = config.queries_of_key_value_heads_per_layer[layer], config.head_dim_per_layer[layer]
        self.kv_of = [kv for kv, count in enumerate(queries) for _ in range(count)]
        # The cache counts the layers that have heads: it takes its length from the first.
        self.cached_as = sum(1 for heads in config.num_attention_heads_per_layer[:layer] if heads)
        self.scale, self.window = config.attention_scale_per_layer[layer], config.window_per_layer[layer]
        self.future = config.attends == "future"
        self.rotary_base, self.dropout = config.rotary_base, config.dropout
        d_model, q, kv = config.hidden_size, len(self.kv_of) * self.d_head, len(queries) * self.d_head
        bias = "qkv" in config.biases
        self.q = _linear(config, layer, "q", d_model, q, bias)
        self.k = _linear(config, layer, "k", d_model, kv, bias)
        self.v = _linear(config, layer, "v", d_model, kv, bias)
        self.o = _linear(config, layer, "o", q, d_model, "output" in config.biases)

    def forward(self, x: Tensor, positions: Tensor, unpadded: Tensor, cache: Cache | None) -> Tensor:
        """Return what the heads together write to the stream."""
        q, k, v = (linear(x).unflatten(2, (-1, self.d_head)).transpose(1, 2) for linear in (self.q, self.k, self.v))
        if self.rotary_base is not None:
            angles = _angles(positions, self.d_head, self.rotary_base).repeat(1, 1, 2)[:, None]
            cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
            q, k = _turned(q, cos, sin), _turned(k, cos, sin)
        if cache is not None:
            k, v = cache.update(k, v, self.cached_as)
        seen, itself = self._seen(unpadded, x.shape[1])
        blind = ~seen.any(3, keepdim=True)
        z = functional.scaled_dot_product_attention(
            q,
            k[:, self.kv_of],
            v[:, self.kv_of],
            attn_mask=seen | (blind & itself),  # the softmax of nothing would be NaN
            dropout_p=self.dropout if self.training else 0.0,
            scale=self.scale,
        ).masked_fill(blind, 0)
        return self.o(z.transpose(1, 2).flatten(2))

    def _seen(self, unpadded: Tensor, n_queries: int) -> tuple[Tensor, Tensor]:
        """Return which keys each query sees, and which key is the query itself.

        A query sees keys up to itself, in its window, without padding, and always itself; or strictly later keys that
        are no padding.
        """
        at = torch.arange(unpadded.shape[1], device=unpadded.device)
        ago = at[-n_queries:, None] - at
        if self.future:
            return ((ago < 0) & unpadded[:, None])[:, None], ago == 0
        seen = (ago >= 0) if self.window is None else (ago >= 0) & (ago < self.window)
        return ((seen & unpadded[:, None]) | (ago == 0))[:, None], ago == 0


class HeadwayEmptied(nn.Module):
    """An attention that lost all its heads: it still writes its bias."""

    def __init__(self, config: HeadwayConfig) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(config.hidden_size)) if "output" in config.biases else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias at every position."""
        return torch.zeros_like(x) if self.bias is None else self.bias.expand_as(x)


class HeadwayMlp(nn.Module):
    """The MLP of one layer."""

    def __init__(self, config: HeadwayConfig, layer: int) -> None:
        super().__init__()
        self.kind, bias = config.mlp, "mlp" in config.biases
        d_model, d_mlp = config.hidden_size, config.intermediate_size_per_layer[layer]
        if self.kind == "swiglu":
            self.gate = _linear(config, layer, "up", d_model, d_mlp, bias)
        self.up = _linear(config, layer, "up", d_model, d_mlp, bias)
        self.down = _linear(config, layer, "down", d_mlp, d_model, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the MLP writes to the stream."""
        inside = self.up(x)
        if self.kind == "swiglu":
            inside = functional.silu(self.gate(x)) * inside
        elif self.kind == "relu":
            inside = functional.relu(inside)
        else:
            inside = functional.gelu(inside, approximate="tanh" if self.kind == "gelu_new" else "none")
        return self.down(inside)


def _linear(config: HeadwayConfig, layer: int, name: str, into: int, out: int, bias: bool) -> nn.Module:
    """Return a linear map; of low rank, a product of two."""
    rank = config.ranks_per_layer[name][layer]
    if rank is None:
        return nn.Linear(into, out, bias=bias)
    factors = nn.Sequential()
    factors.add_module("first", nn.Linear(into, rank, bias=False))
    factors.add_module("second", nn.Linear(rank, out, bias=bias))
    return factors


def _norm(config: HeadwayConfig) -> nn.Module:
    if config.norm == "none":
        return nn.Identity()
    kind = nn.LayerNorm if config.norm == "layer" else nn.RMSNorm
    return kind(config.hidden_size, eps=config.norm_eps)


def _position_width(config: HeadwayConfig) -> int:
    return config.embedding_size if config.positions_in_lane is False else config.hidden_size


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """Return angles (batch, pos, width / 2), in float64."""
    frequencies = base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    return positions[..., None] * frequencies


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return queries or keys turned by their position, entry i paired with entry i + d_head / 2."""
    first, second = x.chunk(2, dim=3)
    return x * cos + torch.cat((-second, first), dim=3) * sin

"""Transformer language models whose layers may have different numbers of heads.

One set of choices serves all models; a family is a set of defaults. `gpt-neo` is exactly the model of the
head-progression study: unscaled logits, alternating windows, tied read-out.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from headway.config.lm.layout import HeadCounts, HeadLayout, PerLayer, per_layer, widths
from headway.config.spec import MOST_LAYERS, WIDEST, BelowOne, Spec, check_numbers, known_in, whole

Norm = Literal["layer", "rms", "none"]
Mlp = Literal["gelu_new", "gelu", "relu", "swiglu", "none"]
Bias = Literal["qkv", "output", "mlp"]
Projection = Literal["q", "k", "v", "o", "up", "down"]
Attends = Literal["past", "future"]
Positions = Literal["learned", "joint", "rotary", "sinusoidal", "none"]
Width = Annotated[int, Field(gt=0, le=WIDEST)]
Scale = PositiveFloat | Literal["none", "d_head", "d_model"]


SOFTMAX = "softmax"
OWN_ATTENTIONS: dict[str, Callable[..., Any]] = {}
"""Attention functions that plugins register, by name: each changes an attention's scores before their softmax."""
OWN_FAMILIES: dict[str, Mapping[str, Any]] = {}
"""Families that plugins register, by name: their choices, including the family that they build on."""


class Ranks(Spec):
    """Ranks of low-rank projections (products of two matrices): a number, or one per layer; null: full rank."""

    q: PerLayer = None
    """rank of W_Q"""
    k: PerLayer = None
    """rank of W_K"""
    v: PerLayer = None
    """rank of W_V"""
    o: PerLayer = None
    """rank of W_O"""
    up: PerLayer = None
    """rank of the MLP's first matrix and of its gate (in SwiGLU)"""
    down: PerLayer = None
    """rank of the MLP's second matrix"""


class TransformerModel(Spec):
    """A decoder-only transformer with ragged heads; the defaults are those of its family."""

    d_model: Width
    """width of the residual stream"""
    n_layers: int = Field(gt=0, le=MOST_LAYERS)
    """number of layers"""
    n_heads: HeadCounts
    """number of query heads: a number for all layers, a list, a layout or a schedule. A layout such as `24-12-6-3`
    names the heads of each layer: `12:4` means 12 heads with 4 KV heads, `7x64` means 7 heads of width 64, and `0`
    means no attention. docs/experiment-keys.md lists the schedules"""
    n_kv_heads: PerLayer = None
    """number of KV heads; null: one for each query head"""
    d_head: Width | None = None
    """width of every head; null: d_model / n_heads"""
    attention_scale: Scale = "d_head"
    """factor that multiplies the attention scores: none (1), d_head (1/sqrt(d_head)), d_model (1/sqrt(d_model)), or a
    number"""
    windows: tuple[PositiveInt | None, ...] = (None,)
    """attention window of each layer: number of keys that a query sees, including its own (null: all). If the list is
    shorter than the number of layers, it repeats"""
    mask: Attends = "past"
    """past: a query sees keys up to its own position; future: a query sees only later keys (the inverted mask of
    published code). The output of a query without keys is 0"""
    positions: Positions = "learned"
    """kind of position embedding; joint: one vector for each pair of token and position"""
    n_positions: Width = 2048
    """the longest possible context"""
    rotary_base: PositiveFloat = 10_000.0
    """base of the rotary angles"""
    norm: Norm = "layer"
    """kind of normalisation: LayerNorm, RMSNorm or none"""
    norm_place: Literal["before", "after"] = "before"
    """whether a norm is applied before each sub-layer (pre-norm) or after its residual sum (post-norm)"""
    norm_eps: PositiveFloat = 1e-5
    """epsilon: number added to the variance in a norm"""
    mlp: Mlp = "gelu_new"
    """activation function of the MLP; none: no MLP"""
    d_mlp: PerLayer = None
    """width of the MLP: a number for all layers, a list, numbers joined by dashes, or a schedule
    (docs/experiment-keys.md lists the schedules); null: 4 d_model"""
    biases: tuple[Bias, ...] = ()
    """which linear maps have biases"""
    tied: bool = True
    """whether the output layer shares the weights of the token embedding"""
    dropout: BelowOne = 0.0
    """dropout probability during training"""
    d_embed: Width | None = None
    """width of the token embedding; null: d_model. If the width is below d_model, the other entries of the residual
    stream are the *data lane*"""
    embedding_scale: Literal["none", "d_model"] = "none"
    """factor of the token embeddings: none (1) or d_model (sqrt(d_model))"""
    embedding_init_std: PositiveFloat | None = None
    """standard deviation of the initial token embedding; null: init_std"""
    lane: Literal["same", "switched"] = "same"
    """entries of the residual stream that the output layer reads: the entries of the token embedding (same), or the
    last d_embed entries (switched)"""
    positions_in_lane: bool = True
    """whether position embeddings are also added to the data lane"""
    ranks: Ranks = Ranks()
    """ranks of low-rank projections; see `model.ranks`"""
    emptied: tuple[int, ...] = ()
    """layers, counted from 0, whose heads were all pruned; their attention keeps only its output bias and, with
    `norm_place: after`, its norm"""
    init_std: PositiveFloat = 0.02
    """standard deviation of initial weights"""
    factor_init: Literal["published", "matched"] = "published"
    """weights whose initial standard deviation is init_std: both low-rank factors (published) or their product
    (matched)"""
    residual: bool = True
    """whether the output of a sub-layer is added to the residual stream; false: the output replaces the stream"""
    smeared_keys: bool = False
    """whether each key is mixed with the previous key: s k_j + (1 - s) k_(j-1), where each KV head learns its s"""
    readout: Width | None = None
    """width of the output layer, for tasks whose answers are not tokens; null: size of the vocabulary"""
    encoder: Width | None = None
    """width of the MLP that embeds numeric inputs; null: inputs are tokens"""
    class_token: bool = False
    """whether a learned class token follows the inputs; the model answers at this token"""
    attention: Annotated[str, known_in(OWN_ATTENTIONS, "is not known", SOFTMAX)] = SOFTMAX
    """function that turns attention scores into weights: `softmax`, or a function's name in a plug-in"""

    @cached_property
    def layout(self) -> HeadLayout:
        """The heads of every layer."""
        return HeadLayout.resolve(
            self.n_heads, n_layers=self.n_layers, d_model=self.d_model, n_kv_heads=self.n_kv_heads, d_head=self.d_head
        )

    @property
    def embedding_width(self) -> int:
        """Columns of the token embedding."""
        return self.d_embed or self.d_model

    @property
    def mlp_widths(self) -> tuple[int, ...]:
        """Width of the MLP of every layer; 0 where there is none."""
        if self.mlp == "none":
            return (0,) * self.n_layers
        return widths(self.d_mlp, n_layers=self.n_layers, d_model=self.d_model)

    def window(self, layer: int) -> int | None:
        """Return how many keys a query of a layer sees; None for all."""
        return self.windows[layer % len(self.windows)]

    def logit_scale(self, layer: int) -> float:
        """Return the factor of a layer's attention logits."""
        width = {"none": 1, "d_head": self.layout.layers[layer].d_head or 1, "d_model": self.d_model}
        return self.attention_scale if isinstance(self.attention_scale, float) else width[self.attention_scale] ** -0.5

    @property
    def idle(self) -> tuple[str, ...]:
        """Choices that change nothing in this model: where positions enter without a lane, how absent factors start."""
        laneless = self.embedding_width == self.d_model or self.positions in ("rotary", "joint", "none")
        full = all(rank is None for rank in dict(self.ranks).values())
        return (("positions_in_lane",) if laneless else ()) + (("factor_init",) if full else ())

    @cached_property
    def _ranks(self) -> dict[str, tuple[int | None, ...]]:
        """The ranks of each projection, a number a layer; None for a full matrix."""
        return {
            name: per_layer(getattr(self.ranks, name), self.n_layers, f"ranks.{name}")
            for name in type(self.ranks).model_fields
        }

    def rank(self, projection: Projection, layer: int) -> int | None:
        """Return the rank of a projection of a layer; None for a full matrix."""
        return self._ranks[projection][layer]

    @whole
    def _check_whole(self) -> None:
        layout, mlps = self.layout, self.mlp_widths
        if not self.windows:
            raise ValueError("windows: an empty list was given; give [null] for all keys")
        if self.mask == "future" and any(self.windows):
            raise ValueError(
                f"windows {list(self.windows)} reach back from a query, but mask is future; give windows [null]"
            )
        if self.mlp == "none" and self.d_mlp is not None:
            raise ValueError(
                f"d_mlp {self.d_mlp} is the width of an MLP, but mlp is none; leave it out, or name an MLP"
            )
        if self.mlp == "none" and (self.ranks.up is not None or self.ranks.down is not None):
            raise ValueError("ranks.up and ranks.down belong to an MLP, but mlp is none; leave them out")
        if len(set(self.biases)) < len(self.biases):
            raise ValueError(f"biases {list(self.biases)}: it names one of them twice; keep one")
        if self.embedding_width > self.d_model:
            raise ValueError(
                f"d_embed {self.d_embed} is above d_model {self.d_model}; an embedding is at most as wide as the stream"
            )
        if self.lane == "switched" and self.embedding_width == self.d_model:
            raise ValueError("lane switched needs a lane; give a d_embed below d_model")
        if self.positions == "rotary" and (odd := [h.d_head for h in layout.layers if h.d_head % 2]):
            raise ValueError(
                f"rotary positions rotate pairs of entries, but d_head is {odd[0]}, which is odd; make it even"
            )
        matrices = sum(3 * width + 2 * (h.q_width + h.kv_width) for h, width in zip(layout.layers, mlps, strict=True))
        check_numbers(self.d_model * (matrices + self.n_positions), 0, "d_model, n_layers, n_heads, d_head or d_mlp")
        for layer, (heads, d_mlp) in enumerate(zip(layout.layers, mlps, strict=True)):
            self._check_ranks(layer, heads.q_width, heads.kv_width, d_mlp)
        self._check_emptied()
        self._check_ends()

    def _check_emptied(self) -> None:
        for layer in self.emptied:
            if not 0 <= layer < self.n_layers or self.layout.n_heads[layer] or self.emptied.count(layer) > 1:
                raise ValueError(
                    f"emptied {list(self.emptied)} does not fit n_heads {self.layout} at layer {layer}; list "
                    "each layer that lost its heads once, counted from 0"
                )

    def _check_ends(self) -> None:
        """Raise an error if what enters the model, or leaves it, does not fit its other choices."""
        for name in ("readout", "encoder"):
            if self.tied and getattr(self, name):
                raise ValueError(
                    f"{name} {getattr(self, name)} was given, but tied makes the token embedding the read-out; set "
                    "tied to false"
                )
        if self.encoder is not None and self.positions == "joint":
            raise ValueError(
                "positions joint needs tokens, but inputs of an encoder are numbers; give learned, or none"
            )
        if self.tied and self.positions == "joint":
            raise ValueError(
                "positions joint has several vectors for a token, so it cannot be the read-out; set tied to false"
            )
        if self.attention != SOFTMAX and self.mask == "future":
            raise ValueError(
                f"attention {self.attention} needs a key for each query, and with mask future the last query has "
                "none; give past, or softmax"
            )
        if self.class_token and self.mask == "future":
            raise ValueError("class_token follows the inputs, and with mask future it sees none of them; give past")

    def _check_ranks(self, layer: int, queries: int, keys: int, d_mlp: int) -> None:
        others: dict[Projection, int] = {"q": queries, "k": keys, "v": keys, "o": queries, "up": d_mlp, "down": d_mlp}
        for name, other in others.items():
            rank, full = self.rank(name, layer), min(self.d_model, other)
            if rank is not None and rank > full > 0:  # a layer without attention has no such matrix
                raise ValueError(
                    f"ranks.{name}: {rank} is above the width of layer {layer}'s matrix, "
                    f"{self.d_model} x {other}; give at most {full}, or null for the full matrix"
                )


class GptNeo(TransformerModel):
    """GPT-Neo: unscaled attention scores, a window of 256 keys in every second layer, gelu_new, no Q, K, V biases."""

    family: Literal["gpt-neo"]
    attention_scale: Scale = "none"
    windows: tuple[PositiveInt | None, ...] = (None, 256)
    biases: tuple[Bias, ...] = ("output", "mlp")


class Gpt2(TransformerModel):
    """GPT-2: attention scores divided by sqrt(d_head), biases everywhere, 1,024 positions."""

    family: Literal["gpt-2"]
    n_positions: Width = 1024
    biases: tuple[Bias, ...] = ("qkv", "output", "mlp")


class Llama(TransformerModel):
    """Llama: rotary positions, RMSNorm, SwiGLU, no biases."""

    family: Literal["llama"]
    positions: Positions = "rotary"
    norm: Norm = "rms"
    mlp: Mlp = "swiglu"
    tied: bool = False


LanguageModel = Annotated[GptNeo | Gpt2 | Llama, Field(discriminator="family")]

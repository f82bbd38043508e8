"""Model: the residual stream: how tokens enter it, what normalises it, which entries are read at its end.

The token embedding fills the first d_embed entries. The rest starts at zero (or at the positions' vectors) and is the
data lane: room that layers share and that neither embedding nor tied read-out speaks to directly.

Paper: data-lane post, December 2023.
"""

from jaxtyping import Float
from torch import Tensor, nn

from headway.declare.tokens.transformer import TransformerModel


def enter(
    embedded: Float[Tensor, "batch pos d_embed"], positions: Float[Tensor, "pos width"] | None, d_model: int
) -> Float[Tensor, "batch pos d_model"]:
    """The stream before the first layer; `positions` are as wide as the embedding or as the stream."""
    d_embed = embedded.shape[2]
    if positions is not None and positions.shape[1] == d_embed:
        return nn.functional.pad(embedded + positions, (0, d_model - d_embed))
    stream = nn.functional.pad(embedded, (0, d_model - d_embed))
    return stream if positions is None else stream + positions


def read_entries(
    stream: Float[Tensor, "batch pos d_model"], model: TransformerModel
) -> Float[Tensor, "batch pos d_embed"]:
    """The entries that the read-out takes: the embedding's, or the last d_embed where the lane is switched."""
    d_embed = model.embedding_width
    return stream[..., -d_embed:] if model.lane == "switched" else stream[..., :d_embed]


def lane_share(stream: Float[Tensor, "*tokens d_model"], d_embed: int) -> Float[Tensor, "*tokens"]:
    """The lane's share of the squared norm of each token's stream, 0 to 1: of the entries beyond the embedding's."""
    squares = stream.float().square()
    return squares[..., d_embed:].sum(-1) / squares.sum(-1)


def norm(model: TransformerModel) -> nn.Module:
    """A norm over the whole stream."""
    if model.norm == "layer":
        return nn.LayerNorm(model.d_model, eps=model.norm_eps)
    return nn.RMSNorm(model.d_model, eps=model.norm_eps) if model.norm == "rms" else nn.Identity()

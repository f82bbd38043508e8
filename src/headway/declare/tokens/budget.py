"""Declare: what a run of a transformer on tokens costs."""

import math

from headway.declare.tokens.parameters import PARTS, Parameter, parameters_of
from headway.declare.tokens.task import TokensTask
from headway.declare.tokens.training import TokensTraining
from headway.declare.tokens.transformer import TransformerModel

BLOCKS = ("Q/K/V", "output", "MLP")
"""Parts whose matrices every token is multiplied by, and which Muon trains."""


def parameters_by_part(model: TransformerModel, vocab_size: int) -> dict[str, int]:
    """How many numbers are trained, by part, without the parts that there are none of."""
    counts = dict.fromkeys(PARTS, 0)
    for parameter in parameters_of(model, vocab_size):
        counts[parameter.part] += math.prod(parameter.shape)
    return {part: count for part, count in counts.items() if count}


def forward_flops(model: TransformerModel, vocab_size: int, n_ctx: int) -> int:
    """Floating-point operations of a forward pass of one sequence of `n_ctx` tokens.

    Counted are the products of matrices: every token by every matrix of the blocks (both factors of one of low rank)
    by the read-out and by an encoder, and in each head a product of d_head for the logit, another for the context, of
    each key that a query sees: those before it and itself, within the window (or those after it). Norms, softmax,
    biases and the look-up of embeddings are left out; they are of lower order.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> forward_flops(GptNeo(family="gpt-neo", d_model=2, n_layers=1, n_heads=1, d_mlp=8), 10, n_ctx=3)
        456
    """
    matrices = sum(math.prod(p.shape) for p in parameters_of(model, vocab_size) if _in_block(p))
    attention = 0
    for layer, heads in enumerate(model.layout.layers):
        window = model.window(layer) or n_ctx
        own = 0 if model.attends == "future" else 1  # as many keys later as earlier, without the query's own
        attention += 2 * 2 * heads.n_heads * heads.d_head * _keys_seen(n_ctx, window, own)
    encoder = 0 if model.encoder is None else model.encoder * (vocab_size + model.embedding_width)
    return 2 * n_ctx * (matrices + encoder + (model.readout or vocab_size) * model.embedding_width) + attention


def _keys_seen(n_ctx: int, window: int, own: int) -> int:
    """Keys that all queries of a sequence see together: query i sees i + own, and at most a window of them.

    Examples:
        >>> _keys_seen(5, 3, 1) == 1 + 2 + 3 + 3 + 3
        True
    """
    growing = min(n_ctx, max(0, window - own))
    return growing * (growing - 1) // 2 + own * growing + (n_ctx - growing) * window


def training_bytes(task: TokensTask, model: TransformerModel, training: TokensTraining) -> int:
    """Weights, gradients and optimizer state, and what the backward pass needs of a part of a batch; an estimate."""
    part = training.batch_size // training.accumulate
    return _state_bytes(task, model, training) + part * _sequence_bytes(task, model, training)


def fitting_batch(
    task: TokensTask, model: TransformerModel, training: TokensTraining, bytes_available: int
) -> int | None:
    """The largest batch, in sequences, that would fit into so much memory by the estimate, in as many parts as now.

    None where not even one sequence a part would.
    """
    part = (bytes_available - _state_bytes(task, model, training)) // _sequence_bytes(task, model, training)
    return int(part) * training.accumulate if part > 0 else None


def _state_bytes(task: TokensTask, model: TransformerModel, training: TokensTraining) -> int:
    """fp32: a weight, its gradient, and the one moment of Muon or the two of AdamW."""
    muon = training.optimizer == "muon"
    parameters = parameters_of(model, task.vocab_size)
    return 4 * sum(math.prod(p.shape) * (3 if muon and _in_block(p) else 4) for p in parameters)


def _sequence_bytes(task: TokensTask, model: TransformerModel, training: TokensTraining) -> int:
    """What one sequence keeps for the backward pass.

    Per token and layer: the stream before and after each norm; queries, keys, values and contexts, with one
    logsumexp a head (no map of scores: attention is fused); the MLP's products before and after its activation; and
    what lies between two factors. Then the logits and their gradient. Compiled code keeps about as much; uncompiled
    code keeps the steps of the activation and of the loss too, up to two thirds more.
    """
    small = 2 if training.precision == "bf16" else 4
    total = 0
    for layer, (heads, d_mlp) in enumerate(zip(model.layout.layers, model.mlp_widths, strict=True)):
        q, kv = heads.n_heads * heads.d_head, heads.n_kv_heads * heads.d_head
        # The stream, and the logsumexp, stay fp32 whatever the products are in.
        total += 4 * (model.d_model * ((q > 0) + (d_mlp > 0)) + heads.n_heads)
        total += small * model.d_model * ((q > 0) + (d_mlp > 0))
        total += small * (2 * q + 2 * kv + (3 if model.mlp == "swiglu" else 2) * d_mlp)
        ranks = (model.rank(name, layer) or 0 for name in ("q", "k", "v", "o", "up", "down"))
        total += small * sum(ranks)
    total += 4 * (model.d_model + (model.encoder or 0)) + 2 * small * (model.readout or task.vocab_size)
    return task.n_ctx * total


def _in_block(parameter: Parameter) -> bool:
    return parameter.part in BLOCKS and len(parameter.shape) == 2

"""A decoder-only transformer with ragged heads; one class serves every arm of every experiment.

`TransformerModel` declares its parts; its parameters have the names and shapes of `headway.config.lm.budget`. There
is one code path: recording, gates and a cache do not choose another one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.base.torch_setup import uncompiled
from headway.config.lm.budget import parameters_of
from headway.config.lm.model import TransformerModel
from headway.errors import UserError
from headway.models import layers
from headway.models.attention import Attention, KVCache, NoHeads, rotary_table, sinusoids
from headway.models.trace import AttentionTrace, Edits, Trace
from headway.models.weights import Weights, check_weights

Gates = Sequence[Tensor]
"""Per layer a tensor that broadcasts to (batch, head) and multiplies the heads' contexts.

Law: gate 0 is the model without that head; all ones are no gates.
"""


class Transformer(nn.Module):
    """A model of text; its parameters are NaN until weights are given or `put`, or share the memory of other tensors.

    Laws: recording, gates of 1 and edits that change nothing change no bit (eager); the heads' contributions sum to an
    attention's output minus its bias; no logit depends on a later token (an earlier one where it attends to the
    future), nor on one outside the windows; the order of the heads of a layer changes nothing;
    a uniform GPT-Neo has Hugging Face's logits.

    Raises:
        UserError: when the weights are not those of the model.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> from headway.models.weights import initial_weights
        >>> model = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2")
        >>> module = Transformer(model, 10, initial_weights(model, 10, seed=0))
        >>> module(torch.tensor([[1, 2, 3]]))[0].shape
        torch.Size([1, 3, 10])
    """

    def __init__(
        self,
        model: TransformerModel,
        vocab_size: int,
        weights: Weights | None = None,
        *,
        shared: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.vocab_size = model, vocab_size
        width = model.d_model if model.positions_in_lane else model.embedding_width
        with torch.device("meta"), uncompiled():  # nothing is drawn from torch's generator
            if model.encoder is None:
                # With joint positions there is a row for each token and position, one position after the other.
                rows = vocab_size * model.n_positions if model.positions == "joint" else vocab_size
                self.embedding = nn.Embedding(rows, model.embedding_width)
            else:
                self.encoder = layers.InputEncoder(vocab_size, model.encoder, model.embedding_width)
            if model.class_token:
                self.class_token = nn.Parameter(torch.empty(model.embedding_width))
            if model.positions == "learned":
                self.positions = nn.Embedding(model.n_positions, width)
            self.layers = nn.ModuleList(_Layer(model, layer) for layer in range(model.n_layers))
            self.norm = layers.norm(model) if model.norm_place == "before" else nn.Identity()
            if not model.tied:
                self.readout = nn.Linear(model.embedding_width, model.readout or vocab_size, bias=False)
        if shared is not None:
            self.load_state_dict(shared, assign=True)
        else:
            self.to_empty(device="cpu")
        self._add_tables(width)
        if weights is not None:
            self.put(weights)
        elif shared is None:
            for parameter in self.parameters():
                nn.init.constant_(parameter, torch.nan)

    def _add_tables(self, width: int) -> None:
        """Add the tables of positions that are no weights."""
        model = self.model
        if model.positions == "sinusoidal":
            self.register_buffer("sinusoids", sinusoids(model.n_positions, width), persistent=False)
        if model.positions == "rotary":
            for d_head in {heads.d_head for heads in model.layout.layers if heads.n_heads}:
                table = rotary_table(model.n_positions, d_head, model.rotary_base)
                self.register_buffer(f"rotary_{d_head}", table, persistent=False)

    @property
    def n_heads(self) -> tuple[int, ...]:
        """Query heads of each layer."""
        return self.model.layout.n_heads

    @property
    def dropout(self) -> float:
        """The share of entries that dropout zeroes in training mode."""
        return self.model.dropout

    def put(self, weights: Weights) -> None:
        """Take these weights, copied.

        Raises:
            UserError: naming every array that is missing, unexpected or of another shape.
        """
        check_weights(weights, self.model, self.vocab_size)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(torch.tensor(weights[name]))

    def weights(self) -> Weights:
        """Return a float32 copy of the parameters, in the order of `parameters_of`."""
        held = dict(self.named_parameters())
        names = (parameter.name for parameter in parameters_of(self.model, self.vocab_size))
        return {name: np.array(held[name].detach().float().cpu().numpy()) for name in names}

    def forward(
        self,
        tokens: layers.Inputs,
        gates: Gates | None = None,
        record: bool = False,
        cache: KVCache | None = None,
        edits: Edits | None = None,
    ) -> tuple[Float[Tensor, "batch place vocab"], Trace | None]:
        """Return the logits of the token after each position, and the trace when recording.

        Args:
            tokens: the text, or with a cache what comes after the text in it; with an encoder inputs of numbers.
            gates: the factors of the heads' contexts, by layer; they broadcast to (batch, head).
            record: True to return the activations of every head.
            cache: keys and values of the positions before; these are added to it.
            edits: the replacements for q, k, v and z of the heads; z after the gates.

        Raises:
            UserError: if the text is longer than `n_positions`; if gates are for other layers, or a layer with edits
                has no heads; if a model that attends to the future has a cache.
        """
        stream, trace = self.hidden(tokens, gates, record, cache, edits)
        return self.read_out(stream), trace

    def hidden(
        self,
        tokens: layers.Inputs,
        gates: Gates | None = None,
        record: bool = False,
        cache: KVCache | None = None,
        edits: Edits | None = None,
        last: int | None = None,
    ) -> tuple[Float[Tensor, "batch place d_model"], Trace | None]:
        """Return the stream after the last layer, before the final norm; arguments as in `forward`.

        Args:
            tokens: the text, as in `forward`.
            gates: the factors of the heads' contexts, as in `forward`.
            record: True to return the activations of every head, as in `forward`.
            cache: the keys and values of the positions before, as in `forward`.
            edits: the replacements for q, k, v and z, as in `forward`.
            last: the number of last positions whose stream is returned; None: all.
        """
        layers.check_inputs(tokens, None if self.model.encoder is None else self.vocab_size)
        past, n_new = (cache.length if cache is not None else 0), tokens.shape[1] + self.model.class_token
        self._check(past + n_new, gates, edits)
        if cache is not None:
            check_can_write(self.model)
        here = slice(past, past + n_new)
        stream = self._entered(tokens, here)
        streams, attentions = [stream], []
        for i in range(self.model.n_layers):
            layer, rotary = self._layer(i), self._rotary(i, here)
            wanted = last if i == self.model.n_layers - 1 else None
            gate = None if gates is None else gates[i]
            written, attention = layer.written(
                stream, rotary, wanted, gate=gate, cache=cache, record=record, edits=edits
            )
            stream = layer.rest(stream if wanted is None else stream[:, -wanted:], written)
            streams.append(stream)
            attentions += [] if attention is None else [attention]
        if cache is not None:
            cache.advance(n_new)
        return stream, Trace(attentions=tuple(attentions), streams=tuple(streams)) if record else None

    def entered(self, tokens: layers.Inputs) -> Float[Tensor, "batch place d_model"]:
        """Return the stream before layer 0.

        Raises:
            UserError: if the text is longer than `n_positions`.
        """
        n_new = tokens.shape[1] + self.model.class_token
        self._check(n_new, None, None)
        return self._entered(tokens, slice(0, n_new))

    def written(self, stream: layers.Stream, layer: int, edits: Edits | None = None) -> layers.Stream | None:
        """Return what the attention of a layer adds to the given stream; None for a layer without attention."""
        return self._layer(layer).written(stream, self._rotary(layer, slice(0, stream.shape[1])), edits=edits)[0]

    def rest(self, stream: Tensor, written: Tensor | None, layer: int) -> layers.Stream:
        """Return the stream after a layer, from the stream before it and the output of its attention.

        Law: `rest(stream, written(stream, layer), layer)`, layer by layer from `entered`, is `hidden`.
        """
        return self._layer(layer).rest(stream, written)

    def _layer(self, layer: int) -> "_Layer":
        return cast(_Layer, self.layers[layer])

    def _entered(self, tokens: Tensor, here: slice) -> Tensor:
        if self.model.encoder is None:
            if self.model.positions == "joint":
                places = torch.arange(here.start, here.start + tokens.shape[1], device=tokens.device)
                tokens = tokens + self.vocab_size * places
            embedded = self.embedding(tokens)
        else:
            embedded = self.encoder(tokens)
        if self.model.class_token:
            embedded = torch.cat((embedded, self.class_token.expand(len(embedded), 1, -1)), dim=1)
        if self.model.embedding_scale == "d_model":
            embedded = embedded * self.model.d_model**0.5
        stream = layers.enter(embedded, self._positions(here), self.model.d_model)
        return nn.functional.dropout(stream, self.model.dropout, self.training)

    def read_out(self, stream: layers.Stream) -> Float[Tensor, "batch pos vocab"]:
        """Return logits from the stream after the last layer."""
        entries = layers.read_entries(self.norm(stream), self.model)
        return nn.functional.linear(entries, self.embedding.weight if self.model.tied else self.readout.weight)

    def loss(self, inputs: layers.Inputs, targets: layers.Targets, last: int | None = None) -> Float[Tensor, ""]:
        """Return the mean loss of the asked answers, from float32 logits; this is the function to compile.

        If only the `last` positions are asked, the last layer computes no others.
        """
        stream, _ = self.hidden(inputs, last=last)
        return mean_loss(self.read_out(stream), targets if last is None else targets[:, -last:])

    def trace(self, tokens: layers.Inputs, rows: Bool[Tensor, "batch place"] | None = None) -> Trace:
        """Return what every head does with a text, by a recorded pass without the read-out.

        Dropout follows the module's mode.

        Args:
            tokens: the text; `headway.open_model(path).trace` takes a sentence or lists of tokens, too.
            rows: True for positions that count; padding, which comes after a text, does not. None: all.

        Raises:
            UserError: if the input is no tensor of tokens, or the text is longer than `n_positions`.
        """
        _, trace = self.hidden(tokens, record=True)
        assert trace is not None
        return trace.with_rows(rows)

    def lane_shares(self, tokens: layers.Inputs) -> Float[Tensor, "stream batch place"]:
        """Return the lane's share of each token's squared norm, before each layer and before the final norm."""
        streams = self.trace(tokens).streams
        return torch.stack([layers.lane_share(stream, self.model.embedding_width) for stream in streams])

    def _positions(self, here: slice) -> Tensor | None:
        if self.model.positions == "learned":
            return self.positions.weight[here]
        return self.sinusoids[here] if self.model.positions == "sinusoidal" else None  # type: ignore[index]

    def _rotary(self, layer: int, here: slice) -> Tensor | None:
        heads = self.model.layout.layers[layer]
        if self.model.positions != "rotary" or not heads.n_heads:
            return None
        return getattr(self, f"rotary_{heads.d_head}")[:, here]

    def _check(self, length: int, gates: Gates | None, edits: Edits | None) -> None:
        if length > self.model.n_positions:
            raise UserError(
                f"a text of {length} tokens was given, but the model's longest is {self.model.n_positions} "
                "(n_positions); give a shorter one, or a model with more positions"
            )
        if gates is not None and len(gates) != self.model.n_layers:
            raise UserError(
                f"gates for {len(gates)} layers were given, but the model has {self.model.n_layers}; give one tensor "
                "for each, of any size for a layer without heads"
            )
        n_heads = self.model.layout.n_heads
        if nowhere := [at for at in edits or () if not 0 <= at[0] < len(n_heads) or not n_heads[at[0]]]:
            layer, site = nowhere[0]
            raise UserError(
                f"edit of {site} in layer {layer}: this layer has no heads (layout {self.model.layout}); give the "
                "number of a layer with heads, counted from 0"
            )


def computes_exactly(module: nn.Module) -> bool:
    """Return whether a module's weights are in float32 or better, and can have gradients."""
    held = [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()]
    return not any(tensor.dtype not in (torch.float32, torch.float64) or tensor.is_inference() for tensor in held)


def asked(targets: layers.Targets) -> Bool[Tensor, "batch place"]:
    """Return where an answer is asked for: targets that are not -1, or numbers that are not NaN."""
    return ~targets.isnan().any(2) if targets.is_floating_point() else targets >= 0


def mean_loss(answers: Float[Tensor, "batch place answers"], targets: layers.Targets) -> Float[Tensor, ""]:
    """Return the training loss: `mean_nll` of classes, or the mean squared error of numbers."""
    if not targets.is_floating_point():
        return mean_nll(answers, targets)
    counted = asked(targets)[..., None].expand_as(targets)
    # A mask, since torch would have to look up the size of an index: unasked answers count as no error.
    errors = torch.where(counted, answers.float() - torch.where(counted, targets, 0.0), 0.0)
    return errors.square().sum() / counted.sum()


def mean_nll(logits: Float[Tensor, "batch pos vocab"], targets: Int[Tensor, "batch pos"]) -> Float[Tensor, ""]:
    """Return the mean cross-entropy in nats over the targets that are not -1, in float32."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=-1)


def check_can_write(model: TransformerModel) -> None:
    """Raise UserError if a model cannot write a text token by token.

    Raises:
        UserError: when it attends to the future, or its answers are no tokens.
    """
    if model.readout is not None or model.encoder is not None or model.class_token:
        raise UserError(
            "this model does not read and write tokens (model.readout, encoder or class_token), so it cannot generate "
            "text; use a model without them"
        )
    if model.mask == "future":
        raise UserError(
            "this model attends to the future (model.mask), so it cannot generate text; use a model that attends to "
            "the past"
        )


class _Layer(nn.Module):
    """Attention, then MLP; either may be missing."""

    def __init__(self, model: TransformerModel, layer: int) -> None:
        super().__init__()
        self.before, self.dropout = model.norm_place == "before", model.dropout
        self.residual = model.residual
        self.attention = self.emptied = self.mlp = None
        if model.layout.layers[layer].n_heads:
            self.attention_norm, self.attention = layers.norm(model), Attention(model, layer)
        elif layer in model.emptied:
            # A norm before the attention would have no reader.
            self.attention_norm, self.emptied = nn.Identity() if self.before else layers.norm(model), NoHeads(model)
        if model.mlp_widths[layer]:
            self.mlp_norm, self.mlp = layers.norm(model), layers.Mlp(model, layer)

    def written(
        self, stream: Tensor, rotary: Tensor | None, last: int | None = None, **options: Any
    ) -> tuple[Tensor | None, AttentionTrace | None]:
        """Return what attention adds, at all or only at the last positions; None for a layer without attention.

        The options are those of `Attention.forward`.
        """
        if self.attention is None:
            return (None if self.emptied is None else self.emptied(stream if last is None else stream[:, -last:])), None
        seen = self.attention_norm(stream) if self.before else stream
        return self.attention(seen, rotary, last=last, **options)

    def rest(self, stream: Tensor, written: Tensor | None) -> Tensor:
        """Return the stream after the layer, from the output of attention."""
        if written is not None:
            stream = self._add(stream, written, self.attention_norm)
        if self.mlp is not None:
            written = self.mlp(self.mlp_norm(stream) if self.before else stream)
            stream = self._add(stream, written, self.mlp_norm)
        return stream

    def _add(self, stream: Tensor, written: Tensor, normed: nn.Module) -> Tensor:
        written = nn.functional.dropout(written, self.dropout, self.training)
        total = stream + written if self.residual else written
        return total if self.before else normed(total)

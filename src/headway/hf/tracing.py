"""Models: what every head of a model of Hugging Face does with a text, in the one `Trace` of all models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from headway.errors import UserError
from headway.hf.convert import CONVERTED, converted
from headway.hf.interface import attentions
from headway.hf.recording import Recorded, recording
from headway.model.trace import Trace


def trace(model: PreTrainedModel, inputs: Mapping[str, Any] | Int[Tensor, "batch pos"]) -> Trace:
    """What every head does with a text: a recorded pass without the read-out, dropout as the model's mode has it.

    The `rows` that count come from the inputs' `attention_mask`; those of a decoder that reads an encoder from their
    `decoder_attention_mask`. Names and layers of attentions as in `recording`. A decoder that is given nothing reads
    the encoder's tokens, each one later, as in training.

    Args:
        model: of any architecture, device and precision. A GPT-Neo, whose attention transformers does not open, and a
            model that Headway exported are read into Headway's own each time: for many texts `headway.hf.load` one.
        inputs: what the model is called with, or tokens alone.

    Raises:
        UserError: before anything runs, for a model that cannot be traced, what are no tokens, and tokens outside its
            vocabulary; in the pass, for heads that do what a trace cannot say.
    """
    traceable(model)
    given = dict(inputs) if isinstance(inputs, Mapping) else {"input_ids": inputs}
    check_tokens(model, given)
    if model.config.model_type in CONVERTED:
        return _trace_converted(model, given)
    return recorded_pass(model, given)[0]


def recorded_pass(model: PreTrainedModel, given: dict[str, Any]) -> tuple[Trace, Recorded]:
    """A pass without the read-out, and how each attention of it can be computed again."""
    if model.config.is_encoder_decoder:
        given = _with_something_to_decode(model, given)
    with recording(model) as recorded:
        # Of labels it is the whole model that makes a decoder's inputs.
        (model if "labels" in given else model.base_model)(**given)
    decoded = "decoder_attention_mask" if model.config.is_encoder_decoder else "attention_mask"
    masks = {
        kind: given.get(decoded if kind != "encoder" else "attention_mask") for kind in ("self", "encoder", "cross")
    }
    attentions = tuple(replace(each, rows=_rows(masks[each.kind], each.q)) for each in recorded.attentions)
    return Trace(attentions=attentions), recorded


def traceable(model: PreTrainedModel) -> None:
    """Nothing, where `trace` can begin; nothing is run.

    Raises:
        UserError: saying why the model cannot be traced.
    """
    kind = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UserError(
            f"a model of transformers was expected, but a {kind} was given; of Headway's own models take "
            "model.trace(tokens), of a wrapped one the model inside"
        )
    if getattr(model, "is_quantized", False):
        raise UserError(f"{kind} cannot be traced: its weights are quantized; load it without quantization")
    if model.config.model_type in CONVERTED:
        return
    found = attentions(model)
    if any(hasattr(module, "sinks") for module in found):
        raise UserError(f"{kind} cannot be traced: its heads have sinks, a share of their weights that no key gets")
    if found:
        return
    closed = sorted({type(module).__name__ for module in model.modules() if "Attention" in type(module).__name__})
    if closed:
        raise UserError(
            f"{kind} cannot be traced: its attention ({', '.join(closed)}) does not go through transformers' "
            "AttentionInterface; take an architecture whose attention does"
        )
    raise UserError(f"{kind} cannot be traced: it has no attention; its layers are of another kind (state-space, say)")


def check_tokens(model: PreTrainedModel, given: Mapping[str, Any]) -> None:
    """Nothing, where tokens are what the model can read.

    Raises:
        UserError: for what are no tokens, and tokens outside its vocabulary.
    """
    for name in ("input_ids", "decoder_input_ids"):
        if (tokens := given.get(name)) is None:
            continue
        whole = isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dtype != torch.bool
        if not whole or tokens.ndim != 2 or not tokens.numel():
            was = f"{tokens.dtype} of shape {tuple(tokens.shape)}" if isinstance(tokens, Tensor) else repr(tokens)[:60]
            raise UserError(
                f"{name}: a tensor of whole numbers, (sequence, position), was expected, with at least one of each; "
                f"it is {was}. A tokenizer gives one with return_tensors='pt'"
            )
        reader = model.get_decoder() if name.startswith("decoder") else model
        n_tokens = getattr(reader.get_input_embeddings(), "num_embeddings", None)
        if n_tokens is None:
            raise UserError(
                f"{name}: {type(model).__name__} reads no tokens; give what it is called with, as a mapping"
            )
        outside = tokens[(tokens < 0) | (tokens >= n_tokens)]
        if len(outside):
            raise UserError(
                f"{name}: token {int(outside[0])} is outside the vocabulary of {type(model).__name__}, which has "
                f"tokens 0 to {n_tokens - 1}; use the model's own tokenizer"
            )


def _with_something_to_decode(model: PreTrainedModel, given: dict[str, Any]) -> dict[str, Any]:
    if "input_ids" not in given or any(
        name in given for name in ("decoder_input_ids", "decoder_inputs_embeds", "labels")
    ):
        return given
    config = model.config
    starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    start = next((token for token in starts if token is not None), 0)
    later = {"input_ids": start, "attention_mask": 1}
    return given | {
        f"decoder_{name}": functional.pad(given[name][:, :-1], (1, 0), value=first)
        for name, first in later.items()
        if given.get(name) is not None
    }


def _rows(mask: Tensor | None, q: Tensor) -> Bool[Tensor, "batch query"] | None:
    """The queries that are no padding, if the mask is one of these queries."""
    return mask.bool() if mask is not None and mask.shape == (q.shape[0], q.shape[2]) else None


def _trace_converted(model: PreTrainedModel, given: dict[str, Any]) -> Trace:
    kind = type(model).__name__
    if other := set(given) - {"input_ids", "attention_mask"}:
        raise UserError(
            f"{kind} is traced as Headway's own model, which takes input_ids and attention_mask; leave out "
            f"{', '.join(sorted(other))}"
        )
    mask = given.get("attention_mask")
    rows = None if mask is None else mask.bool()
    if rows is not None and (rows[:, 1:] & ~rows[:, :-1]).any():
        raise UserError(f"{kind} is traced as Headway's own model, which takes padding after a text; pad on the right")
    return converted(model).trace(given["input_ids"], rows)

"""Heads: what QK and OV circuits say in tokens: which token a head matches, and which it then makes likelier.

The circuits of `circuits` are taken between token embeddings, normed as the first layer would, and the read-out. That
is what a layer 0 sees, and of later layers what comes to them straight from the tokens. Only relations within a circuit
mean something, since later norms scale all of it; so entries are taken less their mean over what a softmax compares,
and in standard deviations of the whole circuit.
"""

from collections.abc import Sequence
from math import log
from typing import TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.circuits import NO_TOKENS, HeadCircuits, answers_in_tokens, circuits, read_out_rows, written_rows
from headway.heads.view import Circuits, Head, TokenCircuits
from headway.model.transformer import Transformer

TOP = 6


def in_tokens(model: Transformer | None) -> TypeGuard[Transformer]:
    """Whether circuits can be read in tokens: of a model of Headway's own that answers in those that it reads."""
    return model is not None and answers_in_tokens(model)


def no_circuits(model: Transformer | None) -> str:
    """Why they cannot; empty where they can."""
    if model is None:
        return "Circuits are read off Headway's own models, and this is another."
    return "" if answers_in_tokens(model) else f"Circuits are not read in tokens: {NO_TOKENS}."


def token_circuits(model: Transformer, tokens: Sequence[int]) -> Circuits:
    """The circuits of every head, between some tokens.

    Args:
        model: one of ours.
        tokens: two at least, each once: between these.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    chosen = torch.as_tensor(list(tokens))
    embedded, read = written_rows(model, chosen).float(), read_out_rows(model, chosen).float()
    found: dict[Head, TokenCircuits] = {}
    for here in circuits(model):
        for head in range(len(here.ov.left)):
            found[here.name, head] = _of_head(here, head, embedded, read, tokens)
    return Circuits(
        n_tokens=len(tokens),
        all=len(tokens) == model.vocab_size,
        by_chance=(2 * log(len(tokens) ** 2)) ** 0.5,
        of=found,
    )


def _of_head(here: HeadCircuits, head: int, embedded: Tensor, read: Tensor, tokens: Sequence[int]) -> TokenCircuits:
    moved = _standard(embedded @ here.ov.left[head].float() @ (here.ov.right[head].float() @ read.T))
    matched = _standard(embedded @ here.qk.left[head].float() @ (here.qk.right[head].float() @ embedded.T))
    own = moved.diagonal()
    few = min(TOP, len(tokens))
    up, down = own.topk(few), (-own).topk(few)
    others = moved - torch.diag(torch.full_like(own, torch.inf))
    return TokenCircuits(
        copies=tuple(
            (tokens[at], value) for value, at in zip(up.values.tolist(), up.indices.tolist(), strict=True) if value > 0
        ),
        suppresses=tuple(
            (tokens[at], -value)
            for value, at in zip(down.values.tolist(), down.indices.tolist(), strict=True)
            if value > 0
        ),
        raises=_highest(others, tokens),
        matches=_highest(matched, tokens),
    )


def _standard(circuit: Float[Tensor, "one other"]) -> Float[Tensor, "one other"]:
    centred = circuit - circuit.mean(1, keepdim=True)
    spread = centred.square().mean().sqrt()
    return centred / spread if spread > 0 else torch.zeros_like(centred)


def _highest(circuit: Float[Tensor, "one other"], tokens: Sequence[int]) -> tuple[tuple[int, int, float], ...]:
    best = circuit.flatten().topk(min(TOP, circuit.numel()))
    return tuple(
        (tokens[at // len(tokens)], tokens[at % len(tokens)], value)
        for value, at in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if value > 0
    )

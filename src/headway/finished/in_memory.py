"""Finished: a model in memory, opened: Headway's own, one of transformers, or any that says what its heads do."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from headway.errors import UserError
from headway.finished.measurable import evaluating
from headway.finished.opened import Opened
from headway.finished.opening import of_transformers, open_module

if TYPE_CHECKING:
    import numpy as np
    import torch

    from headway.model.redraw import Redrawable

_BRING = (
    "a module that is brought has a method trace(tokens), which gives a headway.Trace of what each attention did, as "
    "headway.plain_attention makes it of an attention's matrices"
)


def open_in_memory(model: Any, tokenizer: str | None, tokens: "np.ndarray | None") -> Opened:
    """A model as it is: nothing of it is changed, moved or copied.

    Args:
        model: a module of torch, or what is open already.
        tokenizer: for a model of Headway's own that is given a text: a folder, `bytes` or `gpt2`.
        tokens: what it will read, where that is known.

    Raises:
        UserError: for what says nothing of its heads.
    """
    from torch import nn

    from headway.model.transformer import Transformer

    if isinstance(model, Opened):
        return model
    if isinstance(model, Transformer):
        return open_module(model, tokenizer, type(model).__name__)
    if not isinstance(model, nn.Module):
        raise UserError(f"a model was expected, or the path of one, but a {type(model).__name__} was given")
    if _of_transformers(model):
        from headway.hf.pretrained import in_memory

        return of_transformers(in_memory(model), type(model).__name__, type(model).__name__)
    return _brought(model, tokens)


def _of_transformers(model: "torch.nn.Module") -> bool:
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return False
    return isinstance(model, PreTrainedModel)


def _brought(model: Any, tokens: "np.ndarray | None") -> Opened:
    import torch

    from headway.model.plain import redrawable
    from headway.model.trace import Trace

    name = type(model).__name__
    if not callable(getattr(model, "trace", None)):
        raise UserError(f"{name} does not say what its heads do: {_BRING}")
    if tokens is None:
        raise UserError(f"{name} reads tokens alone, and a text was given: give tokens=, whole numbers (sequence, pos)")
    if next(model.parameters(), None) is None:
        raise UserError(f"{name} has no parameters, so it is on no device; register its weights as parameters")

    def traced(given: torch.Tensor) -> Trace:
        found = model.trace(given)
        if not isinstance(found, Trace) or not found.attentions:
            raise UserError(f"{name}.trace gave {type(found).__name__} without attentions: {_BRING}")
        if any(len(attention.z) != len(given) for attention in found.attentions):
            raise UserError(f"{name}.trace gave other than the {len(given)} sequences that it was given: {_BRING}")
        return found

    def read(given: torch.Tensor) -> "Redrawable":
        return redrawable(traced(given))

    tables = [module.num_embeddings for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    opened = Opened(
        name=name,
        facts={"architecture": name},
        module=model,
        ours=None,
        traced=traced,
        read=read,
        kind="causal",
        tokenizer=None,
        vocab_size=max(tables, default=int(tokens.max()) + 1),
        n_ctx=tokens.shape[1],
        longest=None,
        brought=True,
    )
    with torch.inference_mode(), evaluating(model):
        kinds = {attention.kind for attention in opened.trace(tokens[:1]).attentions}
    kind: Literal["causal", "bidirectional"] = "causal" if kinds == {"self"} else "bidirectional"
    return replace(opened, kind=kind, facts={**opened.facts, "kind": kind})

"""The one way to open a model, for any analysis: `open_model` is `headway.open_model`.

A model is given as a path (of a run, its checkpoint, or a folder of Hugging Face) or in memory: one of Headway's own,
one of transformers, a module that tells what its heads do, or a model that is open already.
"""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from headway.analysis.evaluation import evaluating, plain_torch
from headway.analysis.model import (
    ModelFolder,
    Opened,
    model_folder,
    not_maskable,
    not_ours,
    not_prunable,
    whole_numbers,
)
from headway.base.files import inside
from headway.data.tokenizer import NoEndOfText, NoEosTokenizer, Tokenizer, open_tokenizer
from headway.errors import UserError, explained, near

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds
    from headway.hf.open import Pretrained
    from headway.models.transformer import Transformer
    from headway.store.run import Run

Purpose = Literal["trace", "intervene", "prune", "write"]
_NOT_OWN = {"prune": not_prunable, "write": not_ours}
"""Why a model that is not Headway's own cannot be used in these ways, in words."""

_IDS = "ids"
"""The tokenizer of texts that hold the numbers of tokens."""
_SPARE, _SPARE_SHARE = 1_024, 0.05
"""The most rows of a vocabulary that may be spare, and their share: with more, it belongs to another tokenizer.

People pad a vocabulary to a multiple of 8, 64 or more. No text has a token of a spare row, so it changes nothing.
"""


def open_model(
    path: "str | Path | torch.nn.Module | Opened",
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    *,
    for_: Purpose | None = None,
    tokens: "TokenIds | None" = None,
    device: str | None = None,
    trust_code: bool = False,
) -> Opened:
    """Open a finished model, with its tokenizer if it has one.

    Args:
        path: the path of a run's folder, of its checkpoint, or of any local folder of Hugging Face. Or a model in
            memory: Headway's own, one of transformers, or a module whose `trace(tokens)` returns what its heads do. A
            model in memory is neither moved nor changed.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers; or `ids`: a text
            holds the numbers of tokens.
        for_: the use for which the model is checked: `trace` (it has heads), `intervene` (its heads can be masked and
            patched), `prune` or `write` (it is one of Headway's own). None: whatever it can.
        tokens: the tokens that a user's own module will read, whole numbers (sequence, pos).
        device: the device of a model that is read from a path: `auto` (a GPU where torch sees one), `cpu`, `cuda` or
            `cuda:N`. None: the processor.
        trust_code: True to run code that comes with a folder, if the folder needs it.

    Raises:
        UserError: if the path holds no language model, the run is not done, or the folder cannot be opened; if weights
            are NaN, infinite or no floating-point numbers; if the tokenizer has another vocabulary; if the kind of
            model does not fit the use.

    Examples:
        >>> import headway
        >>> headway.open_model("no where")
        Traceback (most recent call last):
        headway.errors.UserError: no where: there is no such folder; give a run's folder (DIR/runs/ARM/seed-N), its checkpoint, or a folder of Hugging Face with a config.json
    """  # noqa: E501 - the doctest's error stands on one line
    from headway.train.device import find_device, settle_elementary_functions

    if for_ is not None and for_ not in get_args(Purpose):
        raise UserError(f"for_ {for_!r} is unknown; {near(str(for_), get_args(Purpose))}")
    settle_elementary_functions()
    target = None if device is None else find_device(device)
    with plain_torch():
        if isinstance(path, str | Path):
            opened = _from_path(path, tokenizer, for_, trust_code=trust_code)
        else:
            opened = _in_memory(path, tokenizer, for_, tokens)
        opened.check_finite("so it cannot generate text" if for_ == "write" else "so its heads cannot be measured")
        if for_ in ("trace", "intervene", "prune"):
            _check_heads(opened)
        if target is not None and isinstance(path, str | Path):
            opened.module.to(target)
        if for_ == "intervene":
            _ = opened.decoder  # or it raises
    if for_ in _NOT_OWN and opened.ours is None:
        raise UserError(_NOT_OWN[for_](opened.name, opened.facts["architecture"]))
    return opened


def _check_heads(opened: Opened) -> None:
    """Raise UserError if a model has no heads to trace.

    Raises:
        UserError: saying why.
    """
    if opened.ours is not None:
        if not opened.ours.model.layout.total:
            raise UserError(f"{opened.name} has no attention heads: there is nothing to measure")
    elif not opened.brought:  # a module that was brought has a trace, or it would not be open
        from headway.hf.recorder import traceable

        traceable(opened.module)


def _from_path(
    path: str | Path, tokenizer: "str | PreTrainedTokenizerBase | None", for_: Purpose | None, *, trust_code: bool
) -> Opened:
    from headway import hf
    from headway.hf.read import architecture_of, check_own, load

    folder = model_folder(path)
    if folder.kind == "other":
        if for_ == "write":
            check_own(folder.path)
        if for_ in _NOT_OWN:
            raise UserError(_NOT_OWN[for_](folder.name, architecture_of(folder.path)))
        # By the package, which says what to install if transformers is absent.
        pretrained = hf.open_pretrained(folder.path, trust_code=trust_code)
        return _with_tokenizer(_of_transformers(pretrained, folder.name, str(folder.path)), tokenizer, folder.path)
    opened = _of_run(folder) if folder.kind == "run" else _of_own(load(folder.path), folder.name)
    if tokenizer is None:
        opened = replace(opened, tokenizer=_of_folder(folder.path, writes=for_ == "write"))
    return _with_tokenizer(opened, tokenizer, folder.path)


def _of_folder(folder: Path, *, writes: bool) -> Tokenizer | NoEosTokenizer | None:
    """Return the tokenizer of a folder; who writes needs one that can end a text.

    Raises:
        UserError: when it cannot be read.
    """
    from headway.hf.read import tokenizer

    try:
        return tokenizer(folder)
    except NoEndOfText:
        if writes or not (folder / "tokenizer.json").is_file():
            raise
        return NoEosTokenizer.load(folder)


def _of_own(model: "Transformer", name: str) -> Opened:
    from headway.models import redraw

    declared = model.model
    return Opened(
        name=name,
        facts={
            "architecture": declared.model_dump()["family"],
            "heads": str(declared.layout),
            "d_model": declared.d_model,
        },
        module=model,
        ours=model,
        traced=model.trace,
        read=partial(redraw.read, model),
        kind="causal" if declared.mask == "past" else "future",
        vocab_size=model.vocab_size,
        n_ctx=declared.n_positions,
        longest=declared.n_positions,
    )


def _of_transformers(pretrained: "Pretrained", name: str, whose: str) -> Opened:
    """Return a model of transformers, opened.

    Args:
        pretrained: the model.
        name: the name of the model in sentences.
        whose: the name of the model in errors about reading.
    """
    from headway.hf import recorder, redraw

    cannot_read = explained(f"{whose}: its model cannot read a text", "fetch the folder again")
    return Opened(
        name=name,
        facts={"architecture": type(pretrained.model).__name__, "kind": pretrained.kind},
        module=pretrained.model,
        traced=cannot_read(partial(recorder.trace, pretrained.model)),
        read=cannot_read(partial(redraw.read, pretrained.model)),
        kind=pretrained.kind,
        tokenizer=pretrained.tokenizer,
        vocab_size=pretrained.vocab_size,
        n_ctx=pretrained.n_ctx,
        longest=pretrained.n_ctx,
    )


def _with_tokenizer(opened: Opened, tokenizer: Any, whose: str | Path) -> Opened:
    """Return a model with the tokenizer that is asked for, or else its own, when it has the vocabulary of the model."""
    if tokenizer == _IDS:
        return replace(opened, tokenizer=None, reads_ids=True)
    return replace(opened, tokenizer=_fitting(opened.tokenizer, tokenizer, opened.vocab_size, str(whose)))


def _fitting(its: Any, asked: Any, vocab_size: int, whose: str) -> Any:
    """Return a model's tokenizer, or the one that was asked for, when it has the vocabulary of the model.

    A vocabulary may have spare rows. Tokens that were added to a tokenizer later may lack a row: a text with such a
    token is refused when it is read.

    Raises:
        UserError: saying both sizes.
    """
    tokenizer = its if asked is None else _named(asked)
    if tokenizer is None:
        return None
    n_tokens = 1 + max(_own_vocabulary(tokenizer), default=-1)
    if 0 <= vocab_size - n_tokens < max(_SPARE, _SPARE_SHARE * vocab_size):
        return tokenizer
    whose_tokenizer = whose if asked is None else f"tokenizer {asked if isinstance(asked, str | Path) else ''}".strip()
    raise UserError(
        f"{whose_tokenizer}: the tokenizer has {n_tokens} tokens, but the model has {vocab_size}; give the tokenizer "
        "that the model was trained with"
    )


def _own_vocabulary(tokenizer: Any) -> set[int]:
    """Return the ids of a tokenizer's vocabulary, without tokens that were added to it."""
    if isinstance(tokenizer, Tokenizer | NoEosTokenizer):
        return set(tokenizer.inner.get_vocab(with_added_tokens=False).values())
    added = tokenizer.get_added_vocab()
    return {number for token, number in tokenizer.get_vocab().items() if token not in added}


def _named(tokenizer: Any) -> Any:
    """Return the tokenizer that a user gives: `bytes`, `gpt2`, a folder, or a tokenizer of transformers.

    Raises:
        UserError: when it cannot be had.
    """
    if not isinstance(tokenizer, str | Path):
        return tokenizer
    name = str(tokenizer)
    if re.fullmatch(r"bpe-\d+", name):
        raise UserError(f"tokenizer {name} depends on its corpus; give the folder of its tokenizer.json")
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return open_tokenizer(name, tuple)
    if (found := _of_folder(folder, writes=False)) is not None:
        return found
    from headway.hf.open import folder_tokenizer

    found = folder_tokenizer(folder, trust_code=False)
    return open_tokenizer(name, tuple) if found is None else found


def _of_run(folder: ModelFolder) -> Opened:
    from headway.analysis.inputs import no_text
    from headway.store.integrity import check_file
    from headway.store.run import Run

    run, path = Run.open(folder.path), folder.path
    inside(path, "tokenizer.json")
    n_ctx = run.spec.task.n_ctx
    if n_ctx is None:
        raise UserError(f"{path}: it is a run of the in-context laboratory, which has no text; give a text run")
    if run.status != "done":
        raise UserError(f"{path}: {_progress(run)}; `headway run` on its results directory finishes it")
    if run.seal is not None:  # its arrays say of themselves what they must be
        check_file(path, run.seal, "tokenizer.json")
    return replace(_of_own(run.model().eval(), folder.name), n_ctx=n_ctx, no_text=no_text(run.spec))


def _progress(run: "Run") -> str:
    """Return how far an unfinished run is, in words."""
    from headway.store import checkpoint

    state, _ = checkpoint.load(run.path / "checkpoint")
    of_steps = f" of {run.steps}" if run.steps else ""
    where = "it has no checkpoint yet" if state is None else f"its checkpoint is of step {state.step}{of_steps}"
    why = f" ({run.message})" if run.message else ""
    return f"the run is {run.status}{why}, and {where}"


def _in_memory(
    model: Any, tokenizer: "str | PreTrainedTokenizerBase | None", for_: Purpose | None, tokens: "TokenIds | None"
) -> Opened:
    """Return a model in memory, opened as its folder would be; nothing of it is changed or moved.

    Weights of lower precision are copied to float32, as a folder's are read. All others are shared.

    Raises:
        UserError: if the model reports nothing about its heads.
    """
    from torch import nn

    from headway.models.transformer import Transformer

    if isinstance(model, Opened):
        return _with_tokenizer(model, tokenizer, model.name)
    model = _unwrapped(model)
    name = type(model).__name__
    called = name if for_ == "trace" else "the model"
    if isinstance(model, Transformer):
        return _with_tokenizer(_of_own(_own_in_float32(model), called), tokenizer, called)
    if not isinstance(model, nn.Module):
        raise UserError(f"a model was expected, or the path of one, but a {name} was given")
    if _is_of_transformers(model):
        from headway.hf.open import in_memory
        from headway.hf.read import own_version

        own = own_version(model)
        opened = _of_transformers(in_memory(model), called, name) if own is None else _of_own(own, called)
        return _with_tokenizer(opened, tokenizer, called)
    if for_ in ("intervene", "prune"):
        raise UserError(not_maskable(name))
    return _brought(model, tokens)


def _unwrapped(model: Any) -> Any:
    """Return the model inside of torch's wrappers for compilation and for several GPUs.

    Raises:
        UserError: if an adapter of peft wraps the model.
    """
    from torch import nn

    if any(kind.__name__ == "PeftModel" for kind in type(model).__mro__):
        raise UserError(
            f"a {type(model).__name__} was given, an adapter around a model; merge them first: model.merge_and_unload()"
        )
    inner = getattr(model, "_orig_mod", None)
    if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        inner = model.module
    return model if inner is None else _unwrapped(inner)


def _own_in_float32(model: "Transformer") -> "Transformer":
    """Return one of Headway's models; of low precision, or made in inference mode, a copy in float32."""
    from headway.models.transformer import Transformer, computes_exactly

    if computes_exactly(model):
        return model
    return Transformer(model.model, model.vocab_size, model.weights()).to(next(model.parameters()).device).eval()


def _is_of_transformers(model: "torch.nn.Module") -> bool:
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return False
    return isinstance(model, PreTrainedModel)


_BRING = (
    "your own module needs a method trace(tokens) that returns a headway.Trace with a record of each attention; "
    "headway.plain_attention makes such a record of an attention's matrices"
)


def _brought(model: Any, given: "TokenIds | None") -> Opened:
    import torch

    from headway.models.redraw import redrawable
    from headway.models.trace import Trace

    name = type(model).__name__
    if not callable(getattr(model, "trace", None)):
        raise UserError(f"{name} returns no record of its heads: {_BRING}")
    if given is None:
        raise UserError(f"{name} reads only tokens, but a text was given: give tokens=, whole numbers (sequence, pos)")
    if next(model.parameters(), None) is None:
        raise UserError(f"{name} has no parameters, so it is on no device; register its weights as parameters")
    tokens = whole_numbers(given)

    def traced(some: torch.Tensor) -> Trace:
        trace = model.trace(some)
        if not isinstance(trace, Trace) or not trace.attentions:
            raise UserError(f"{name}.trace gave {type(trace).__name__} without attentions: {_BRING}")
        if any(len(attention.z) != len(some) for attention in trace.attentions):
            raise UserError(f"{name}.trace did not return the {len(some)} sequences of its input: {_BRING}")
        return trace

    tables = [module.num_embeddings for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    opened = Opened(
        name=name,
        facts={"architecture": name},
        module=model,
        traced=traced,
        read=lambda some: redrawable(traced(some)),
        kind="causal",
        vocab_size=max(tables, default=int(tokens.max()) + 1),
        n_ctx=tokens.shape[1],
        brought=True,
    )
    with torch.inference_mode(), evaluating(model):
        kinds = {attention.kind for attention in opened.trace(tokens[:1]).attentions}
    kind: Literal["causal", "bidirectional"] = "causal" if kinds == {"self"} else "bidirectional"
    return replace(opened, kind=kind, facts={**opened.facts, "kind": kind})

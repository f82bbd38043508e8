"""The model behind a path, or a model in memory, opened.

A path is a run's folder, its checkpoint, or a Hugging Face folder. A model in memory is Headway's own, one of
transformers, or any model that tells what its heads do.
"""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.analysis.inputs import evaluating
from headway.analysis.model import ModelFolder, Opened, model_folder, not_ours
from headway.base.files import inside
from headway.errors import UserError, explained

if TYPE_CHECKING:
    import numpy as np
    import torch

    from headway.data.tokenizer import NoEosTokenizer, Tokenizer
    from headway.hf.open import Pretrained
    from headway.models.redraw import Redrawable
    from headway.models.trace import Trace
    from headway.models.transformer import Transformer
    from headway.store.run import Run


_PADDING = 0.05
"""Some pad a vocabulary to a multiple of 64; where more than this share is spare, it belongs to another tokenizer."""


def open_model(path: str | Path, tokenizer: str | None = None, *, trust_code: bool = False) -> Opened:
    """Open the finished model behind a path, with its tokenizer if it has one.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face.
        tokenizer: another tokenizer than the folder's: a folder, `bytes` or `gpt2`.
        trust_code: whether code that comes with a folder is run where it cannot be opened without.

    Raises:
        UserError: for a path that holds no language model, a run that is not done, a folder that cannot be opened,
            weights that are NaN, infinite or no floating-point numbers, or a tokenizer of another vocabulary.

    Examples:
        >>> import headway
        >>> headway.open_model("nowhere")
        Traceback (most recent call last):
        headway.errors.UserError: nowhere: there is no such folder; give a run's folder (DIR/runs/ARM/seed-N), its checkpoint, or a folder of Hugging Face with a config.json
    """  # noqa: E501 - the doctest's error stands on one line
    folder = model_folder(path)
    opened = _other(folder, tokenizer, trust_code) if folder.kind == "other" else _own(folder, tokenizer)
    opened.check_finite("so its heads say nothing")
    return opened


def open_own(path: str | Path, tokenizer: str | None = None) -> Opened:
    """Open one of Headway's own models, which alone can generate text and be exported.

    Raises:
        UserError: as `open_model`, and before it is opened for a model that Headway's own cannot be; and for weights
            that are NaN or infinite.
    """
    folder = model_folder(path)
    if folder.kind == "other":
        from headway import hf
        from headway.hf.reading import architecture_of

        hf.check_own(folder.path)
        raise UserError(not_ours(folder.name, architecture_of(folder.path)))
    opened = _own(folder, tokenizer, writes=True)
    opened.check_finite("so it has nothing to say")
    return opened


def _own(folder: ModelFolder, tokenizer: str | None, *, writes: bool = False) -> Opened:
    from headway import hf
    from headway.analysis.inputs import no_text
    from headway.store.run import Run

    said = ""
    if folder.kind == "run":
        model, n_ctx = _of_run(folder.path)
        said = no_text(Run.open(folder.path).spec)
    else:
        model = hf.load(folder.path)
        n_ctx = model.model.n_positions
    its = _fitting(_its_tokenizer(folder, writes=writes), tokenizer, model.vocab_size, str(folder.path))
    return replace(_opened(model, folder.name, its, n_ctx), no_text=said)


def _its_tokenizer(folder: ModelFolder, *, writes: bool) -> "Tokenizer | NoEosTokenizer | None":
    """The tokenizer of a folder; who writes needs one that can end a text.

    Raises:
        UserError: when it cannot be read.
    """
    from headway import hf
    from headway.data.tokenizer import NoEosTokenizer
    from headway.data.tokenizer_files import NoEndOfText

    try:
        return hf.tokenizer(folder.path)
    except NoEndOfText:
        if writes or not (folder.path / "tokenizer.json").is_file():
            raise
        return NoEosTokenizer.load(folder.path)


def open_module(model: "Transformer", tokenizer: str | None = None, name: str = "the model") -> Opened:
    """A model of ours in memory, as it is.

    Args:
        model: whose mode and device stay as they are.
        tokenizer: a folder, `bytes` or `gpt2`; None: it reads tokens alone.
        name: what sentences call it.

    Raises:
        UserError: for a tokenizer of another vocabulary.
    """
    return _opened(model, name, _fitting(None, tokenizer, model.vocab_size, name), model.model.n_positions)


def _opened(model: "Transformer", name: str, tokenizer: "Tokenizer | NoEosTokenizer | None", n_ctx: int) -> Opened:
    from headway.models import redraw
    from headway.train.device import settle_elementary_functions

    settle_elementary_functions()
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
        kind="causal" if declared.attends == "past" else "future",
        tokenizer=tokenizer,
        vocab_size=model.vocab_size,
        n_ctx=n_ctx,
        longest=declared.n_positions,
    )


def _other(folder: ModelFolder, tokenizer: str | None, trust_code: bool) -> Opened:
    from headway import hf

    found = hf.open_pretrained(folder.path, trust_code=trust_code)
    opened = of_transformers(found, folder.name, str(folder.path))
    if tokenizer is None:
        return opened
    return replace(opened, tokenizer=_fitting(None, tokenizer, found.vocab_size, str(folder.path)))


def of_transformers(found: "Pretrained", name: str, whose: str) -> Opened:
    """A model of transformers, opened.

    Args:
        found: the model.
        name: what sentences call it.
        whose: what is named where it cannot read a text.
    """
    from headway import hf
    from headway.train.device import settle_elementary_functions

    settle_elementary_functions()

    @explained(f"{whose}: its model cannot read a text", "fetch the folder again")
    def traced(tokens: "torch.Tensor") -> "Trace":
        return hf.trace(found.model, tokens)

    @explained(f"{whose}: its model cannot read a text", "fetch the folder again")
    def read(tokens: "torch.Tensor") -> "Redrawable":
        return hf.read(found.model, tokens)

    return Opened(
        name=name,
        facts={"architecture": type(found.model).__name__, "kind": found.kind},
        module=found.model,
        ours=None,
        traced=traced,
        read=read,
        kind=found.kind,
        tokenizer=found.tokenizer,
        vocab_size=found.vocab_size,
        n_ctx=found.n_ctx,
        longest=found.n_ctx,
    )


def _fitting(
    its: "Tokenizer | NoEosTokenizer | None", asked: str | None, vocab_size: int, whose: str
) -> "Tokenizer | NoEosTokenizer | None":
    """The folder's tokenizer or the one that was asked for, when it has the vocabulary of the model.

    That may be padded to a multiple of 64.

    Raises:
        UserError: saying both sizes.
    """
    found = its if asked is None else _named(asked)
    if found is None:
        return None
    spare = vocab_size - found.vocab_size
    if spare and not (0 < spare < max(64, _PADDING * vocab_size) and vocab_size % 64 == 0):
        raise UserError(
            f"{whose if asked is None else f'tokenizer {asked}'}: the tokenizer has {found.vocab_size} tokens, "
            f"but the model has {vocab_size}; give the tokenizer that the model was trained with"
        )
    return found


def _named(tokenizer: str) -> "Tokenizer":
    """Return the tokenizer that a user names: `bytes`, `gpt2`, or a folder.

    Raises:
        UserError: when it cannot be had.
    """
    from headway.data.tokenizer import open_tokenizer

    if re.fullmatch(r"bpe-\d+", tokenizer):
        raise UserError(f"tokenizer {tokenizer} was trained on some corpus; give the folder of its tokenizer.json")
    return open_tokenizer(tokenizer, tuple)


def _of_run(folder: Path) -> "tuple[Transformer, int]":
    from headway.store.integrity import check_file
    from headway.store.run import Run

    run = Run.open(folder)
    inside(folder, "tokenizer.json")
    spec = run.spec
    if spec.n_ctx is None:
        raise UserError(f"{folder}: it is a run of the in-context laboratory, which has no language; give a text run")
    if run.status != "done":
        raise UserError(f"{folder}: {_how_far(run)}; `headway run` on its results directory finishes it")
    if run.seal is not None:  # its arrays say of themselves what they must be
        check_file(run.path, run.seal, "tokenizer.json")
    return run.model().eval(), spec.n_ctx


def _how_far(run: "Run") -> str:
    from headway.store import checkpoint

    found, _ = checkpoint.load(run.path / "checkpoint")
    of = f" of {run.steps}" if run.steps else ""
    where = "it has no checkpoint yet" if found is None else f"its checkpoint is of step {found.step}{of}"
    why = f" ({run.message})" if run.message else ""
    return f"the run is {run.status}{why}, and {where}"


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

    from headway.models.transformer import Transformer

    if isinstance(model, Opened):
        return model
    if isinstance(model, Transformer):
        return open_module(model, tokenizer, type(model).__name__)
    if not isinstance(model, nn.Module):
        raise UserError(f"a model was expected, or the path of one, but a {type(model).__name__} was given")
    if _of_transformers(model):
        from headway.hf.open import in_memory

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

    from headway.models.redraw import redrawable
    from headway.models.trace import Trace

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

"""Models: any local folder of Hugging Face opened by transformers, as it is, without a network.

transformers draws weights at random that a folder lacks, and says so in a log at most; here that is an error, and so
are weights that are no numbers. No code of a folder is run.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from torch import nn
from transformers.models.auto import modeling_auto

from headway.errors import UserError
from headway.hf.arrays import weight_files
from headway.hf.reading import config_of

Kind = Literal["causal", "masked", "encoder-decoder"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "*.model")
_NAMED = 8
"""Arrays that an error names."""


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model of transformers, in float32 and in evaluation mode, and what one must know to give it a text.

    Attributes:
        model: of the class that the folder's config.json names.
        tokenizer: transformers' own; None if the folder has none.
        vocab_size: rows of the token embedding.
        n_ctx: the longest text in tokens; None if the architecture has no bound.
        kind: causal (each position predicts the next), masked (an encoder), or encoder-decoder.
    """

    model: transformers.PreTrainedModel
    tokenizer: Any
    vocab_size: int
    n_ctx: int | None
    kind: Kind


def open_pretrained(folder: str | Path) -> Pretrained:
    """Open a folder by the architecture that its config.json names, reading nothing from outside of it.

    Raises:
        UserError: for no such folder, a config.json that is missing, broken or of something that reads no text, a
            tokenizer that cannot be read, and weights that are missing, damaged, of other shapes or no numbers.
    """
    folder = Path(folder)
    of_class = _class_of(folder, config_of(folder))
    weight_files(folder)
    with _quiet():
        model = _loaded(folder, of_class)
        kind, tokenizer = _kind(folder, model), _tokenizer(folder)
    _refuse(folder, "are not finite (NaN or infinite); take another checkpoint", _not_finite(model))
    return Pretrained(
        model=model.eval(),
        tokenizer=tokenizer,
        vocab_size=model.get_input_embeddings().num_embeddings,
        n_ctx=_longest(model, tokenizer),
        kind=kind,
    )


def _class_of(folder: Path, config: dict[str, Any]) -> Any:
    """The class of transformers that config.json names; of an exported model Headway's own, not the folder's code."""
    if config.get("model_type") == "headway":
        from headway.hf.modeling_headway import HeadwayForCausalLM

        return HeadwayForCausalLM
    named = config.get("architectures") or []
    if not named:
        raise UserError(f"{folder}/config.json names no architectures; add the model's class, as save_pretrained does")
    kind = getattr(transformers, str(named[0]), None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise UserError(
            f"{folder}/config.json: its architecture is {named[0]}, which transformers {transformers.__version__} does "
            "not have; code that comes with a folder is not run"
        )
    return kind


def _loaded(folder: Path, of_class: Any) -> transformers.PreTrainedModel:
    try:
        model, report = of_class.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
            # Both are refused below, by name.
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except Exception as error:  # it raises its own kinds and those of three libraries
        raise UserError(f"{folder}: transformers cannot open it: {_said(error)}; fetch or write it again") from error
    lacking = "are missing, and transformers would draw them at random; fetch the whole folder"
    _refuse(folder, lacking, report["missing_keys"])
    other = "have other shapes than config.json gives them; one of the two is of another model"
    _refuse(folder, other, [f"{name} {list(found)}" for name, found, _ in report["mismatched_keys"]])
    return model


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _refuse(folder: Path, what: str, names: Iterable[str]) -> None:
    if lines := sorted(names):
        more = [f"and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
        raise UserError(f"{folder}: weights {what}:\n  " + "\n  ".join(lines[:_NAMED] + more))


def _not_finite(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if not parameter.isfinite().all()]


def _tokenizer(folder: Path) -> Any:
    # Without any of its files transformers makes a tokenizer of its own.
    if not any(list(folder.glob(name)) for name in _TOKENIZER_FILES):
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library tokenizers raises plain Exception
        raise UserError(f"{folder}: its tokenizer cannot be read ({_said(error)}); fetch its files again") from error


def _kind(folder: Path, model: transformers.PreTrainedModel) -> Kind:
    model_type, name = model.config.model_type, type(model).__name__
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    causal, masked = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if model_type == "headway" or name == causal.get(model_type) or (model_type in causal and model_type not in masked):
        return "causal"
    if model_type in masked:
        return "masked"
    raise UserError(f"{folder}: {name} is no model of text that Headway knows: causal, masked or encoder-decoder")


def _longest(model: transformers.PreTrainedModel, tokenizer: Any) -> int | None:
    """The least of what its configuration, its position embeddings and its tokenizer say."""
    config = model.config.get_text_config()
    bounds = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions")]
    # RoBERTa counts positions from the padding token's number on.
    bounds += [
        module.num_embeddings - module.padding_idx - 1
        for name, module in model.named_modules()
        if "position" in name and isinstance(module, nn.Embedding) and module.padding_idx is not None
    ]
    bounds.append(getattr(tokenizer, "model_max_length", None))
    return min((int(bound) for bound in bounds if bound is not None and 0 < bound < 1e9), default=None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No bars and logs of transformers: what matters of them is raised."""
    logs = transformers.utils.logging
    verbosity, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(verbosity)
        if bars:
            logs.enable_progress_bar()

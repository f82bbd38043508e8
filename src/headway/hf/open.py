"""Any local folder of Hugging Face, opened by transformers without a network.

transformers draws weights at random that a folder lacks, and at most logs the fact; here missing weights are an error,
and so are weights that are no numbers. No code of a folder is run unless the user allows it. The declared model is
first counted on one without memory.
"""

import contextlib
import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tokenizers
import torch
import transformers
from transformers.models.auto import modeling_auto

from headway.data.tokenizer import check_growth, check_tokenizer
from headway.errors import UserError, explained, shortened
from headway.hf import safety
from headway.hf.read import Arrays, check_types, config_of, hooked, named_architectures
from headway.hf.recorder import longest_text, traceable
from headway.models.transformer import computes_exactly

Kind = Literal["causal", "masked", "encoder-decoder"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "*.model")
_NO_TEXT = (
    "is not a model of text that Headway knows: causal, masked or encoder-decoder; in Python "
    "headway.hf.trace(model, tokens) traces models that read tokens"
)
_TEXT: tuple[Mapping[str, Any], ...] = (
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)
"""Tables of transformers' classes of text models by kind: causal, masked, encoder-decoder."""
_BASE: Any = transformers.PreTrainedModel
_DEEPEST = 1_024
"""The most layers of a model that another library builds in seconds; the deepest ever published has 1,000."""
_NAMED = 8
"""The most arrays that an error names."""


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model of transformers, in float32 and in evaluation mode, with the facts needed to give it a text.

    Attributes:
        model: the model, of the class that the folder's config.json names.
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


def open_pretrained(folder: str | Path, *, trust_code: bool = False) -> Pretrained:
    """Open a folder by the architecture that its config.json names, reading nothing from outside of it.

    Args:
        folder: the folder, with a config.json and weights in safetensors.
        trust_code: True to run code that comes with the folder, if transformers itself lacks its architecture or its
            tokenizer. A warning names the code that runs.

    Raises:
        UserError: if there is no such folder; if config.json is missing, broken or of a model that reads no text; if
            code is not trusted; if the tokenizer cannot be read; if weights are missing, damaged, no numbers, of other
            shapes, or far smaller than declared.
    """
    folder = Path(folder)
    config = config_of(folder)
    safety.check_named(folder / "config.json", config)
    if config.get("pruned_heads"):
        raise UserError(
            f"{folder}/config.json: Headway supports pruned_heads only in GPT-2 language models, and transformers 5 in "
            "none; set the weights of these heads to zero with transformers 4"
        )
    of_class, code = _class_of(folder, config, trust_code)
    needs = safety.tokenizer_code(folder)
    # A tokenizer.json can be read without running the code that its folder names.
    if needs is not None and not trust_code and not (folder / "tokenizer.json").is_file():
        raise safety.refused(folder, needs)
    if run := [each for each in (code and code[1], needs) if each is not None and trust_code]:
        warnings.warn(f"running code of {folder}: {', '.join(run)}", RuntimeWarning, stacklevel=2)
    arrays = Arrays(folder, "")
    with _quiet(), explained(f"{folder}: transformers cannot open it", "fetch or write it again"):
        if code is None:
            _check_size(folder, config, of_class, arrays)
        safety.check_memory(folder, arrays.numbers)
        model = _loaded(folder, of_class, trust=code is not None)
        check_types(folder, config, _types_of(model, arrays))
        kind, tokenizer = _kind(folder, model, code), folder_tokenizer(folder, trust_code=trust_code)
        broken = [name for name, parameter in model.named_parameters() if not parameter.isfinite().all()]
        _refuse(folder, "are not finite (NaN or infinite); use another checkpoint", broken)
        return Pretrained(
            model=model.eval(),
            tokenizer=tokenizer,
            vocab_size=model.get_input_embeddings().num_embeddings,
            n_ctx=longest_text(model, tokenizer),
            kind=kind,
        )


def in_memory(model: transformers.PreTrainedModel) -> Pretrained:
    """Wrap a model that is open already: itself, or of low precision a copy in float32, as its folder is read.

    Raises:
        UserError: if the model reads no text or holds no weights, or if it is of low precision and its configuration
            does not describe it.
    """
    _check_text(type(model).__name__, type(model))
    embedding = model.get_input_embeddings()
    if getattr(embedding, "num_embeddings", None) is None:
        raise UserError(f"{type(model).__name__} reads no tokens; trace it with headway.hf.trace and its own inputs")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UserError(f"{type(model).__name__} holds no weights (device meta); load it with from_pretrained")
    return Pretrained(
        model=model if computes_exactly(model) else _in_float32(model),
        tokenizer=None,
        vocab_size=embedding.num_embeddings,
        n_ctx=longest_text(model, None),
        kind=_kind(Path(type(model).__name__), model, None),
    )


def _in_float32(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Return a copy of a model in float32, made by its configuration, with tables that are not rounded.

    Raises:
        UserError: if the configuration does not describe the model: it has hooks, or other weights.
    """
    traceable(model)
    kind, name = type(model), type(model).__name__
    held = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    weights = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in held.items()}
    config, where = copy.deepcopy(model.config), hooked(model)
    if config._attn_implementation not in ("sdpa", "eager"):
        config._attn_implementation = "sdpa" if kind._supports_sdpa else "eager"
    with _quiet():
        made, report = kind.from_pretrained(
            None, config=config, state_dict=weights, dtype=torch.float32, output_loading_info=True
        )
    other = [name for key in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in report[key]]
    if where is not None or other:
        problem = f"a hook or a changed forward at {where}" if other == [] else f"other weights ({other[0]})"
        raise UserError(
            f"{name} is in {str(model.dtype).removeprefix('torch.')}, and Headway computes in float32; a copy in "
            f"float32 would lose parts of it: it has {problem}. Call model.float() first"
        )
    made.to(model.device)
    return made.eval()


def _class_of(folder: Path, config: dict[str, Any], trust_code: bool) -> tuple[Any, tuple[str, str] | None]:
    """Return the class of transformers that opens a folder, and the folder's own code if nothing else opens it.

    Of an exported model it is Headway's own class, not the folder's code.
    """
    if config.get("model_type") == "headway":
        from headway.hf.modeling_headway import HeadwayForCausalLM

        return HeadwayForCausalLM, None
    named = named_architectures(config)
    if not named:
        raise UserError(f"{folder}/config.json names no architectures; add the model's class, as save_pretrained does")
    kind: Any = getattr(transformers, named[0], None)
    if isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel) and kind is not _BASE:
        _check_text(folder, kind)
        return kind, None
    code = safety.model_code(folder, config)
    if code is None:
        raise UserError(
            f"{folder}/config.json: its architecture is {shortened(named[0])}, which transformers "
            f"{transformers.__version__} does not have; nor does the folder name code for it"
        )
    if not trust_code:
        raise safety.refused(folder, code[1])
    return getattr(transformers, code[0]), code


def _check_text(folder: Path | str, of_class: Any) -> None:
    """Raise UserError if an architecture does not read text; such models are not even built."""
    model_type = getattr(of_class.config_class, "model_type", None)
    if any(model_type in names for names in _TEXT):
        return
    if {"text_config", "vision_config"} <= set(of_class.config_class.sub_configs):
        raise UserError(
            f"{folder}: {of_class.__name__} has two towers, one for text and one for pictures; in Python, "
            "headway.hf.trace(model.text_model, tokens) traces the tower for text"
        )
    raise UserError(f"{folder}: {of_class.__name__} {_NO_TEXT}")


def _check_size(folder: Path, config: dict[str, Any], of_class: Any, arrays: Arrays) -> None:
    """Build the model without memory, and hold what it would need against the weights that are there.

    Raises:
        UserError: when it is far larger than they are.
    """
    try:
        safety.check_declared(config, numbers=arrays.numbers, arrays=len(arrays.shapes), most_layers=_DEEPEST)
        with torch.device("meta"):
            model = of_class(of_class.config_class.from_pretrained(folder, local_files_only=True))
        tables = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
        safety.check_built((each.numel() for each in model.parameters()), tables, numbers=arrays.numbers)
    except UserError as error:
        raise UserError(f"{folder}/config.json: {error}") from None
    except (RuntimeError, NotImplementedError) as error:
        if "meta" not in str(error):  # a few architectures read weights while they are built, before there are any
            raise


def _loaded(folder: Path, of_class: Any, *, trust: bool) -> transformers.PreTrainedModel:
    model, report = of_class.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.float32,
        # Both are refused below, by name.
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **({"trust_remote_code": True} if trust else {}),
    )
    lacking = "are missing, and transformers would draw them at random; fetch the whole folder"
    _refuse(folder, lacking, report["missing_keys"])
    other = "have other shapes than config.json gives them; one of the two is of another model"
    _refuse(folder, other, [f"{name} {list(found)}" for name, found, _ in report["mismatched_keys"]])
    return model


def _types_of(model: transformers.PreTrainedModel, arrays: Arrays) -> dict[str, str]:
    """Return the types of the arrays that a model has as weights, some by another name; masks are left out."""
    prefix = f"{model.base_model_prefix}."
    weights = {name.removeprefix(prefix) for name, _ in model.named_parameters()}
    return {
        name: kind
        for name, kind in arrays.types.items()
        if name.removeprefix(prefix) in weights or name.endswith(".weight")
    }


def _refuse(folder: Path, what: str, names: Iterable[str]) -> None:
    if lines := sorted(names):
        more = [f"and {len(lines) - _NAMED} more"] * (len(lines) > _NAMED)
        raise UserError(f"{folder}: weights {what}:\n  " + "\n  ".join([*map(shortened, lines[:_NAMED]), *more]))


def folder_tokenizer(folder: Path, *, trust_code: bool) -> Any:
    """Return the tokenizer of a folder as transformers reads it; None if the folder has none.

    Raises:
        UserError: when it cannot be read.
    """
    # Without any of its files transformers makes a tokenizer of its own.
    if not any(any(folder.glob(name)) for name in _TOKENIZER_FILES):
        return None
    check_tokenizer(folder)
    has_code = safety.tokenizer_code(folder) is not None
    with explained(f"{folder}: its tokenizer cannot be read", "fetch its files again"):
        if has_code and not trust_code:
            found = transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        else:
            found = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=has_code
            )
        if isinstance(inner := getattr(found, "backend_tokenizer", None), tokenizers.Tokenizer):
            check_growth(inner, str(folder))
        return found


def _kind(folder: Path, model: transformers.PreTrainedModel, code: tuple[str, str] | None) -> Kind:
    model_type, name = model.config.model_type, type(model).__name__
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    if code is not None:  # the code names the class that opens it
        return "masked" if code[0] == "AutoModelForMaskedLM" else "causal"
    causal, masked, _ = _TEXT
    if model_type == "headway" or name == causal.get(model_type) or (model_type in causal and model_type not in masked):
        return "causal"
    if model_type in masked:
        return "masked"
    raise UserError(f"{folder}: {name} {_NO_TEXT}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence bars and logs of transformers within a block: important messages are raised as errors."""
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

"""A model written as a folder that transformers loads.

A model that GPT-Neo, GPT-2, Llama or Mistral can express becomes a stock folder. Any other model takes its own code
along, which needs no Headway, and loads with `trust_remote_code=True`. The folder is whole or absent.
"""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from safetensors.numpy import save

from headway.base.files import sync
from headway.config.lm.model import SOFTMAX, TransformerModel
from headway.data.tokenizer import Tokenizer
from headway.errors import UserError
from headway.hf.architectures import ARCHITECTURES, stock, to_folder
from headway.models.weights import Weights, check_weights

_CODE = ("configuration_headway.py", "modeling_headway.py")


def export(
    model: TransformerModel, vocab_size: int, weights: Weights, folder: Path, tokenizer: Tokenizer | None = None
) -> str:
    """Write the folder; the `model_type` it got: `headway` where no stock architecture is this model.

    Raises:
        UserError: when the folder exists and is not empty, or cannot be written, or arrays do not fit the model.
    """
    check_weights(weights, model, vocab_size)
    if own := unknown_elsewhere(model):
        raise UserError(
            f"neither transformers nor Headway's exported code has a model with {' and '.join(own)}, so it cannot be "
            "exported; use the run's folder"
        )
    check_new(folder)
    model_type, described = stock(model) or ("headway", ARCHITECTURES["headway"].write(model))
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        # Padding stands here only: a Llama does not train the embedding of a pad_token_id in its configuration.
        _write(temporary, "generation_config.json", _ends(tokenizer, "bos_token_id", "eos_token_id", "pad_token_id"))
        _write(temporary, "config.json", _config(model_type, described, vocab_size, tokenizer))
        arrays = dict(to_folder(ARCHITECTURES[model_type].table, weights))
        # Formatted in memory: safetensors' own writer hides errors of the system, and the file from other users.
        (temporary / "model.safetensors").write_bytes(save(arrays, metadata={"format": "pt"}))
        if model_type == "headway":
            for name in _CODE:
                shutil.copyfile(Path(__file__).with_name(name), temporary / name)
        if tokenizer is not None:
            _write_tokenizer(temporary, tokenizer, model.n_positions)
        for path in temporary.iterdir():
            sync(path)
        temporary.rename(folder)
        sync(folder.parent)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}; free space or check permissions") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return model_type


def check_new(folder: Path) -> None:
    """Raise UserError if a folder cannot be written, since it has content."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder; choose another name, or remove it")


def unknown_elsewhere(model: TransformerModel) -> list[str]:
    """Return the choices of a model that no exported folder can express, as keys."""
    choices = {
        "residual false": not model.residual,
        "positions joint": model.positions == "joint",
        "smeared_keys": model.smeared_keys,
        "an attention of its own": model.attention != SOFTMAX,
        "a readout of its own": model.readout is not None,
        "an encoder": model.encoder is not None,
        "class_token": model.class_token,
    }
    return [name for name, has in choices.items() if has]


def _config(model_type: str, described: dict[str, Any], vocab_size: int, tokenizer: Tokenizer | None) -> dict[str, Any]:
    architecture = ARCHITECTURES[model_type].loaded_as
    auto = {
        "AutoConfig": "configuration_headway.HeadwayConfig",
        "AutoModelForCausalLM": f"modeling_headway.{architecture}",
    }
    return {
        "architectures": [architecture],
        "model_type": model_type,
        **({"auto_map": auto} if model_type == "headway" else {}),
        **described,
        "vocab_size": vocab_size,
        **_ends(tokenizer, "bos_token_id", "eos_token_id"),
        "dtype": "float32",
    }


def _ends(tokenizer: Tokenizer | None, *keys: str) -> dict[str, int | None]:
    return dict.fromkeys(keys, None if tokenizer is None else tokenizer.end_of_text)


def _write_tokenizer(folder: Path, tokenizer: Tokenizer, n_positions: int) -> None:
    tokenizer.save(folder)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict.fromkeys(("bos_token", "eos_token", "pad_token"), tokenizer.inner.id_to_token(tokenizer.end_of_text)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": n_positions,
    }
    _write(folder, "tokenizer_config.json", config)


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")

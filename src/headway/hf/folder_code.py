"""Models: code that comes with a folder of Hugging Face: named, never run unless somebody says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import UserError, shortened
from headway.files import read_json
from headway.hf.bounds import LARGEST_TEXT

_MODELS = ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM")
"""The classes of transformers that open a model of text by a folder's own code."""
_ELSEWHERE = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
_OWN = (None, "eager", "sdpa")


def model_code(folder: Path, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The class of transformers that a folder's code is opened by, and that code's own; None where there is none.

    Raises:
        UserError: when what names it cannot be understood, or names code of another place.
    """
    code = _code(folder / "config.json", config)
    return next(((name, code[name]) for name in _MODELS if name in code), None)


def tokenizer_code(folder: Path) -> str | None:
    """The code that a folder's tokenizer needs; None where it needs none.

    Raises:
        UserError: as `model_code`.
    """
    path = folder / "tokenizer_config.json"
    try:
        content = read_json(path, LARGEST_TEXT)
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise UserError(f"{path}: it is no mapping, keys with values")
    return _code(path, content).get("AutoTokenizer")


def refused(folder: Path, what: str) -> UserError:
    """Why code of a folder is not run, and what to do."""
    return UserError(
        f"{folder}: it needs code that comes with it ({shortened(what)}), and code of a folder is not run; read that "
        "code, and where you trust it say so: trust_code=True in Python, --trust-code on the command line"
    )


def check_named(path: Path, config: Mapping[str, Any]) -> None:
    """Nothing, when a config.json names nothing that transformers would fetch, or read as another kind of file.

    Raises:
        UserError: naming the key.
    """
    for key in _ELSEWHERE:
        if config.get(key) not in _OWN:
            raise UserError(
                f"{path}: {key} {shortened(repr(config[key]))} names code of another place, which is not run; remove it"
            )
    if config.get("transformers_weights") is not None:
        raise UserError(f"{path}: transformers_weights names a file of its own; remove it, and rename the file")
    if config.get("quantization_config") is not None:
        raise UserError(f"{path}: its weights are quantized, and such heads cannot be traced; dequantize and save them")


def _code(path: Path, content: Mapping[str, Any]) -> dict[str, str]:
    """What an `auto_map` says: the code behind each class of transformers."""
    auto_map = content.get("auto_map") or {}
    if isinstance(auto_map, list):  # what older tokenizers have
        auto_map = {"AutoTokenizer": auto_map}
    if not isinstance(auto_map, dict):
        raise UserError(f"{path}: auto_map {shortened(repr(auto_map))} is no mapping, keys with values; remove it")
    code = {}
    for name, given in auto_map.items():
        # Of tokenizers two are named: a slow one and a fast one, or null.
        named = [each for each in (given if isinstance(given, list) else [given]) if each is not None]
        for each in named:
            if not isinstance(each, str) or "--" in each or not all(map(str.isidentifier, each.split("."))):
                raise UserError(
                    f"{path}: auto_map names {shortened(repr(each))}, which is no code of this folder; remove it"
                )
        if named:
            code[name] = named[-1]
    return code

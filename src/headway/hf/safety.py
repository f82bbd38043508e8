"""Limits on a folder of Hugging Face, its files and its code, checked before anything is built from it.

A folder is data that anybody may have written. Nothing in it is run, no pickle is read, and no link out of it is
followed. The sizes in its config.json are compared with its weights before a model of that size is built. Code that
comes with a folder is named, and never run unless the user allows it.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from headway.base.files import ordinary, read_json
from headway.config.spec import MOST_LAYERS
from headway.errors import UserError, shortened

LARGEST_TEXT = 16_000_000
"""Bytes of a file that describes a model: a list of all labels of ImageNet-21k has 2 MB, the index of a thousand
files 10 MB."""
LARGEST_VOCABULARY = 40_000_000
"""Bytes of a tokenizer.json, or of a model of SentencePiece: the largest that are known have 34 MB."""
LARGEST_HEADER = 25_000_000
"""Bytes of the header of a file of weights: 200,000 arrays."""
_VOCABULARIES = ("tokenizer.json", ".model", ".tiktoken")
_TEXTS = (".json", ".txt", ".jinja", *_VOCABULARIES)
_LEAST = 2**18
"""The size that any folder may declare, however small its weights: a context, for one, has no weights."""
_LEAST_LAYERS = 256
_SLACK = 1_000_000
"""The numbers that a model may have beyond its weights: missing ones are named."""
_TABLES = 500_000_000
"""The bytes of tables that follow from the configuration, beside the size of the weights."""
_FREE = re.compile(r"theta|base|freq|seed|(^|_)ids?$|version|std|eps|scal|factor")
"""Keys whose values are no sizes: numbers of tokens, bases of angles."""
_LAYERS = re.compile(r"(^|(?<!per)_)(n_?)?(layers?|depths?|blocks?)(_(?!size)|$)")
"""Keys of numbers of layers, not of a layer's parts, nor of the size of a block."""


def check_files(folder: Path) -> None:
    """Raise UserError if a describing file is too large or lies outside its folder.

    Links may lead into the hub's cache, or stay in the folder.

    Raises:
        UserError: naming the first that is not.
    """
    homes = {folder.resolve()}
    homes |= {home.parents[1] / "blobs" for home in homes if home.parent.name == "snapshots"}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith((*_TEXTS, ".safetensors")):
                _check_file(Path(entry.path), homes)
            elif entry.name == ".metadata":
                raise UserError(f"{entry.path}: it is a pickle, which can run any code and is not read; delete it")


def _check_file(path: Path, homes: set[Path]) -> None:
    name = shortened(path.name)
    if path.is_symlink() and not homes & set(Path(os.path.realpath(path)).parents):
        raise UserError(f"{path.parent}: {name} is a link to a place outside of the folder; put the file itself there")
    try:
        status = path.stat()
    except OSError:
        return  # a dangling link: the reader of the file reports it as missing
    if stat.S_ISDIR(status.st_mode):
        return
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path.parent}: {name} is not a file but a device, a pipe or a socket; fetch the folder again")
    largest = LARGEST_VOCABULARY if path.name.endswith(_VOCABULARIES) else LARGEST_TEXT
    if status.st_size > largest and not path.name.endswith(".safetensors"):
        raise UserError(
            f"{path.parent}: {name} has {status.st_size / 1e6:,.0f} MB, above the limit of "
            f"{largest / 1e6:g} MB for such a file; fetch the folder again"
        )


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the content of a file that describes a model.

    Raises:
        FileNotFoundError: when there is none.
        UserError: when it is no JSON, or no mapping.
    """
    content = read_json(path, LARGEST_TEXT)
    if not isinstance(content, dict):
        raise UserError(f"{path}: it is not a mapping, keys with values")
    return content


def check_header(path: Path) -> None:
    """Raise UserError if the header of a file of weights is too large to read.

    Raises:
        UserError: saying how large it is.
    """
    try:
        with ordinary(path, links=True) as file:
            size = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise UserError(f"{path}: it cannot be read ({error.strerror})") from None
    if not 0 < size <= LARGEST_HEADER:
        why = f"its header would have {size / 1e6:,.0f} MB, and {LARGEST_HEADER / 1e6:g} MB are read at most"
        raise UserError(f"{path}: it is damaged ({why if size else 'it has no header'}); fetch or write it again")


def check_declared(config: Mapping[str, Any], *, numbers: int, arrays: int, most_layers: int = MOST_LAYERS) -> None:
    """Raise UserError if a whole number of a configuration is far beyond what the weights hold.

    Args:
        config: the content of config.json.
        numbers: the size of all arrays of the weights together, in numbers.
        arrays: the number of arrays.
        most_layers: the largest number of layers, for any number of arrays, since arrays may be empty.

    Raises:
        UserError: naming the key.
    """
    for key, value in _whole(config):
        of_layers = _LAYERS.search(key)
        most = min(max(_LEAST_LAYERS, arrays), most_layers) if of_layers else max(_LEAST, numbers)
        if abs(value) > most and not _FREE.search(key):
            held = f"{arrays:,} arrays" if of_layers else f"{numbers:,} numbers"
            raise UserError(
                f"{shortened(key)} is {shortened(str(value), 40)}, but the weights hold {held}; one of the two is of "
                "another model"
            )


def _whole(value: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of a nested value, each with its key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _whole(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _whole(inner, key)
    elif isinstance(value, int):
        yield key, value
    elif isinstance(value, float) and value.is_integer():
        yield key, int(value)


def check_built(parameters: Iterable[int], table_bytes: int, *, numbers: int) -> None:
    """Raise UserError if a model is larger than its weights, counted on a copy without memory.

    Args:
        parameters: the size of each array, in numbers; tied arrays may be listed up to four times.
        table_bytes: the bytes of the tables that follow from the configuration, such as masks and angles.
        numbers: the size of all arrays of the weights together, in numbers.

    Raises:
        UserError: with both sizes.
    """
    declared = sum(parameters)
    if declared > 4 * numbers + _SLACK:
        raise UserError(
            f"a model of {declared:,} numbers is declared, but the weights hold {numbers:,}; one of the two is of "
            "another model"
        )
    if table_bytes > 4 * numbers + _TABLES:
        raise UserError(
            f"its tables of positions would take {table_bytes / 1e9:,.1f} GB, and its weights {4 * numbers / 1e9:,.1f} "
            "GB; lower the longest context that is declared"
        )


def check_memory(folder: Path, numbers: int) -> None:
    """Raise UserError if the weights do not fit into this machine's memory.

    Raises:
        UserError: with both sizes.
    """
    needed, there = 4 * numbers, psutil.virtual_memory().total
    if needed > there:
        raise UserError(
            f"{folder}: its weights take {needed / 1e9:,.1f} GB in float32, and this machine has {there / 1e9:,.1f} "
            "GB; take a smaller model or another machine"
        )


_MODELS = ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM")
"""The classes of transformers that open a model of text by a folder's own code."""
_ELSEWHERE = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
_OWN = (None, "eager", "sdpa")


def model_code(folder: Path, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the class of transformers that opens a folder's code, and that code; None if there is none.

    Raises:
        UserError: when what names it cannot be understood, or names code of another place.
    """
    code = _code(folder / "config.json", config)
    return next(((name, code[name]) for name in _MODELS if name in code), None)


def tokenizer_code(folder: Path) -> str | None:
    """Return the code that a folder's tokenizer needs; None if it needs none.

    Raises:
        UserError: if `model_code` would raise it.
    """
    path = folder / "tokenizer_config.json"
    try:
        content = read_mapping(path)
    except FileNotFoundError:
        return None
    return _code(path, content).get("AutoTokenizer")


def refused(folder: Path, what: str) -> UserError:
    """Return why code of a folder is not run, and what to do."""
    return UserError(
        f"{folder}: it needs the code that comes with it ({shortened(what)}), which is not run by default. Read "
        "this code; if you trust it, give trust_code=True in Python, or --trust-code on the command line"
    )


def check_named(path: Path, config: Mapping[str, Any]) -> None:
    """Raise UserError if a config.json names something to fetch, or to read as another kind of file.

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
    """Return the code that an `auto_map` names for each class of transformers."""
    auto_map = content.get("auto_map") or {}
    if isinstance(auto_map, list):  # older tokenizers have a list
        auto_map = {"AutoTokenizer": auto_map}
    if not isinstance(auto_map, dict):
        raise UserError(f"{path}: auto_map {shortened(repr(auto_map))} is not a mapping, keys with values; remove it")
    code = {}
    for name, given in auto_map.items():
        # Of tokenizers two are named: a slow one and a fast one, or null.
        for each in given if isinstance(given, list) else [given]:
            if each is None:
                continue
            if not isinstance(each, str) or not all(map(str.isidentifier, each.split("."))):
                raise UserError(
                    f"{path}: auto_map names {shortened(repr(each))}, which is not code in this folder; remove it"
                )
            code[name] = each
    return code

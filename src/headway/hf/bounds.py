"""Models: how large a folder of Hugging Face may be, and what its files may be; known before anything is made of it.

A folder is data that anybody may have written. Nothing in it is run, no pickle is read, nothing outside of it is
followed, and what its config.json declares is held against what its weights hold before a model of that size is built.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from headway.declare.limits import MOST_LAYERS
from headway.errors import UserError, shortened
from headway.files import ordinary

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
"""Any folder may declare so much, however little its weights hold: a context, for one, has no weights."""
_LEAST_LAYERS = 256
_SLACK = 1_000_000
"""Numbers that a model may have and its weights lack: those are named."""
_TABLES = 500_000_000
"""Bytes of what follows from the configuration, beside the size of the weights."""
_FREE = re.compile(r"theta|base|freq|seed|(^|_)ids?$|version|std|eps|scal|factor")
"""Keys of what is no size: numbers of tokens, bases of angles."""
_LAYERS = re.compile(r"(^|(?<!per)_)(n_?)?(layers?|depths?|blocks?)(_(?!size)|$)")
"""Keys of numbers of layers; not of what each layer has, nor of the size of a block."""


def check_files(folder: Path) -> None:
    """Nothing, when the files that describe a model are files of its folder, and of a size that such files have.

    Links are those of the hub's cache, or stay in the folder.

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
        found = path.stat()
    except OSError:
        return  # a link that leads nowhere: whoever needs the file says that it is missing
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path.parent}: {name} is no file but a device, a pipe or a socket; fetch the folder again")
    largest = LARGEST_VOCABULARY if path.name.endswith(_VOCABULARIES) else LARGEST_TEXT
    if found.st_size > largest and not path.name.endswith(".safetensors"):
        raise UserError(
            f"{path.parent}: {name} has {found.st_size / 1e6:,.0f} MB, and no such file has more than "
            f"{largest / 1e6:g} MB; fetch the folder again"
        )


def check_header(path: Path) -> None:
    """Nothing, when the header of a file of weights is of a size that can be read.

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
    """Nothing, when no whole number of a configuration is far beyond what the weights hold.

    Args:
        config: what config.json says.
        numbers: that all arrays of the weights have together.
        arrays: how many there are.
        most_layers: however many arrays there are, which may be empty.

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
    """The whole numbers of a nested value, each with the key that it stands under."""
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
    """Nothing, when a model is of the size of its weights; counted on one that has no memory yet.

    Args:
        parameters: how many numbers each array has; tied ones may stand there up to four times.
        table_bytes: of what follows from its configuration, such as masks and angles.
        numbers: that all arrays of the weights have together.

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
    """Nothing, when the weights fit into this machine's memory.

    Raises:
        UserError: with both sizes.
    """
    needed, there = 4 * numbers, psutil.virtual_memory().total
    if needed > there:
        raise UserError(
            f"{folder}: its weights take {needed / 1e9:,.1f} GB in float32, and this machine has {there / 1e9:,.1f} "
            "GB; take a smaller model or another machine"
        )

"""Models: the arrays in a folder's safetensors files, one file or several with an index: known first, read later."""

import math
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from headway.errors import MOST_LINES, UserError, shortened
from headway.files import read_json
from headway.hf.bounds import LARGEST_TEXT, check_header
from headway.words import listed

INDEX = "model.safetensors.index.json"
_READ = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Types of weights that are read, by the name that safetensors has for each."""
_TYPE = re.compile(r"auto|(bfloat|float)16|float(32|64|8_\w+)|u?int(4|8|16|32|64)")
"""Types of weights that a config.json may name."""


class Arrays:
    """Names, shapes and types of a folder's arrays; each is read when it is asked for.

    Args:
        folder: has model.safetensors, or its parts and their index.
        prefix: what stands before every name but the read-out's; older folders leave it out, and it is put back.

    Raises:
        UserError: when a file is missing, damaged or a pickle.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._homes: dict[str, tuple[Any, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, str] = {}
        for path in weight_files(folder):
            check_header(path)
            try:
                file = safe_open(path, framework="pt")
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    full = name if not prefix or name.startswith((f"{prefix}.", "lm_head.")) else f"{prefix}.{name}"
                    self._homes[full] = file, name
                    self.shapes[full] = tuple(file.get_slice(name).get_shape())
                    self.types[full] = file.get_slice(name).get_dtype()
            except (SafetensorError, OSError) as error:
                said = shortened(str(error))
                raise UserError(f"{path}: it is damaged ({said}); fetch or write it again") from None

    @property
    def numbers(self) -> int:
        """How many numbers all of them have together."""
        return sum(map(math.prod, self.shapes.values()))

    def read(self, name: str) -> np.ndarray:
        """An array as float32."""
        file, its_name = self._homes[name]
        return file.get_tensor(its_name).float().numpy()


def check_types(folder: Path, config: Mapping[str, Any], types: Mapping[str, str]) -> None:
    """Raise UserError if weights are no floating-point numbers; warn if config.json says that they are of another type.

    Args:
        folder: of the model.
        config: what its config.json says.
        types: of its weights by name, as safetensors calls them.
    """
    if wrong := [f"{shortened(name)}: {kind}" for name, kind in sorted(types.items()) if kind not in _READ]:
        more = [f"and {len(wrong) - MOST_LINES:,} more"] if len(wrong) > MOST_LINES else []
        raise UserError(
            f"{folder}: weights are no floating-point numbers that Headway reads ({', '.join(_READ.values())}); fetch "
            "the model as it was before it was quantized:\n  " + "\n  ".join([*wrong[:MOST_LINES], *more])
        )
    said = config.get("dtype") or config.get("torch_dtype")
    if said is None:
        return
    name = said.removeprefix("torch.") if isinstance(said, str) else ""
    if not _TYPE.fullmatch(name):
        raise UserError(
            f"{folder}/config.json: torch_dtype {shortened(repr(said))} is no type of weights; write the type that "
            "the file has, such as float32"
        )
    there = list(dict.fromkeys(_READ[kind] for kind in sorted(types.values())))
    if there and name not in there and name != "auto":
        warnings.warn(
            f"{folder}/config.json says that weights are {name}, but the file holds {listed(there)}; Headway reads the "
            "file, and computes in float32",
            RuntimeWarning,
            stacklevel=2,
        )


def differences(needed: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> list[str]:
    """A line for every array that is missing, unexpected or of another shape."""
    return [
        *(f"missing: {name} {list(shape)}" for name, shape in needed.items() if name not in found),
        *(
            f"unexpected: {shortened(name)} {shortened(str(list(shape)))}"
            for name, shape in found.items()
            if name not in needed
        ),
        *(
            f"wrong shape: {name} is {shortened(str(list(found[name])))}, the configuration needs {list(shape)}"
            for name, shape in needed.items()
            if name in found and found[name] != shape
        ),
    ]


def weight_files(folder: Path) -> list[Path]:
    """The folder's safetensors.

    Raises:
        UserError: when one is missing or stands outside of the folder, or weights are a pickle.
    """
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if (folder / INDEX).is_file():
        names = _indexed(folder / INDEX)
        if missing := [name for name in names if not (folder / name).is_file()]:
            named = f"{', '.join(missing[:MOST_LINES])}{', ...' * (len(missing) > MOST_LINES)}"
            raise UserError(f"{folder}: {INDEX} names {named}, missing here; fetch the whole folder")
        return [folder / name for name in names]
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise UserError(
            f"{folder}: its weights are in {', '.join(pickles)}, a pickle, which can run any code and is not read; "
            "convert it: load it with transformers and call save_pretrained"
        )
    raise UserError(f"{folder} has no model.safetensors; a folder of Hugging Face has one, or parts with an index")


def _indexed(index: Path) -> list[str]:
    """The files that an index names, all of the index's own folder."""
    content = read_json(index, LARGEST_TEXT)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise UserError(f"{index}: it cannot be understood (weight_map names no file for each array); fetch it again")
    names = sorted(set(places.values()))
    for name in names:
        if Path(name).name != name or len(name) > 255 or not name.endswith(".safetensors"):
            raise UserError(
                f"{index}: it names {shortened(repr(name))}, which is no safetensors file of its folder; fetch it again"
            )
    return names

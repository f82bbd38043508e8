"""Models: a folder of Hugging Face, read as Headway's model without transformers.

The configuration says what the model is; then every array is looked for under its name there, with the shape that it
must have, before any is read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.tokens.tokenizer import Tokenizer
from headway.declare.tokens.parameters import parameters_of
from headway.declare.tokens.transformer import TransformerModel
from headway.errors import UserError
from headway.hf.architectures import ARCHITECTURES
from headway.hf.arrays import Arrays, differences
from headway.hf.names import BUFFERS, Table, from_folder, place_of, shapes_of
from headway.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A folder's model as Headway declares it, and its float32 weights under Headway's names."""

    model: TransformerModel
    vocab_size: int
    weights: Weights


def read_folder(folder: str | Path) -> Loaded:
    """The model in a folder with config.json and safetensors.

    Raises:
        UserError: for no such folder, an unknown architecture, a configuration that Headway's model cannot be, and
            with one line for every array that is missing, unexpected or of the wrong shape.
    """
    folder = Path(folder)
    config = config_of(folder)
    model_type = config.get("model_type")
    if model_type not in ARCHITECTURES:
        raise UserError(
            f"{folder}: its architecture is {model_type!r}, which Headway does not read; "
            f"it reads {', '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[model_type]
    try:
        model, vocab_size = architecture.read(config), int(config["vocab_size"])
    except KeyError as error:
        raise UserError(f"{folder}/config.json: {error.args[0]} is missing; give it a value") from None
    except UserError as error:
        raise UserError(f"{folder}/config.json: {error}") from None
    except (TypeError, ValueError) as error:
        raise UserError(f"{folder}/config.json: it cannot be understood ({error})") from None
    weights = _weights(folder, model, vocab_size, architecture.table)
    return Loaded(model=model, vocab_size=vocab_size, weights=weights)


def tokenizer_of(folder: Path) -> Tokenizer | None:
    """The tokenizer of a folder; None if there is none.

    Raises:
        UserError: when it cannot be read.
    """
    complete = (("tokenizer.json",), ("vocab.json", "merges.txt"))
    there = any(all((folder / name).is_file() for name in names) for names in complete)
    return Tokenizer.load(folder) if there else None


def config_of(folder: Path) -> dict[str, Any]:
    """What a folder's config.json says.

    Raises:
        UserError: when there is none, or it is no JSON.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give one with a config.json and model.safetensors")
    return _json(folder / "config.json", "a folder of Hugging Face has one")


def _json(path: Path, why: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent} has no {path.name}; {why}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: it cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: it is no mapping, keys with values")
    return content


def _weights(folder: Path, model: TransformerModel, vocab_size: int, table: Table | None) -> Weights:
    arrays = Arrays(folder, table["embedding"].module.partition(".")[0] if table else "")
    parameters = parameters_of(model, vocab_size)
    found = {name: shape for name, shape in arrays.shapes.items() if not BUFFERS.fullmatch(name)}
    repeated = found.pop("lm_head.weight", None) if model.tied else None
    if wrong := differences(shapes_of(table, parameters), found):
        raise UserError(
            f"{folder}: {len(wrong)} arrays do not fit its config.json; one of the two is of another model:\n  "
            + "\n  ".join(wrong)
        )
    wanted = {parameter.name: place_of(table, parameter.name)[0] for parameter in parameters}
    weights = {name: from_folder(table, name, arrays.read(there)) for name, there in wanted.items()}
    if repeated and not np.array_equal(arrays.read("lm_head.weight"), weights["embedding.weight"]):
        raise UserError(
            f"{folder}: config.json ties the read-out to the embedding, but lm_head.weight differs from "
            f"{wanted['embedding.weight']}; set tie_word_embeddings to false, or remove lm_head.weight"
        )
    return weights

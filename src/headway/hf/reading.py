"""Models: a folder of Hugging Face, read as Headway's model without transformers.

The configuration says what the model is; then every array is looked for under its name there, with the shape that it
must have, before any is read.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.data.tokens.tokenizer import Tokenizer
from headway.declare.tokens.parameters import parameters_of
from headway.declare.tokens.transformer import TransformerModel
from headway.errors import UserError, shortened
from headway.files import read_json
from headway.hf.architectures import ARCHITECTURES, Architecture, NotOurs, vocab_size_of
from headway.hf.array_names import BUFFERS, Table, from_folder, place_of, shapes_of
from headway.hf.arrays import Arrays, check_types, differences
from headway.hf.bounds import LARGEST_TEXT, check_built, check_declared, check_files, check_memory
from headway.model.weights import Weights

if TYPE_CHECKING:
    from headway.model.transformer import Transformer


_OTHER_HEAD = re.compile(r"For(?!CausalLM)[A-Z]|DoubleHeads")
"""Classes of transformers that end with something else than a read-out of the next token."""


def load(folder: str | Path) -> "Transformer":
    """A GPT-Neo, GPT-2, Llama or Mistral folder, or one that Headway exported, as Headway's own model.

    Raises:
        UserError: for no such folder, an unknown architecture, a configuration that Headway's model cannot be, and
            with one line for every array that is missing, unexpected or of the wrong shape.
    """
    from headway.model.transformer import Transformer

    folder = Path(folder)
    config = config_of(folder)
    model_type = config.get("model_type")
    if model_type not in ARCHITECTURES:
        raise UserError(
            f"{folder}: its architecture is {shortened(repr(model_type))}, which Headway does not read; "
            f"it reads {', '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[model_type]
    arrays = Arrays(folder, architecture.table["embedding"].module.partition(".")[0] if architecture.table else "")
    model, vocab_size = _declared(folder, config, architecture, arrays)
    check_memory(folder, arrays.numbers)
    return Transformer(model, vocab_size, _weights(folder, model, vocab_size, architecture.table, arrays)).eval()


def _declared(
    folder: Path, config: dict[str, Any], architecture: Architecture, arrays: Arrays
) -> tuple[TransformerModel, int]:
    """What config.json declares, and its vocabulary, when both can be of these arrays.

    Raises:
        UserError: for what cannot be understood, cannot be Headway's model, or is far larger than the arrays.
    """
    try:
        check_declared(config, numbers=arrays.numbers, arrays=len(arrays.shapes))
        model, vocab_size = architecture.read(config), vocab_size_of(config)
        check_built((), fixed_bytes(model), numbers=arrays.numbers)
    except KeyError as error:
        raise UserError(f"{folder}/config.json: {error.args[0]} is missing; give it a value") from None
    except UserError as error:
        raise UserError(f"{folder}/config.json: {error}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        said = shortened(str(error))
        raise UserError(f"{folder}/config.json: it cannot be understood ({said})") from None
    return model, vocab_size


def fixed_bytes(model: TransformerModel) -> int:
    """What a model's fixed positions need while they are made: angles, their sines and cosines, in float64 and 32."""
    widths = {"rotary": {heads.d_head for heads in model.layout.layers}, "sinusoidal": {model.d_model}}
    return 48 * model.n_positions * sum(widths.get(model.positions, ()))


def is_own(folder: Path) -> bool:
    """Whether a folder's model is one that Headway's own can be: of an architecture that `load` reads, and no more.

    A Llama with scaled rotary turns is not, nor a GPT-2 that classifies or reads an encoder.

    Raises:
        UserError: when it has no config.json, or that is no JSON.
    """
    config = config_of(folder)
    architecture = ARCHITECTURES.get(config.get("model_type", ""))
    if architecture is None:
        return False
    named = next(iter(named_architectures(config)), "")
    if _OTHER_HEAD.search(named):
        return False
    try:
        architecture.read(config)
    except NotOurs:
        return False
    except (KeyError, UserError, TypeError, ValueError, AttributeError, ArithmeticError):
        return True  # what is wrong with it is said when it is opened
    return True


def check_own(folder: Path) -> None:
    """Nothing, when what config.json says of an architecture that `load` reads is no more than that.

    Raises:
        UserError: saying what Headway's model does not have.
    """
    config = config_of(folder)
    if (architecture := ARCHITECTURES.get(config.get("model_type", ""))) is not None:
        try:
            architecture.read(config)
        except NotOurs as error:
            raise UserError(f"{folder}/config.json: {error}") from None
        except KeyError as error:
            raise UserError(f"{folder}/config.json: it has no {error}; fetch or write it again") from None


def architecture_of(folder: Path) -> str:
    """What a folder's config.json calls its model: the class, or else the type.

    Raises:
        UserError: when it has no config.json, or that is no JSON, or names no classes in it.
    """
    config = config_of(folder)
    return shortened(next(iter(named_architectures(config)), str(config.get("model_type"))))


def named_architectures(config: dict[str, Any]) -> list[str]:
    """The classes that a config.json names; none where it names none.

    Raises:
        UserError: when they are no list of names.
    """
    named = config.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UserError(f"architectures {shortened(repr(named))} is no list of names; name the model's class in it")
    return named


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
    check_files(folder)
    path = folder / "config.json"
    try:
        content = read_json(path, LARGEST_TEXT)
    except FileNotFoundError:
        raise UserError(f"{folder} has no config.json; a folder of Hugging Face has one") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: it is no mapping, keys with values")
    if not isinstance(content.get("model_type"), str | None):
        given = shortened(repr(content["model_type"]))
        raise UserError(f"{path}: model_type {given} is no name; give that of an architecture")
    return content


def _weights(folder: Path, model: TransformerModel, vocab_size: int, table: Table | None, arrays: Arrays) -> Weights:
    parameters = parameters_of(model, vocab_size)
    found = {name: shape for name, shape in arrays.shapes.items() if not BUFFERS.fullmatch(name)}
    repeated = found.pop("lm_head.weight", None) if model.tied else None
    if wrong := differences(shapes_of(table, parameters), found):
        raise UserError(
            f"{folder}: {len(wrong)} arrays do not fit its config.json; one of the two is of another model:\n  "
            + "\n  ".join(wrong)
        )
    wanted = {parameter.name: place_of(table, parameter.name)[0] for parameter in parameters}
    check_types(folder, config_of(folder), {name: arrays.types[name] for name in wanted.values()})
    weights = {name: from_folder(table, name, arrays.read(there)) for name, there in wanted.items()}
    if repeated and not np.array_equal(arrays.read("lm_head.weight"), weights["embedding.weight"]):
        raise UserError(
            f"{folder}: config.json ties the read-out to the embedding, but lm_head.weight differs from "
            f"{wanted['embedding.weight']}; set tie_word_embeddings to false, or remove lm_head.weight"
        )
    return weights

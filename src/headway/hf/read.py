"""Folders and models of Hugging Face read as Headway's own model, without transformers for a folder.

The configuration declares the model. Then every array is looked up under its name there, with the shape that it must
have, before any is read. Arrays stand in one safetensors file, or in several with an index.

A model of transformers in memory becomes Headway's own in the same way, and shares its weights: any whose folder would
be read so (`own_version`), and for a trace alone those whose attention transformers does not open to others
(`converted`): GPT-Neo, and models that Headway exported with its own code.
"""

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from headway.base.files import read_json
from headway.base.text import listed
from headway.config.lm.budget import parameters_of
from headway.config.lm.model import TransformerModel
from headway.data.tokenizer import Tokenizer
from headway.errors import MOST_LINES, UserError, shortened
from headway.hf import architectures
from headway.hf.safety import (
    LARGEST_TEXT,
    check_built,
    check_declared,
    check_files,
    check_header,
    check_memory,
    read_mapping,
)
from headway.models.transformer import Transformer
from headway.models.weights import Weights, differences

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INDEX = "model.safetensors.index.json"
_READ = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Types of weights that are read, by the name that safetensors has for each."""
_TYPE = re.compile(r"auto|(bfloat|float)16|float(32|64|8_\w+)|u?int(4|8|16|32|64)")
"""Types of weights that a config.json may name."""


class Arrays:
    """Names, shapes and types of a folder's arrays; each is read when it is asked for.

    Args:
        folder: the folder with model.safetensors, or with its parts and their index.
        prefix: the beginning of every name but the read-out's; older folders leave it out, and it is put back.

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
                for name in file.keys():  # noqa: SIM118 - it is not a mapping
                    full = name if not prefix or name.startswith((f"{prefix}.", "lm_head.")) else f"{prefix}.{name}"
                    self._homes[full], array = (file, name), file.get_slice(name)
                    self.shapes[full], self.types[full] = tuple(array.get_shape()), array.get_dtype()
            except (SafetensorError, OSError) as error:
                said = shortened(str(error))
                raise UserError(f"{path}: it is damaged ({said}); fetch or write it again") from None

    @property
    def numbers(self) -> int:
        """The total number of numbers in all arrays."""
        return sum(map(math.prod, self.shapes.values()))

    def read(self, name: str) -> np.ndarray:
        """Return an array as float32."""
        file, its_name = self._homes[name]
        return file.get_tensor(its_name).float().numpy()


def check_types(folder: Path, config: Mapping[str, Any], types: Mapping[str, str]) -> None:
    """Raise UserError if weights are no floating-point numbers; warn if config.json says that they are of another type.

    Args:
        folder: the folder of the model.
        config: the content of its config.json.
        types: the type of each weight, as safetensors calls it.
    """
    if wrong := [f"{shortened(name)}: {kind}" for name, kind in sorted(types.items()) if kind not in _READ]:
        more = [f"and {len(wrong) - MOST_LINES:,} more"] if len(wrong) > MOST_LINES else []
        raise UserError(
            f"{folder}: weights have no floating-point type that Headway reads ({', '.join(_READ.values())}); fetch "
            "the model as it was before it was quantized:\n  " + "\n  ".join([*wrong[:MOST_LINES], *more])
        )
    dtype = config.get("dtype") or config.get("torch_dtype")
    if dtype is None:
        return
    name = dtype.removeprefix("torch.") if isinstance(dtype, str) else ""
    if not _TYPE.fullmatch(name):
        raise UserError(
            f"{folder}/config.json: torch_dtype {shortened(repr(dtype))} is not a type of weights; write the type that "
            "the file has, such as float32"
        )
    there = [_READ[kind] for kind in sorted(set(types.values()))]
    if there and name not in (*there, "auto"):
        warnings.warn(
            f"{folder}/config.json says that weights are {name}, but the file holds {listed(there)}; Headway reads the "
            "file, and computes in float32",
            RuntimeWarning,
            stacklevel=2,
        )


def weight_files(folder: Path) -> list[Path]:
    """Return the folder's safetensors files.

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
    """Return the files that an index names, all in the index's own folder."""
    content = read_json(index, LARGEST_TEXT)
    places = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise UserError(f"{index}: it cannot be understood (weight_map names no file for each array); fetch it again")
    names = sorted(set(places.values()))
    for name in names:
        if Path(name).name != name or len(name) > 255 or not name.endswith(".safetensors"):
            raise UserError(
                f"{index}: it names {shortened(repr(name))}, which is not a safetensors file of its folder; "
                "fetch it again"
            )
    return names


_OTHER_HEAD = re.compile(r"For(?!CausalLM)[A-Z]|DoubleHeads")
"""Endings of classes whose output is not the next token's logits."""


def load(folder: str | Path) -> Transformer:
    """Return the model of a folder: GPT-Neo, GPT-2, Llama, Mistral, or one that Headway exported.

    Raises:
        UserError: if there is no such folder, the architecture is unknown, or Headway's model cannot have the
            configuration. One line names each array that is missing, unexpected or of the wrong shape.
    """
    folder = Path(folder)
    config = config_of(folder)
    architecture = architectures.ARCHITECTURES.get(config.get("model_type", ""))
    if architecture is None:
        raise UserError(
            f"{folder}: its architecture is {shortened(repr(config.get('model_type')))}, which Headway does not read; "
            f"it reads {', '.join(architectures.ARCHITECTURES)}"
        )
    table = architecture.table
    arrays = Arrays(folder, architectures.place_of(table, "norm.weight")[0].partition(".")[0] if table else "")
    with _in_config(folder):
        check_declared(config, numbers=arrays.numbers, arrays=len(arrays.shapes))
        model, vocab_size = architecture.read(config), architectures.vocab_size_of(config)
        check_built((), fixed_bytes(model), numbers=arrays.numbers)
    check_memory(folder, arrays.numbers)
    return Transformer(model, vocab_size, _weights(folder, config, model, vocab_size, table, arrays)).eval()


@contextmanager
def _in_config(folder: Path) -> Iterator[None]:
    """Name a folder's config.json in every error within a block that reads its content."""
    try:
        yield
    except KeyError as error:
        raise UserError(f"{folder}/config.json: {error.args[0]} is missing; give it a value") from None
    except UserError as error:
        raise type(error)(f"{folder}/config.json: {error}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{folder}/config.json: it cannot be understood ({shortened(str(error))})") from None


def fixed_bytes(model: TransformerModel) -> int:
    """Return the bytes for making a model's fixed positions: angles, sines and cosines in float64 and 32."""
    widths = {"rotary": {heads.d_head for heads in model.layout.layers}, "sinusoidal": {model.d_model}}
    return 48 * model.n_positions * sum(widths.get(model.positions, ()))


def is_own(folder: Path) -> bool:
    """Return whether Headway's own model can represent a folder's model completely.

    Its architecture has to be one that `load` reads, without further options: a Llama with scaled rotary turns is not,
    nor a GPT-2 that classifies or reads an encoder.

    Raises:
        UserError: when it has no config.json, or that is no JSON.
    """
    config = config_of(folder)
    is_known = config.get("model_type") in architectures.ARCHITECTURES
    if not is_known or _OTHER_HEAD.search(next(iter(named_architectures(config)), "")):
        return False
    try:
        check_own(folder)
    except UserError as error:
        return not isinstance(error, architectures.NotOurs)  # opening it reports any other
    return True


def check_own(folder: Path) -> None:
    """Raise UserError if config.json asks for more than Headway's version of its architecture has.

    Raises:
        UserError: saying what Headway's model does not have.
    """
    config = config_of(folder)
    architecture = architectures.ARCHITECTURES.get(config.get("model_type", ""))
    if architecture is not None:
        with _in_config(folder):
            architecture.read(config)


def architecture_of(folder: Path) -> str:
    """Return the name of a folder's model in config.json: its class, or else its type.

    Raises:
        UserError: when it has no config.json, or that is no JSON, or names no classes in it.
    """
    config = config_of(folder)
    return shortened(next(iter(named_architectures(config)), str(config.get("model_type"))))


def named_architectures(config: dict[str, Any]) -> list[str]:
    """Return the classes that a config.json names; none if it names none.

    Raises:
        UserError: when they are no list of names.
    """
    named = config.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise UserError(f"architectures {shortened(repr(named))} is not a list of names; name the model's class in it")
    return named


def tokenizer(folder: str | Path) -> Tokenizer | None:
    """Return the tokenizer of a folder; None if there is none.

    Raises:
        UserError: when it cannot be read.
    """
    folder = Path(folder)
    whole, vocabulary, merges = ((folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    return Tokenizer.load(folder) if whole or (vocabulary and merges) else None


ADAPTER = "adapter_config.json"
"""The file that peft writes beside an adapter's weights."""


def adapter_beside(folder: Path) -> str:
    """Return what to do with a folder of an adapter, such as LoRA, whose weights Headway would leave out."""
    return (
        f"{folder}: it has an adapter ({ADAPTER}), such as LoRA, and Headway reads whole models; merge the two with "
        "peft: model.merge_and_unload().save_pretrained(OUT). To read the base model alone, move the adapter away"
    )


def config_of(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's config.json.

    Raises:
        UserError: when there is none, or it is no JSON.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; give one with a config.json and model.safetensors")
    check_files(folder)
    if (folder / ADAPTER).is_file():
        raise UserError(adapter_beside(folder))
    path = folder / "config.json"
    try:
        content = read_mapping(path)
    except FileNotFoundError:
        raise UserError(f"{folder} has no config.json; give a Hugging Face model folder") from None
    model_type = content.get("model_type")
    if not isinstance(model_type, str | None):
        raise UserError(f"{path}: model_type {shortened(repr(model_type))} is not a name; give that of an architecture")
    return content


def _weights_among(held: Mapping[str, Any], model: TransformerModel) -> tuple[dict[str, Any], Any]:
    """Return what belongs to a model's own arrays, and to a read-out that repeats the embedding."""
    weights = {name: array for name, array in held.items() if not architectures.BUFFERS.fullmatch(name)}
    return weights, weights.pop("lm_head.weight", None) if model.tied else None


def _weights(
    folder: Path,
    config: Mapping[str, Any],
    model: TransformerModel,
    vocab_size: int,
    table: architectures.Table | None,
    arrays: Arrays,
) -> Weights:
    parameters = parameters_of(model, vocab_size)
    shapes, repeated = _weights_among(arrays.shapes, model)
    if wrong := differences(architectures.shapes_of(table, parameters), shapes, "configuration"):
        raise UserError(
            f"{folder}: {len(wrong)} arrays do not fit its config.json; one of the two is of another model:\n  "
            + "\n  ".join(wrong)
        )
    wanted = {parameter.name: architectures.place_of(table, parameter.name)[0] for parameter in parameters}
    check_types(folder, config, {name: arrays.types[name] for name in wanted.values()})
    weights = {name: architectures.from_folder(table, name, arrays.read(there)) for name, there in wanted.items()}
    if repeated and not np.array_equal(arrays.read("lm_head.weight"), weights["embedding.weight"]):
        raise UserError(
            f"{folder}: config.json ties the read-out to the embedding, but lm_head.weight differs from "
            f"{wanted['embedding.weight']}; set tie_word_embeddings to false, or remove lm_head.weight"
        )
    return weights


CONVERTED = ("gpt_neo", "headway")
"""The values of `model_type` that `converted` reads."""


def converted(model: "PreTrainedModel") -> Transformer:
    """Return Headway's version of a model without its read-out, in float32, on its device and in its mode.

    Raises:
        UserError: if Headway's model cannot have the configuration, or the model has hooks, which Headway's version
            would not have.
    """
    name, architecture = type(model).__name__, architectures.ARCHITECTURES[model.config.model_type]
    if (where := hooked(model)) is not None:
        raise UserError(
            f"{name} cannot be traced with a hook or a changed forward at {where}: Headway reads only its weights; "
            "remove the hook or the change"
        )
    try:
        # A tied model has no separate array for the read-out.
        declared = architecture.read({**model.config.to_dict(), "tie_word_embeddings": True})
    except UserError as error:
        raise UserError(f"{name} cannot be traced: {error}") from None
    held = {
        f"{model.base_model_prefix}.{array}".removeprefix("."): tensor
        for array, tensor in model.base_model.state_dict().items()
    }
    vocab_size = model.get_input_embeddings().num_embeddings
    return _sharing(declared, vocab_size, architecture.table, held).to(model.device).train(model.training)


def own_version(model: "PreTrainedModel") -> Transformer | None:
    """Return a decoder in memory as Headway's own model, as its folder would be read; None if it would not be.

    The two share weights of float32 and better; others are copied to float32.
    """
    architecture = architectures.ARCHITECTURES.get(model.config.model_type)
    if architecture is None or type(model).__name__ != architecture.loaded_as or hooked(model) is not None:
        return None
    try:
        declared = architecture.read(model.config.to_dict())
    except UserError:
        return None
    vocab_size = model.get_input_embeddings().num_embeddings
    weights, readout = _weights_among(model.state_dict(), declared)
    needed = architectures.shapes_of(architecture.table, parameters_of(declared, vocab_size))
    if needed != {name: tuple(tensor.shape) for name, tensor in weights.items()}:
        return None
    own = _sharing(declared, vocab_size, architecture.table, weights)
    if readout is not None and not torch.equal(readout.float(), own.embedding.weight):
        return None
    return own.to(model.device).eval()


def _sharing(
    declared: TransformerModel, vocab_size: int, table: architectures.Table | None, held: Mapping[str, torch.Tensor]
) -> Transformer:
    """Return a model of these weights, which shares those that it can compute with."""
    shared = {}
    for parameter in parameters_of(declared, vocab_size):
        name = parameter.name
        whole = held[architectures.place_of(table, name)[0]].detach()
        exact = whole if whole.dtype == torch.float64 else whole.float()
        array = architectures.from_folder(table, name, exact)
        shared[name] = array.clone() if exact.is_inference() else array
    return Transformer(declared, vocab_size, shared=shared)


def hooked(model: torch.nn.Module) -> str | None:
    """Return the path of a part whose output something else than its class decides; None if there is none.

    That is a part with a hook on its forward pass, or with a forward of its own that is not only a compiled one.
    """
    for path, module in model.named_modules():
        own = vars(module).get("forward")
        compiled = own is None or hasattr(own, "_torchdynamo_orig_callable")
        if module._forward_hooks or module._forward_pre_hooks or not compiled:
            return path or type(module).__name__
    return None

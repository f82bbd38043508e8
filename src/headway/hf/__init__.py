"""Models of Hugging Face opened as Headway's, and Headway's models written as theirs.

* `read`: a folder as Headway's model (no transformers needed); `architectures`: what its files mean; `safety`:
  limits on its files and their sizes;
* `write`: a folder written; `configuration_headway`, `modeling_headway`: the code that goes along when no stock
  architecture fits;
* `open`: any folder, opened by transformers; `recorder`: what the heads of such a model do; `interface`: how its
  attention is reached; `redraw`: its re-initialised heads; `intervene`: its heads removed and patched;
  `stream_sums`: whether its layers only add to one stream.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headway.data.tokenizer import Tokenizer
    from headway.hf.open import Pretrained
    from headway.models.trace import Trace
    from headway.models.transformer import Transformer

__all__ = ["load", "open_pretrained", "tokenizer", "trace", "traceable"]


def load(folder: str | Path) -> "Transformer":
    """Return the model of a folder: GPT-Neo, GPT-2, Llama, Mistral, or one that Headway exported.

    Raises:
        UserError: saying what is wrong with the folder, or what Headway's model cannot be.
    """
    from headway.hf import read

    return read.load(folder)


def tokenizer(folder: str | Path) -> "Tokenizer | None":
    """Return the tokenizer of a folder; None if there is none.

    Raises:
        UserError: when it cannot be read.
    """
    from headway.hf.read import read_tokenizer

    return read_tokenizer(Path(folder))


def open_pretrained(folder: str | Path, *, trust_code: bool = False) -> "Pretrained":
    """Open any folder of Hugging Face as transformers' model, without a network.

    Args:
        folder: the folder, with a config.json and weights in safetensors.
        trust_code: True to run code that comes with the folder, if the folder needs it.

    Raises:
        UserError: if the folder cannot be opened, with the reason, or transformers is not installed.
    """
    _need_transformers("opening a folder of Hugging Face as it is")
    from headway.hf import open as pretrained

    return pretrained.open_pretrained(folder, trust_code=trust_code)


def trace(model: "PreTrainedModel", inputs: Mapping[str, Any] | Any) -> "Trace":
    """Return what every head of a model of transformers does with a text.

    Args:
        model: a model of any architecture, device and precision.
        inputs: the inputs of the model, by name, or tokens alone.

    Raises:
        UserError: if the model cannot be traced, or tokens are outside its vocabulary.
    """
    _need_transformers("tracing a model of Hugging Face")
    from headway.hf import recorder

    return recorder.trace(model, inputs)


def traceable(model: "PreTrainedModel") -> None:
    """Raise UserError if `trace` cannot begin; nothing is run.

    Raises:
        UserError: saying why the model cannot be traced.
    """
    _need_transformers("tracing a model of Hugging Face")
    from headway.hf import recorder

    recorder.traceable(model)


def _need_transformers(what: str) -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise UserError(f"{what} needs the package transformers; pip install 'headway[hf]'") from None

"""Models of Hugging Face as Headway's, and Headway's as theirs.

* `reading`: a folder as Headway's model (no transformers needed); `architectures`: what its files mean; `safety`: what
  its files may be and how large;
* `write`: a folder written; `configuration_headway`, `modeling_headway`: the code that goes along when no stock
  architecture fits;
* `open`: any folder, opened by transformers; `tracing`: what the heads of such a model do; `interface`: how its
  attention is reached; `redraw`: its re-initialised heads; `intervene`: its heads removed and patched.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headway.data.tokenizer import Tokenizer
    from headway.hf.open import Pretrained
    from headway.models.redraw import Redrawable
    from headway.models.trace import Trace
    from headway.models.transformer import Transformer

__all__ = ["load", "open_pretrained", "tokenizer", "trace", "traceable"]


def load(folder: str | Path) -> "Transformer":
    """A GPT-Neo, GPT-2, Llama or Mistral folder, or one that Headway exported, as Headway's own model.

    Raises:
        UserError: saying what is wrong with the folder, or what Headway's model cannot be.
    """
    from headway.hf import reading

    return reading.load(folder)


def check_own(folder: str | Path) -> None:
    """Nothing, when what a folder's config.json says of an architecture that `load` reads is no more than that.

    Raises:
        UserError: saying what Headway's model does not have.
    """
    from headway.hf import reading

    reading.check_own(Path(folder))


def tokenizer(folder: str | Path) -> "Tokenizer | None":
    """The tokenizer of a folder; None if there is none.

    Raises:
        UserError: when it cannot be read.
    """
    from headway.hf.reading import tokenizer_of

    return tokenizer_of(Path(folder))


def open_pretrained(folder: str | Path, *, trust_code: bool = False) -> "Pretrained":
    """Any folder of Hugging Face as transformers' model, without a network; see `pretrained.open_pretrained`.

    Args:
        folder: with a config.json and weights in safetensors.
        trust_code: whether code that comes with the folder is run where it cannot be opened without.

    Raises:
        UserError: saying what is wrong with the folder, or that transformers is not installed.
    """
    _need_transformers("opening a folder of Hugging Face as it is")
    from headway.hf import open as pretrained

    return pretrained.open_pretrained(folder, trust_code=trust_code)


def trace(model: "PreTrainedModel", inputs: Mapping[str, Any] | Any) -> "Trace":
    """What every head of a model of transformers does with a text; see `tracing.trace`.

    Args:
        model: of any architecture, device and precision.
        inputs: what the model is called with, or tokens alone.

    Raises:
        UserError: for a model that cannot be traced, and tokens outside its vocabulary.
    """
    _need_transformers("tracing a model of Hugging Face")
    from headway.hf import tracing

    return tracing.trace(model, inputs)


def read(model: "PreTrainedModel", tokens: Any) -> "Redrawable":
    """The same of tokens, with what heads would do that are drawn anew; see `redrawing.read`.

    Raises:
        UserError: as `trace`.
    """
    _need_transformers("tracing a model of Hugging Face")
    from headway.hf import redraw as redrawing

    return redrawing.read(model, tokens)


def traceable(model: "PreTrainedModel") -> None:
    """Nothing, where `trace` can begin; nothing is run.

    Raises:
        UserError: saying why the model cannot be traced.
    """
    _need_transformers("tracing a model of Hugging Face")
    from headway.hf import tracing

    tracing.traceable(model)


def _need_transformers(what: str) -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise UserError(f"{what} needs the package transformers; pip install 'headway[hf]'") from None

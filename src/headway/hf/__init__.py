"""Hugging Face models opened as Headway models, and Headway models written as Hugging Face folders.

* `read`: a folder as Headway's model (no transformers needed); `architectures`: what its files mean; `safety`:
  limits on its files and their sizes;
* `write`: a folder written; `configuration_headway`, `modeling_headway`: the code that goes along when no stock
  architecture fits;
* `open`: any folder, opened by transformers; `recorder`: what the heads of such a model do; `interface`: how its
  attention is reached; `redraw`: its re-initialised heads; `intervene`: its heads removed and patched;
  `stream_sums`: whether its layers only add to one stream.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.errors import UserError

if TYPE_CHECKING:
    from headway.hf.open import open_pretrained as open_pretrained
    from headway.hf.read import load as load
    from headway.hf.read import tokenizer as tokenizer
    from headway.hf.recorder import trace as trace
    from headway.hf.recorder import traceable as traceable

_HOMES = {
    "load": "read",
    "open_pretrained": "open",
    "tokenizer": "read",
    "trace": "recorder",
    "traceable": "recorder",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headway.hf' has no attribute {name!r}; it has {', '.join(__all__)}")
    try:
        return getattr(import_module(f"headway.hf.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise UserError(
            "opening or tracing a model of Hugging Face needs the package transformers; pip install '.[hf]'"
        ) from None

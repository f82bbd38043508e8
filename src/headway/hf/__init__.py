"""Models: those of Hugging Face as Headway's, and Headway's as theirs.

* `folder`: a folder read (no transformers needed); `architectures`, `names`, `description`: what it means;
* `export`: a folder written; `configuration_headway`, `modeling_headway`: the code that goes along when no stock
  architecture fits.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.data.tokenizer import Tokenizer
    from headway.model.transformer import Transformer

__all__ = ["load", "tokenizer"]


def load(folder: str | Path) -> "Transformer":
    """A GPT-Neo, GPT-2, Llama or Mistral folder, or one that Headway exported, as Headway's own model.

    Raises:
        UserError: saying what is wrong with the folder, or what Headway's model cannot be.
    """
    from headway.hf.folder import read_folder
    from headway.model.transformer import Transformer

    found = read_folder(folder)
    return Transformer(found.model, found.vocab_size, found.weights).eval()


def tokenizer(folder: str | Path) -> "Tokenizer | None":
    """The tokenizer of a folder; None if there is none.

    Raises:
        UserError: when it cannot be read.
    """
    from headway.hf.folder import tokenizer_of

    return tokenizer_of(Path(folder))

"""Models: queries, keys and values of a model of transformers, changed as they enter its own attention function.

That is after norms and rotary turns, whatever the architecture; masks, caps and biases stay the function's own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from headway.hf.interface import attentions, intercepted, own_function
from headway.model.edits import Edits, edited


@contextmanager
def attending(model: PreTrainedModel, layers: Mapping[str, int], edits: Edits) -> Iterator[None]:
    """Within, attentions compute with edited queries, keys and values.

    Args:
        model: whose attentions they are.
        layers: of each attention's path.
        edits: of q, k and v; of KV heads.
    """
    paths = attentions(model)

    def attend(implementation: str, module: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Any:
        layer = layers[paths[module]]
        q, k, v = edited(q, edits, layer, "q"), edited(k, edits, layer, "k"), edited(v, edits, layer, "v")
        return own_function(module, implementation)(module, q, k, v, *rest, **options)

    with intercepted(model, attend):
        yield

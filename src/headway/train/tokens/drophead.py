"""Train: DropHead: which heads are dropped in which examples of a step, a pure function of the run and the step.

Paper: Zhou et al. 2020, arXiv 2004.13342. As there, the output of a layer is scaled by heads over heads kept, and a
mask that would drop every head is drawn again; here the mask is drawn for each example.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from headway import streams


def head_gates(
    n_heads: Sequence[int], probability: float, examples: int, *, seed: int, step: int
) -> Float32[np.ndarray, "examples total_heads"]:
    """What multiplies each head's context: 0 for a dropped head, heads / kept for the others; layer after layer.

    Examples:
        >>> head_gates((2, 1), 0.5, 3, seed=0, step=1)[:, 2]
        array([1., 1., 1.], dtype=float32)
    """
    draw = streams.generator(seed, "drophead", step)
    layers = [_layer(draw, heads, probability, examples) for heads in n_heads]
    return np.concatenate(layers, axis=1, dtype=np.float32)


def _layer(draw: np.random.Generator, heads: int, probability: float, examples: int) -> np.ndarray:
    if heads < 2:  # a single head is never dropped
        return np.ones((examples, heads))
    kept = draw.random((examples, heads)) >= probability
    while (none := ~kept.any(1)).any():
        kept[none] = draw.random((int(none.sum()), heads)) >= probability
    return kept * (heads / kept.sum(1, keepdims=True))

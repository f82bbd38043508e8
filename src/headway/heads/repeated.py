"""Heads: random tokens, repeated: the text on which duplicate-token and induction heads show.

Nothing but repetition helps to predict them, so what a head attends to on the second occurrence is its own rule.

Paper: Olsson et al. 2022, arXiv 2209.11895.
"""

import numpy as np
from jaxtyping import Int64

from headway.errors import UserError
from headway.streams import generator


def repeated_tokens(vocab_size: int, period: int, batch: int, seed: int) -> Int64[np.ndarray, "batch length"]:
    """Texts of `period` random tokens, then the same again.

    A token stands once in a period where the vocabulary is large enough, so that there is one earlier occurrence.

    Raises:
        UserError: for a period below 2, or no vocabulary or batch.

    Examples:
        >>> tokens = repeated_tokens(vocab_size=50, period=4, batch=2, seed=0)
        >>> tokens.shape, bool((tokens[:, :4] == tokens[:, 4:]).all())
        ((2, 8), True)
    """
    for name, given, least in (("vocab_size", vocab_size, 1), ("period", period, 2), ("batch", batch, 1)):
        if given < least:
            raise UserError(f"repeated tokens with {name} {given} were asked for; {name} must be at least {least}")
    random = generator(seed, "repeated tokens", vocab_size, period)
    once = vocab_size >= period
    half = np.stack([random.choice(vocab_size, period, replace=not once) for _ in range(batch)]).astype(np.int64)
    return np.concatenate((half, half), axis=1)

"""Independent random streams, one for each seed and purpose.

No generator is shared: drawing for one purpose never changes the numbers drawn for another.
"""

import hashlib
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np


def key(seed: int, *purpose: Hashable) -> int:
    """Return a 64-bit key for a seed and a purpose; different purposes give unrelated keys.

    Examples:
        >>> key(0, "train") != key(0, "initial weights")
        True
    """
    return int.from_bytes(hashlib.sha256(repr((int(seed), *purpose)).encode()).digest()[:8], "little")


def generator(seed: int, *purpose: Hashable) -> np.random.Generator:
    """Return a fresh numpy generator for a seed and a purpose.

    Examples:
        >>> float(generator(0, "doc").uniform()) == float(generator(0, "doc").uniform())
        True
    """
    return np.random.Generator(np.random.Philox(key(seed, *purpose)))


def shared_states() -> tuple[Any, ...]:
    """Return the states of the global generators of numpy and torch; the state of `random` is not included.

    Examples:
        >>> before = shared_states()
        >>> _ = generator(0, "doc").uniform()
        >>> shared_states() == before
        True
    """
    numpy_state = np.random.get_state()  # noqa: NPY002 - to see that nobody uses it
    torch = sys.modules.get("torch")
    torch_state = b"" if torch is None else torch.get_rng_state().numpy().tobytes()
    return (*(np.asarray(part).tobytes() for part in numpy_state), torch_state)

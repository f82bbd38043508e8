"""Ground floor: one canonical form of a JSON value, and its hash.

Two values that mean the same have the same text, so a run can be known by its content.
"""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """The canonical JSON text of a value: sorted keys, no spaces, shortest numbers.

    Raises:
        ValueError: for NaN and infinities, which JSON cannot hold.

    Examples:
        >>> canonical({"b": 1.0, "a": [True, None]})
        '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """The first 16 hexadecimal digits of SHA-256 of the canonical JSON of a value.

    Examples:
        >>> digest({"a": 1}) == digest(dict(a=1))
        True
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]

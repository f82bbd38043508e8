"""One canonical form of a JSON value and its hash; keys left out of a mapping, and values grouped by a key.

Two values with one meaning have one text. So Headway identifies a run by its content, and a stored value shows whether
it was changed.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

DIGEST = "digest"
"""The key under which a signed mapping holds the digest of its other entries."""


V = TypeVar("V")
K = TypeVar("K", bound=Hashable)


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, shortest numbers.

    Raises:
        ValueError: if the value has NaN or infinities, which JSON cannot hold.

    Examples:
        >>> canonical({"b": 1.0, "a": [True, None]})
        '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 of the canonical JSON of a value.

    Examples:
        >>> digest({"a": 1}) == digest(dict(a=1))
        True
    """
    text = canonical(value)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def without(content: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a mapping without some of its keys.

    Examples:
        >>> without({"a": 1, "b": 2}, "b", "c")
        {'a': 1}
    """
    return {key: value for key, value in content.items() if key not in keys}


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Return values by key, both in the order in which they come.

    Examples:
        >>> grouped(["a", "bb", "c"], len)
        {1: ['a', 'c'], 2: ['bb']}
    """
    groups: dict[K, list[V]] = {}
    for value in values:
        of_key = groups.setdefault(key(value), [])
        of_key.append(value)
    return groups


def signed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping of JSON values with the digest of its content, so that its reader notices damage.

    Examples:
        >>> signed({"a": 1})
        {'a': 1, 'digest': '015abd7f5cc57a2d'}
    """
    rest = without(content, DIGEST)
    return {**rest, DIGEST: digest(rest)}


def is_as_signed(content: Mapping[str, Any]) -> bool:
    """Return whether a mapping has the digest of its content; False for one that was never signed.

    Examples:
        >>> is_as_signed(signed({"a": 1})), is_as_signed({**signed({"a": 1}), "a": 2}), is_as_signed({"a": 1})
        (True, False, False)
    """
    try:
        own = signed(content)[DIGEST]
        return bool(content.get(DIGEST) == own)
    except ValueError:  # NaN or an infinity, which cannot have been signed
        return False

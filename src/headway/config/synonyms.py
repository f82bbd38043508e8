"""Synonyms: the field's words for keys and options, accepted beside the older names.

Documents, settings and ids hold the older name, so that a run keeps its id and a stored directory its content. Help and
documentation show the field's word first.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headway.errors import DeclarationError, UserError

KEYS: Mapping[str, Mapping[str, str]] = {
    "training": {"grad_accumulation": "accumulate", "lr_schedule": "decay"},
    "model": {"mask": "attends"},
    "arm": {"init_from": "start"},
}
"""By the part of a document, the field's word and the older name of a key."""

_DEEPEST = 5
"""The most keys above a key that has two names: `scales.NAME.arms.NAME.training`."""

OPTIONS: Mapping[str, str] = {
    "--max-seeds": "--at-most",
    "--null-draws": "--draws",
    "--batch-runs": "--together",
    "--shared-fs/--no-shared-fs": "--shared/--no-shared",
}
"""The field's word and the older name of an option."""


def older_keys(content: Any, place: tuple[str, ...] = ()) -> Any:
    """Return a document, or the part of one at a place, with the older name of every key.

    Raises:
        DeclarationError: when both names of a key are given.

    Examples:
        >>> older_keys({"arms": {"a": {"init_from": {"arm": "b"}, "training": {"lr_schedule": "cosine"}}}})
        {'arms': {'a': {'start': {'arm': 'b'}, 'training': {'decay': 'cosine'}}}}
    """
    if not isinstance(content, Mapping) or len(place) > _DEEPEST:
        return content
    names = KEYS.get(_part(place), {})
    for word, older in names.items():
        if word in content and older in content:
            where = ".".join((*place, word))
            raise DeclarationError(f"{where}: {word} and {older} are two names of one key; keep {word}")
    return {names.get(key, key): older_keys(value, (*place, str(key))) for key, value in content.items()}


def field_keys(content: Any, place: tuple[str, ...] = ()) -> Any:
    """Return a document, or the part of one at a place, with the field's word for every key.

    Examples:
        >>> field_keys({"training": {"decay": "cosine", "steps": 9}})
        {'training': {'lr_schedule': 'cosine', 'steps': 9}}
    """
    if not isinstance(content, Mapping) or len(place) > _DEEPEST:
        return content
    words = {older: word for word, older in KEYS.get(_part(place), {}).items()}
    return {words.get(key, key): field_keys(value, (*place, str(key))) for key, value in content.items()}


def older_path(path: str) -> str:
    """Return a dotted path with the older name of every key.

    Examples:
        >>> older_path("controls.long.training.grad_accumulation")
        'controls.long.training.accumulate'
    """
    keys = path.split(".")
    parts = [_part(tuple(keys[:depth])) for depth in range(min(len(keys), _DEEPEST + 1))]
    first = [KEYS.get(part, {}).get(key, key) for part, key in zip(parts, keys, strict=False)]
    return ".".join([*first, *keys[len(first) :]])


def _part(place: tuple[str, ...]) -> str:
    """Return which part of a document a place is: `training` and the like, `arm` for a whole arm, else empty."""
    match place[2:] if place[:1] == ("scales",) else place:
        case ("arms", _):
            return "arm"
        case (part,) | ("arms" | "controls", _, part):
            return part
    return ""


def both_names(older: str) -> tuple[str, ...]:
    """Return the names of an option, the field's word first.

    Examples:
        >>> both_names("--at-most")
        ('--max-seeds', '--at-most')
    """
    return (*(word for word, name in OPTIONS.items() if name == older), older)


def check_options(words: Iterable[str]) -> None:
    """Raise UserError if a command line has both names of an option.

    Raises:
        UserError: naming them.
    """
    given = {word.partition("=")[0] for word in words}
    for names in OPTIONS.items():
        found = [sorted(given & set(name.split("/"))) for name in names]
        if all(found):
            raise UserError(f"{found[0][0]} and {found[1][0]} are two names of one option; give one of them")

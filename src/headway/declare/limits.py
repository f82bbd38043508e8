"""Declare: how large a declaration may be; counted before anything of that size is made.

An experiment is a page or two of text. What is far beyond that is a slip of the finger or an attack, and would only
show as a full memory or as a command that does not end.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headway.errors import DeclarationError, shortened
from headway.files import NotOrdinary, ordinary

LARGEST_FILE = 2_000_000
"""Bytes of an experiment's file."""
MOST_VALUES = 50_000
"""Keys and values of a file, an alias counted as often as it stands."""
MOST_CHARACTERS = 500_000
"""Of all texts and numbers of a file, counted in the same way."""
DEEPEST = 32
"""Mappings and lists inside one another; an experiment has six."""
MOST_DIGITS = 100
"""Of a number."""
MOST_SETTINGS = 500
"""Settings of a command line."""
MOST_SETTINGS_OF_ARMS = 100_000
"""The same, times the arms, since each setting is looked for in each arm."""
LONGEST_NAME = 120
"""Of an arm, a control or an experiment; two of them and a sign between are a folder's name, at most 255 bytes."""
LONGEST_PATH = 4_096
"""Bytes of a path, as file systems have it."""
LARGEST_WHOLE = 10**15
"""Of whole numbers that are no seeds."""
LARGEST_NUMBER = 1e30
"""Of all others: between them and float32's end there has to be room for squares."""
MOST_LAYERS = 2_048
WIDEST = 10**9
"""Of a width or a context."""
MOST_NUMBERS = 10**15
"""Of a model: a thousand times the largest that was ever trained."""
MOST_BATCH = 10**15
"""Numbers of a batch: its examples, tokens and width multiplied."""
MOST_ARMS = 5_000
"""Arms, each counted with every control."""
MOST_ARM_VALUES = 1_000_000
"""Keys and values of all arms under all controls, each with what it shares with the others."""
MOST_MODELS = 16
"""Of a page on which one looks at heads."""

_SEEDS = ("seed", "seeds")


def read_text(path: Path) -> str:
    """The text of a file of an experiment's size.

    Raises:
        DeclarationError: when it is no file, cannot be read, is too large, or is no UTF-8.
    """
    try:
        with ordinary(path, links=True) as file:
            content = file.read(LARGEST_FILE + 1)
    except NotOrdinary:
        raise DeclarationError(f"{shortened(str(path))}: this is no file; give the path of a text file") from None
    except (OSError, ValueError) as error:
        why = "it is a folder" if isinstance(error, IsADirectoryError) else getattr(error, "strerror", None) or error
        raise DeclarationError(f"{shortened(str(path))}: cannot be read as a text file: {why}") from None
    if len(content) > LARGEST_FILE:
        raise DeclarationError(
            f"{path}: the file is larger than {LARGEST_FILE / 1e6:g} MB, and an experiment is a page or two; is it the "
            "right file?"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DeclarationError(
            f"{path}: cannot be read as a text file: byte {error.start:,} is not UTF-8; save it in that encoding"
        ) from None


def exists_as_file(path: Path) -> bool:
    """Whether there is a file, or what can be read like one; False for a path that no file system would take."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def odd_character(text: str) -> str | None:
    r"""The first character of a text that cannot be written or shown, by its number; None where all can.

    Examples:
        >>> odd_character("one\ntwo"), odd_character("red \x1b[31m")
        (None, 'U+001B')
    """
    if text.isprintable():
        return None
    for character in text:
        code = ord(character)
        if (code < 32 and character not in "\t\n\r") or 127 <= code < 160 or 0xD800 <= code < 0xE000:
            return f"U+{code:04X}"
    return None


def check_path(path: str, key: str) -> None:
    """Refuse a path that no file system would take.

    Raises:
        ValueError: saying what is wrong with it.
    """
    if len(os.fsencode(path)) >= LONGEST_PATH or any(len(os.fsencode(part)) > 255 for part in path.split("/")):
        raise ValueError(
            f"{key} {shortened(repr(path))} is too long for a path: 255 bytes a name and {LONGEST_PATH:,} in all; "
            "give another"
        )


def too_large(value: Any, path: tuple[str, ...] = ()) -> Iterable[tuple[str, str]]:
    """Each number of a nested value that is beyond any use, by its dotted path, with what is wrong; seeds aside.

    Examples:
        >>> list(too_large({"model": {"d_model": 10**18}}))
        [('model.d_model', '1000000000000000000 was given; no whole number is above 1e+15 here: give a smaller one')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _SEEDS:
                yield from too_large(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            if isinstance(inner, int | float | list | tuple | Mapping):
                yield from too_large(inner, path)
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        yield (
            ".".join(path),
            f"{shortened(str(value))} was given; no whole number is above {LARGEST_WHOLE:.0e} here: give a smaller one",
        )
    elif isinstance(value, float) and LARGEST_NUMBER < abs(value) < float("inf"):
        yield (
            ".".join(path),
            f"{value!r} was given; no number is above {LARGEST_NUMBER:.0e} here: give a smaller one",
        )


def check_numbers(numbers: float, batch: float, lower: str) -> None:
    """Refuse a model, or a batch, that no machine holds; what this one holds is counted before a run.

    Args:
        numbers: of the model, at least.
        batch: numbers of a batch.
        lower: the keys that set the model's size.

    Raises:
        ValueError: with what was asked for.
    """
    if numbers > MOST_NUMBERS:
        raise ValueError(
            f"a model of about {float(numbers):.0e} numbers was asked for, and no machine holds more than "
            f"{MOST_NUMBERS:.0e}; lower {lower}"
        )
    if batch > MOST_BATCH:
        raise ValueError(
            f"a batch of about {float(batch):.0e} numbers was asked for, and no machine holds more than "
            f"{MOST_BATCH:.0e}; lower training.batch_size"
        )


def check_arms(arms: int, controls: int, values: Iterable[int]) -> None:
    """Refuse more arms and controls than can be resolved; counted before the first is.

    Args:
        arms: how many there are.
        controls: how many cross them.
        values: for each arm the keys and values that it and its controls have with what all share.

    Raises:
        DeclarationError: with both numbers.
    """
    count = arms * (controls + 1)
    if count > MOST_ARMS:
        raise DeclarationError(
            f"{arms:,} arms, each alone and under {controls:,} controls, are {count:,} of them, and {MOST_ARMS:,} are "
            "allowed; take several files"
        )
    total = sum(values) * (controls + 1)
    if total > MOST_ARM_VALUES:
        raise DeclarationError(
            f"{count:,} arms, those under controls among them, have {total:,} keys and values together, and "
            f"{MOST_ARM_VALUES:,} are allowed; shorten what they share, or take several files"
        )


def count_values(value: Any) -> int:
    """Keys and values of a nested value.

    Examples:
        >>> count_values({"a": [1, 2]})
        4
    """
    if isinstance(value, Mapping):
        return 1 + sum(map(count_values, value.values()))
    if isinstance(value, list | tuple):
        return 1 + (sum(map(count_values, value)) if value else 0)
    return 1

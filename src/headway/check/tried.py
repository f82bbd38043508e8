"""Check: code of the user's is tried twice: whether it fails, gives the same again, and leaves what is not its own."""

from collections.abc import Callable
from typing import Any

from headway import streams
from headway.errors import UserError


class Broken(Exception):
    """What was tried breaks a law; the message is a sentence that says which, and what to do."""


def tried(function: Callable[[], Any], what: str, same: Callable[[Any, Any], bool]) -> Any:
    """What a function gives.

    Args:
        function: that is tried, twice.
        what: it was asked to do, for the sentence.
        same: whether what it gave twice is the same.

    Raises:
        Broken: when it raises, gives something else the second time, or draws from a generator that others use.
    """
    before = streams.shared_states()
    try:
        one, other = function(), function()
    except UserError as error:  # which says itself what to do
        raise Broken(f"{what}: {error}") from error
    except Exception as error:
        raise Broken(f"{what} raised {type(error).__name__}: {error}; put that right") from error
    if before != streams.shared_states():
        raise Broken(
            f"{what} changed a global random generator (numpy.random or torch), which others draw from; do "
            "without random numbers, or take them from a generator of a fixed seed"
        )
    try:
        alike = same(one, other)
    except Exception as error:
        raise Broken(f"{what} gave {type(one).__name__}, which is no number; give one") from error
    if not alike:
        raise Broken(
            f"{what} gave something else the second time; make it a function of what it is given alone, without random "
            "numbers"
        )
    return one

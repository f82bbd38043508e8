"""The exceptions that Headway raises, and the help they carry.

Every message names the request, what is wrong with it, and what to do. The command line prints a `UserError` without a
traceback and exits with code 2.
"""

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator

MOST_LINES = 20
LONGEST_LINE = 2_000
MOST_NAMES = 80
LONGEST_VALUE = 200
"""Characters of a value in a message; of a longer one the middle is left out."""
_LONG = re.compile(rf"(?<!\w)'[^']{{{LONGEST_VALUE + 1},}}'(?!\w)|\S{{{LONGEST_VALUE + 1},}}")
"""A text in quotes that is longer, or a word."""


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """A text with its middle left out where it is long.

    Examples:
        >>> shortened("abcdefgh" * 10, 24)
        'abcdefgh ... (64 characters) ... abcdefgh'
    """
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[:end]} ... ({len(text) - 2 * end:,} characters) ... {text[-end:]}"


class HeadwayError(Exception):
    """An error that Headway itself reports."""


class UserError(HeadwayError, ValueError):
    """A request of the user that cannot be fulfilled as it was made.

    The message stays readable, however long the values are that it names.

    Examples:
        >>> len(str(UserError(f"there is no scale {'- ' * 50_000!r}; choose from: laptop")))
        200
    """

    def __str__(self) -> str:
        lines = super().__str__().split("\n")
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES:,} more"]
        cut = (_LONG.sub(lambda found: shortened(found[0]), line) for line in lines)
        return "\n".join(shortened(line, LONGEST_LINE) for line in cut)


class DeclarationError(UserError):
    """An experiment, or a value in one, is not what Headway understands."""


class ResultsError(UserError):
    """A results directory cannot be used as it was asked."""


class StorageFailed(ResultsError):
    """A results directory cannot be stored: its disk is full, or fails. The command line ends with exit code 1."""


class Unreadable(ResultsError):
    """A file that cannot be read now; its content may be undamaged."""


class RunFailed(HeadwayError, RuntimeError):
    """A training run ended without a result; the message is its outcome."""


class Diverged(RunFailed):
    """The loss of a run is no longer finite."""


class BeyondPossible(RunFailed):
    """A run has measured what no model can reach: a defect of the measurement, or of the bound."""


class LeaseLost(HeadwayError, RuntimeError):
    """Another process owns the run folder that this one was writing."""


@contextlib.contextmanager
def explained(what: str, advice: str) -> Iterator[None]:
    """Raise UserError for any error of another library in the block, also for a panic of one in Rust.

    Such a panic is no Exception and passes every `except` that names one.

    Args:
        what: the task that failed, as a clause: what cannot be done.
        advice: the advice to the user.

    Raises:
        UserError: with what the library said between the two; one that was raised within as it is.

    Examples:
        >>> with explained("7 / 0 has no value", "divide by another number"):
        ...     7 / 0
        Traceback (most recent call last):
        headway.errors.UserError: 7 / 0 has no value (division by zero); divide by another number
    """
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        said = shortened(" ".join(str(error).split()), 300) or type(error).__name__
        raise UserError(f"{what} ({said}); {advice}") from error


def near(name: str, names: Iterable[str]) -> str:
    """Advice for a name that is not among `names`: the nearest of them, or all.

    Examples:
        >>> near("n_head", ["n_heads", "d_model"])
        'did you mean n_heads?'
        >>> near("zzz", ["n_heads", "d_model"])
        'choose from: d_model, n_heads'
        >>> near("lr", ["learning_rate", "d_model"])
        'did you mean learning_rate?'
    """
    known = sorted(map(str, names))
    close = [each for each in known if "".join(word[:1] for word in each.split("_")) == name]
    if not close and len(str(name)) <= LONGEST_VALUE:
        close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = [f"... and {len(known) - MOST_NAMES:,} more"] if len(known) > MOST_NAMES else []
    return "choose from: " + (", ".join(known[:MOST_NAMES] + more) or "nothing (none is declared)")

"""Ground floor: the exceptions that Headway raises, and the help they carry.

Every message says what was asked, what is wrong with it and what to do. A `UserError` is printed by
the command line without a traceback and ends it with exit code 2.
"""

import difflib
from collections.abc import Iterable


class HeadwayError(Exception):
    """Anything that Headway itself reports."""


class UserError(HeadwayError, ValueError):
    """What was asked for cannot be done as it was asked."""


class DeclarationError(UserError):
    """An experiment, or a value in one, is not what Headway understands."""


class ResultsError(UserError):
    """A results directory cannot be used as it was asked."""


class RunFailed(HeadwayError, RuntimeError):
    """A training run ended without a result; the message is its outcome."""


class Diverged(RunFailed):
    """The loss of a run is no longer finite."""


class LeaseLost(HeadwayError, RuntimeError):
    """Another process owns the run folder that this one was writing."""


def near(name: str, names: Iterable[str]) -> str:
    """Advice for a name that is not among `names`: the nearest of them, or all.

    Examples:
        >>> near("n_head", ["n_heads", "d_model"])
        'did you mean n_heads?'
        >>> near("zzz", ["n_heads", "d_model"])
        'choose from: d_model, n_heads'
    """
    known = sorted(names)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "choose from: " + (", ".join(known) or "nothing (none is declared)")

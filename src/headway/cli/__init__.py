"""The command line: a function for each verb.

`experiments` holds the verbs on experiment files, `directories` those on results, clusters and plugins, and
`models` those on finished models. `gate` keeps or discards changes to any training command. `options` are the options
and the output that several verbs share. Every verb imports what it needs when it runs, so `headway list` answers at
once.
"""

import errno
import io
import sys
import warnings
from typing import Any, NoReturn

from headway.cli import experiments as experiments  # in the order of `headway --help`

from headway.cli import directories as directories  # isort: skip
from headway.cli import models as models  # isort: skip
from headway.cli import gate as gate  # isort: skip
from headway.base.text import printable
from headway.cli.options import app as app
from headway.cli.options import check_words, say
from headway.errors import HeadwayError, StorageFailed, UserError, shortened


def main() -> None:
    """Run the command line; exit 0, 1 when a run or its disk failed, 2 for a user's error, 130 on Ctrl-C."""
    _show_what_can_be_shown()
    warnings.formatwarning = lambda message, *_, **__: f"warning: {printable(message)}\n"  # no file and line of ours
    try:
        check_words(sys.argv[1:])
        code = app(sys.argv[1:], standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            _fail(_INTERRUPTED.get(next(iter(sys.argv[1:]), ""), "interrupted; type the command again"), code)
        sys.exit(code)
    except StorageFailed as error:
        _fail(str(error), 1)
    except UserError as error:
        directory, plugin = (getattr(error, name, "") for name in ("directory", "plugin"))
        _fail(f"{error}\nheadway status {directory} --plugin {plugin}" if plugin else str(error), 2)
    except HeadwayError as error:
        _fail(str(error), 1)
    except OSError as error:
        todo = _TODO.get(error.errno or 0)
        if todo is None:
            raise
        _fail(f"{shortened(str(error.filename or 'a file'))}: {error.strerror}; {todo}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _usage_error(error)


def _usage_error(error: Any) -> NoReturn:
    """A usage error of the command line itself: an unknown option, a missing argument. It may hold any argument."""
    message = error.format_message().replace("Value error, ", "")
    if type(error).__name__ == "NoArgsIsHelpError":
        say(_FIRST)
        sys.exit(0)
    if "unexpected extra argument" in message and "--arms" in sys.argv[1:]:
        message += "; separate the names after --arms with commas, without spaces, such as --arms h1,h2"
    elif "unexpected extra argument" in message:
        verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        message += f"; `headway {verb} --help` shows what it takes"
    _fail(shortened(str(UserError(message)), _LONGEST), getattr(error, "exit_code", 2))


def _show_what_can_be_shown() -> None:
    """On a terminal of few letters, a question mark for every other."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


_FIRST = """A laboratory for attention heads: write a question as a short file, get an answer with error bars.

  headway list              the experiments that come with Headway
  headway plan icl-heads    what an experiment would cost to train
  headway run icl-heads     train it, compare its arms, and write a report
  headway status DIR        the progress of the runs in a results directory
  headway xray FOLDER       measure every head of a finished model

`headway --help` lists all verbs, and `headway VERB --help` the options of one."""
"""The commands that a newcomer needs, printed by `headway` alone."""

_LONGEST = 600
"""Of what is wrong with a command line, which may hold any number of arguments."""

_INTERRUPTED = {
    "run": "interrupted; type `headway run` again to resume from here",
    "gate": "interrupted; nothing recorded is lost, and the same command resumes from here",
    "plan": "interrupted; nothing was written, and --no-timing leaves out the longest part",
}
"""What to do after Ctrl-C, by verb."""

_TODO = {
    **dict.fromkeys(
        (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS),
        "give another path, or fix its permissions",
    ),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space and run again"),
    **dict.fromkeys((errno.EIO, errno.ESTALE), "check its file system and run again"),
}
"""What to do about errors of the system that say that a path was not the right one, or that a file system fails."""


def _fail(message: str, code: int) -> NoReturn:
    say(f"error: {message}" if code != 130 else message, err=True, color="red")
    sys.exit(code)

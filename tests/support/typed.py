"""Lines as they are typed, in this process: a process of their own takes seconds to begin, and they often less."""

import contextlib
import io
import sys
import warnings
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import headway.cli


def _shown(message: Warning | str, category: type[Warning], filename: str, line: int, *_: object) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, line))


def typed(*words: object, cwd: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """Return what a line ended with, printed and said; an error that has no words of its own goes on."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as changed, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        changed.setattr(sys, "argv", ["headway", *map(str, words)])
        changed.setattr(warnings, "formatwarning", warnings.formatwarning)  # which a line sets for its process
        changed.setattr(warnings, "showwarning", _shown)  # and not kept by pytest
        for name, value in environment.items():
            changed.setenv(name, value)
        if cwd is not None:
            changed.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            headway.cli.main()
    code = ended.value.code or 0
    return CompletedProcess(sys.argv, code if isinstance(code, int) else 1, out.getvalue(), err.getvalue())


def verb(*words: object, cwd: Path) -> CompletedProcess[str]:
    """Return the same of a line that is typed in a folder, on a terminal of 120 columns."""
    return typed(*words, cwd=cwd, COLUMNS="120")

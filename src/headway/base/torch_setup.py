"""Torch set up before its import: no compiler where nothing is compiled, and threads that soon sleep.

Torch's optimizers and initial weights import the compiler only to mark code that compilation leaves out. That import
costs 0.9 s of processor time in every worker, nearly as much as torch itself. For the time of a block a stand-in module
supplies these marks alone.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_COMPILER = "torch._dynamo"


class _Marks(ModuleType):
    """A stand-in for torch's compiler whose marks do nothing."""

    @staticmethod
    def graph_break() -> None:
        pass

    @staticmethod
    def disable(function: Callable[..., Any], *_how: Any, **_more: Any) -> Callable[..., Any]:
        return function


_MARKS = _Marks(_COMPILER)


@contextmanager
def uncompiled() -> Iterator[None]:
    """Keep optimizers and modules from importing torch's compiler, in a block or a decorated function.

    If the compiler was imported before, because something is compiled, the block changes nothing.
    """
    if _COMPILER in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = _MARKS
    try:
        yield
    finally:
        sys.modules.pop(_COMPILER, None)  # another thread may have been faster


_WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
_SPINS = "10000"
"""The checks for more work that an OpenMP thread makes before it sleeps, about half a millisecond.

With OpenMP's default of 300,000, waiting threads take the cores that other work needs. With none, half the speed of an
idle machine goes into waking the threads (LOG.md, benchmarks/waiting.py).
"""


def share_cores() -> None:
    """Let waiting threads of this process sleep soon, unless the user chose otherwise.

    To be done before torch is imported, which reads it once.
    """
    if not any(name in os.environ for name in _WAITING_VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = _SPINS

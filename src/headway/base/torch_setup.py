"""Torch without its compiler, where nothing is compiled.

Its optimizers and its initial weights import the compiler only to mark what compiled code leaves out: .9 s of a
processor in every worker, nearly as much as torch itself. For the time of a block a module that knows nothing but these
marks stands in its place.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_COMPILER = "torch._dynamo"


class _Marks(ModuleType):
    """What is asked of the compiler where nothing is compiled: marks that do nothing."""

    @staticmethod
    def graph_break() -> None:
        pass

    @staticmethod
    def disable(function: Callable[..., Any], *_how: Any, **_more: Any) -> Callable[..., Any]:
        return function


_MARKS = _Marks(_COMPILER)


@contextmanager
def uncompiled() -> Iterator[None]:
    """In the block, and as a decorator in the function, optimizers and modules do not import torch's compiler.

    Where it was imported before, because something is compiled, the block changes nothing.
    """
    if _COMPILER in sys.modules:
        yield
        return
    sys.modules[_COMPILER] = _MARKS
    try:
        yield
    finally:
        sys.modules.pop(_COMPILER, None)  # another thread may have been faster

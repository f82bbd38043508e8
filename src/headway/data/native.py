"""Headway's native code, found and called: one shared library with a body for each instruction set.

The extension is optional. Only this module knows which bodies were built and which of them this machine can run.
"""

import ctypes
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headway.errors import UserError

InstructionSet = Literal["avx512", "avx2", "base"]
"""The bodies of the library, fastest first."""


class NativeTask(ctypes.Structure):
    """`NativeTask` of `draws.hpp`: what native code needs to draw prompts."""

    _fields_ = (
        ("d_x", ctypes.c_int64),
        ("d_y", ctypes.c_int64),
        ("n_pairs", ctypes.c_int64),
        ("noise", ctypes.c_float),
        ("query_noise", ctypes.c_float),
        ("beta", ctypes.c_void_p),
        ("cholesky", ctypes.c_void_p),
    )

    def __init__(
        self, beta: np.ndarray, noise: float, query_noise: float, cholesky: np.ndarray | None, n_pairs: int
    ) -> None:
        d_y, d_x = beta.shape
        # The structure holds addresses, so it keeps the arrays alive.
        self.arrays = [None if a is None else np.ascontiguousarray(a, np.float32) for a in (beta, cholesky)]
        addresses = [None if a is None else a.ctypes.data for a in self.arrays]
        super().__init__(d_x, d_y, n_pairs, noise, query_noise, *addresses)


class Library:
    """The native code of one instruction set; calling it lets other Python threads run."""

    def __init__(self, code: ctypes.CDLL, instruction_set: InstructionSet) -> None:
        self._code = code
        self.instruction_set = instruction_set

    def function(self, name: str, *arguments: Any, returns: Any = None) -> Callable[..., Any]:
        """Return the function of a name with its argument types declared."""
        function = self._code[f"headway_{name}_{self.instruction_set}"]
        function.argtypes = arguments
        function.restype = returns
        return function

    def draw(self, task: NativeTask, key: int, step: int, batch_size: int, *arrays: np.ndarray) -> None:
        """Fill x, y, x_query, y_query and beta of `Prompts` with a batch."""
        types = (ctypes.POINTER(NativeTask), ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int64)
        self.function("draw", *types, *[FLOATS] * 5)(task, key, step, batch_size, *arrays)

    def draw_only(self, task: NativeTask, key: int, batch_size: int, steps: int) -> float:
        """Draw the normals of steps 1 to `steps` and keep none of them: the floor under any training step."""
        types = (ctypes.POINTER(NativeTask), ctypes.c_uint64, ctypes.c_int64, ctypes.c_int64)
        return self.function("draw_only", *types, returns=ctypes.c_float)(task, key, batch_size, steps)


FLOATS = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
DOUBLES = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")


_FUNCTIONS = ("draw", "draw_only", "train", "gradient")


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """Return the library of this Python and system, or why there is none.

    A library that another Python left beside it is not used.
    """
    path = Path(__file__).parents[1] / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not path.is_file():
        return None, "the native code is not built"
    try:
        code = ctypes.CDLL(str(path))
    except OSError as error:
        return None, f"the native code cannot be loaded ({error})"
    if not (hasattr(code, "headway_supports") and _built(code)):
        return None, f"the native code in {path} is of another version"
    return code, ""


def _built(code: ctypes.CDLL) -> list[InstructionSet]:
    """Return the instruction sets of which a library has every function."""
    sets: tuple[InstructionSet, ...] = get_args(InstructionSet)
    return [name for name in sets if all(hasattr(code, f"headway_{function}_{name}") for function in _FUNCTIONS)]


def absence() -> str:
    """Return why there is no native code here, and what to do about it."""
    return f"{_loaded()[1] or 'the native code is not built'}; install a C++ compiler and then Headway again"


@cache
def instruction_sets() -> tuple[InstructionSet, ...]:
    """Return the instruction sets that are built and that this machine has, fastest first."""
    code = _loaded()[0]
    return () if code is None else tuple(name for name in _built(code) if code.headway_supports(name.encode()))


def available() -> InstructionSet | None:
    """Return the fastest instruction set whose native code is built and runs here; None when nothing is built."""
    return next(iter(instruction_sets()), None)


def library(instruction_set: InstructionSet | None = None) -> Library:
    """Return the native code for an instruction set; None: the fastest.

    Raises:
        UserError: when it is not built, or this machine does not have it.
    """
    code, sets = _loaded()[0], instruction_sets()
    if code is None:
        raise UserError(f"native code was asked for, but {absence()}")
    if instruction_set is not None and instruction_set not in sets:
        raise UserError(f"instruction set {instruction_set} is not available here; choose from: {', '.join(sets)}")
    return Library(code, instruction_set or sets[0])

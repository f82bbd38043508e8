"""The source as the laws of the house read it: every module of Headway, parsed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"
OF_ONE_LABORATORY = ("data", "icl", "lm", "regression", "regression_torch", "synthetic", "text")
"""Folders and modules that know which kind of run they are for."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """A file of the source; `place` is its path inside the package, such as `config/run.py`."""

    place: str
    lines: int
    tree: ast.Module

    @property
    def in_slice(self) -> bool:
        """Whether it belongs to one laboratory, by its folder or its name."""
        return any(part in OF_ONE_LABORATORY for part in self.place.removesuffix(".py").split("/"))


@cache
def modules() -> tuple[Module, ...]:
    return tuple(
        Module(
            place=path.relative_to(SOURCE).as_posix(),
            lines=len(text.splitlines()),
            tree=ast.parse(text),
        )
        for path in sorted(SOURCE.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
    )


def packages() -> list[str]:
    """The rooms and their parts, such as `declare` and `declare/tokens`."""
    return [path.parent.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.glob("*/**/__init__.py"))]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

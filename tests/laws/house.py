"""The source as the laws of the house read it: every module of Headway, parsed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "headway"
SLICES = ("icl", "tokens")
"""The laboratories, as the packages of their slices are named."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """A file of the source; `place` is its path inside the package, such as `config/run.py`."""

    place: str
    lines: int
    tree: ast.Module

    @property
    def in_slice(self) -> bool:
        """Whether it belongs to one laboratory: it stands in `ROOM/LABORATORY/`, or in the room `icl`."""
        folders = self.place.split("/")[:-1]
        return folders[:1] == ["icl"] or any(folder in SLICES for folder in folders[1:])


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

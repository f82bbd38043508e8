"""Docs: the parts of `house.md` that are read off the source: the floors, and what each laboratory supplies.

`make docs` writes them between their marks; a test compares.
"""

import ast
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

from headway.config import kinds

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "headway"


def floors() -> str:
    """The layers of import-linter's contract as a table, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    without_torch = next(contract["source_modules"] for contract in contracts if contract["type"] == "forbidden")
    lines = ["| floor | room | what it is | without torch |", "|---|---|---|---|"]
    for number, layer in zip(reversed(range(len(layers))), layers, strict=True):
        for name in re.split(r"\s*[|:]\s*", layer):
            free = f"headway.{name}" in without_torch
            mine = [module for module in without_torch if module.startswith(f"headway.{name}.")]
            parts = [module.removeprefix(f"headway.{name}.").replace(".", "/") for module in mine]
            torch = "yes" if free else ", ".join(f"`{part}`" for part in parts)
            lines.append(f"| {number} | `{name}{'/' if (SOURCE / name).is_dir() else ''}` | {idea(name)} | {torch} |")
    return "\n".join(lines)


def parts() -> str:
    """What each laboratory supplies, by the name under which others ask for it."""
    names = list(dict.fromkeys(name for supplied in kinds.LABORATORY_PARTS.values() for name in supplied))
    head = ["| laboratory | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    rows = {
        laboratory: [f"`{supplied[name].removeprefix('headway.')}`" if name in supplied else "" for name in names]
        for laboratory, supplied in kinds.LABORATORY_PARTS.items()
    }
    return "\n".join([*head, *(f"| `{laboratory}` | {' | '.join(cells)} |" for laboratory, cells in rows.items())])


def idea(name: str) -> str:
    """What a room or module says of itself: the first line of its docstring, without the name of its floor."""
    path = SOURCE / name
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    before, _, after = first.partition(": ")
    said = after if before.lower() in (name, "ground floor", "door", "lab") else first
    return (said[0].upper() + said[1:]).rstrip(".:").replace("|", r"\|")


PARTS: dict[str, Callable[[], str]] = {"floors": floors, "parts": parts}


def written(text: str) -> str:
    """The page with its generated parts made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}: written by make docs -->", f"<!-- end of {name} -->"
        before, mark, rest = text.partition(begin)
        assert mark, f"house.md has lost the mark {begin}"
        text = f"{before}{begin}\n{make()}\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """Write the generated parts of `house.md`."""
    page = ROOT / "docs" / "house.md"
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

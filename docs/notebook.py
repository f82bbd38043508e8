"""Docs: executes the cells of notebooks, without Jupyter: `make notebooks` writes their outputs into the files."""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook, in their order."""
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def read(path: Path) -> dict[str, Any]:
    """Return the content of a notebook."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def execute(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Execute a cell in the working directory, and return its outputs: printed lines, and a last expression's value."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body=body, type_ignores=[]), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        outputs.append({"output_type": "display_data", "metadata": {}, "data": shown(value)})
    return outputs


def shown(value: Any) -> dict[str, Any]:
    """Return a value as a notebook shows it: a chart as a picture, anything else as text."""
    if not hasattr(value, "_repr_mimebundle_"):
        return {"text/plain": repr(value).splitlines(keepends=True)}
    found = value._repr_mimebundle_(None, None)
    bundle = found[0] if isinstance(found, tuple) else found
    return {
        kind: base64.b64encode(content).decode() if isinstance(content, bytes) else content
        for kind, content in bundle.items()
    }


def write(notebook: Path) -> None:
    """Execute every code cell in a new folder, and write the outputs into the notebook."""
    content, names = read(notebook), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        count = 0
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell |= {"execution_count": count, "outputs": execute("".join(cell["source"]), names)}
        os.chdir("/")
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"notebook: {notebook}\n")


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or NOTEBOOKS:
        write(path)

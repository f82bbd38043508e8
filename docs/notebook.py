"""Docs: executes the cells of a notebook, without Jupyter: `make notebook` puts what came out into the file."""

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

NOTEBOOK = Path(__file__).with_name("from-a-file-to-a-head.ipynb")


def code_cells(path: Path = NOTEBOOK) -> list[dict[str, Any]]:
    """The code cells of a notebook, in their order."""
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """A notebook's content."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def execute(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Execute a cell in the working directory; its outputs, what it printed and the value of a last expression."""
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
    """How a notebook shows a value: a chart as a picture, anything else as text."""
    if not hasattr(value, "_repr_mimebundle_"):
        return {"text/plain": repr(value).splitlines(keepends=True)}
    found = value._repr_mimebundle_(None, None)
    bundle = found[0] if isinstance(found, tuple) else found
    return {
        kind: base64.b64encode(content).decode() if isinstance(content, bytes) else content
        for kind, content in bundle.items()
    }


def main() -> None:
    """Execute every code cell in a new folder, and write the outputs into the notebook."""
    content, names = read(), {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        count = 0
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell |= {"execution_count": count, "outputs": execute("".join(cell["source"]), names)}
        os.chdir("/")
    NOTEBOOK.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"notebook: {NOTEBOOK}\n")


if __name__ == "__main__":
    main()

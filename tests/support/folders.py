"""Folders of models whose files are changed, as others might have written them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file


def edit(folder: Path, name: str = "config.json", **changes: Any) -> None:
    """Change keys of a file."""
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**content, **changes}))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the arrays of the weights, by name."""
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})

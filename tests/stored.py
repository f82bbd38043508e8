"""Run folders on the disk, changed as if they had been written so."""

import json
from pathlib import Path
from typing import Any

from headway.store import document
from headway.store.run import signed_text


def rewrite(folder: Path, **changes: Any) -> None:
    """Change what the run.json of a folder says, with the digest that belongs to it."""
    file = folder / "run.json"
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(signed_text({key: value for key, value in content.items() if key != "digest"}))


def unseal(folder: Path, **changes: Any) -> None:
    """Make a run what it was before there were seals, and change what its run.json says."""
    file = folder / "run.json"
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in content.items() if key not in ("digest", "seal")}))
    (folder / "seal.json").unlink(missing_ok=True)
    directory = folder.parents[2]
    if document.is_sealed(directory, "runs"):
        document._change(directory, {"seals": []})

"""Finished: what a path is, decided once: a run, a folder that Headway's own model can be, or one of another model."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.errors import UserError
from headway.files import entries, names_in

KINDS = "a run's folder (DIR/runs/ARM/seed-N), its checkpoint, or a folder of Hugging Face with a config.json"


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder with a model in it.

    Attributes:
        asked: the path that was given.
        path: of the folder: of the run where its checkpoint was given.
        kind: a run of ours, a folder of Hugging Face that Headway's own model can be, or of another model.
    """

    asked: Path
    path: Path
    kind: Literal["run", "own", "other"]

    @property
    def name(self) -> str:
        """Of a run DIR-ARM-seed-N, of any other folder its own name."""
        whole = self.path.resolve()
        found = re.fullmatch(r".*/([^/]+)/runs/([^/]+)/(seed-\d+)", whole.as_posix())
        return "-".join(found.groups()) if found else whole.name


def model_folder(asked: str | Path) -> ModelFolder:
    """What a path is.

    Raises:
        UserError: for a path that holds no model, saying what it is instead; and a config.json that cannot be read.
    """
    from headway.hf.reading import is_own

    asked = Path(asked)
    folder = asked.parent if asked.name == "checkpoint" else asked
    if (folder / "run.json").is_file():
        return ModelFolder(asked=asked, path=folder, kind="run")
    if (asked / "config.json").is_file():
        return ModelFolder(asked=asked, path=asked, kind="own" if is_own(asked) else "other")
    raise UserError(f"{asked}: {_what_else(asked)}")


def _what_else(path: Path) -> str:
    if not path.exists():
        return f"there is no such folder; give {KINDS}"
    if not path.is_dir():
        return f"it is a file; give {KINDS}"
    if runs := entries(path, "runs/*/seed-*"):
        return f"it is a results directory with {len(runs)} runs; give one of them, such as {runs[0]}"
    if others := names_in(path):
        few = ", ".join(others[:4]) + ", ..." * (len(others) > 4)
        return (
            f"it holds no model that Headway reads (there is {few}); give {KINDS}. A model of another format becomes "
            "one with transformers: save_pretrained(FOLDER), of its model and of its tokenizer"
        )
    return f"it is empty; give {KINDS}"

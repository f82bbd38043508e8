"""Lab: run.json, read as it was written: of the schema that this Headway knows, and with the digest of its content."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import ResultsError
from headway.files import plain
from headway.identity import DIGEST, is_as_signed, signed
from headway.runs.records import anew, holds_run, read_json

SCHEMA = 1


def content_of(path: Path) -> dict[str, Any]:
    """What the run.json of a folder says.

    Raises:
        ResultsError: when there is none, it is of another schema, or it is not as it was written.
    """
    if not (path / "run.json").exists() and holds_run(path):
        raise ResultsError(f"{path}: its run.json is missing, and other parts of a run are there; {anew(path)}")
    content = read_json(path / "run.json", f"{path} holds no run")
    if "schema" not in content:
        raise ResultsError(f"{path}: run.json is damaged (it has no schema); {anew(path)}")
    if content["schema"] != SCHEMA:
        raise ResultsError(
            f"{path}: run.json has schema {content['schema']}, and this Headway reads {SCHEMA}; "
            f"read it with the Headway that wrote it; or {anew(path)}"
        )
    # Those of before were not signed.
    if (DIGEST in content or "seal" in content) and not is_as_signed(content):
        raise ResultsError(
            f"{path}: run.json is not as it was written: it is damaged, or it was edited; {anew(path)}, and for "
            "another experiment change its file and choose another directory"
        )
    return content


def signed_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a run.json is to hold."""
    return signed(plain({"schema": SCHEMA, **content}))

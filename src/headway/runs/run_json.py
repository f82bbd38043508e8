"""Lab: run.json, read as it was written: of the schema that this Headway knows, and with the digest of its content."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import ResultsError
from headway.files import entries, json_text, kept_json
from headway.identity import DIGEST
from headway.runs.records import anew, holds_run, mapping_in, read_bytes

SCHEMA = 1
_END = f',\n "{DIGEST}": "'
"""What stands between the content and its digest, which comes last."""


def content_of(path: Path) -> dict[str, Any]:
    """What the run.json of a folder says.

    Raises:
        ResultsError: when there is none, it is of another schema, or it is not as it was written.
    """
    file = path / "run.json"
    if not file.exists() and holds_run(path):
        raise ResultsError(f"{path}: its run.json is missing, and other parts of a run are there; {anew(path)}")
    text = read_bytes(file, f"{path} holds no run")
    content = mapping_in(text, file)
    if "schema" not in content:
        raise ResultsError(f"{path}: run.json is damaged (it has no schema); {anew(path)}")
    if content["schema"] != SCHEMA:
        raise ResultsError(
            f"{path}: run.json has schema {content['schema']}, and this Headway reads {SCHEMA}; "
            f"read it with the Headway that wrote it; or {anew(path)}"
        )
    # Those of before were not signed.
    if (DIGEST in content or "seal" in content) and not _is_signed(text):
        raise ResultsError(
            f"{path}: run.json is not as it was written: it is damaged, or it was edited; {anew(path)}, and for "
            "another experiment change its file and choose another directory"
        )
    return content


def schema_of(file: Path) -> int | None:
    """The schema of a run.json, whatever else it says; None where it has none or cannot be read."""
    content = kept_json(file)
    schema = content.get("schema") if isinstance(content, dict) else None
    return schema if isinstance(schema, int) else None


def signed_text(content: Mapping[str, Any]) -> str:
    """What a run.json is to hold: the content, and the digest of its text."""
    text = json_text({"schema": SCHEMA, **content}).removesuffix("\n}\n")
    return f'{text}{_END}{_digest(text.encode())}"\n}}\n'


def _is_signed(text: bytes) -> bool:
    before, _, after = text.rpartition(_END.encode())
    return after == f'{_digest(before)}"\n}}\n'.encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def check_schema(directory: Path) -> None:
    """Nothing, when this Headway understands the runs of a directory.

    Raises:
        ResultsError: when a later one wrote them.
    """
    for file in entries(directory, "runs/*/seed-*/run.json"):
        schema = schema_of(file)
        if schema is not None and schema > SCHEMA:
            raise ResultsError(
                f"{directory} was written by a later Headway (its runs have schema {schema}, and this one knows "
                f"{SCHEMA}); go on there with the version that it was begun with"
            )

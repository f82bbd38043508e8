"""Compare, the in-context laboratory: what closed-form `estimators` reach, which is costly, and so is kept."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.compare.icl.estimators import estimator_errors
from headway.compare.laboratory import Laboratory
from headway.declare.icl.run import IclRun
from headway.files import derived, plain, write_json
from headway.runs.folder import Run

SCHEMA = 1


class Icl(Laboratory):
    """In-context regression."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> dict[str, Any]:
        """The classical estimators, kept under `estimators/`."""
        spec = runs[0].spec
        assert isinstance(spec, IclRun)
        path = directory / "estimators" / f"{key}.json"
        errors = _read_kept(path)
        if errors is None:
            errors = plain(estimator_errors(spec.task, spec.evaluation))
            with derived(path):
                write_json(path, {"schema": SCHEMA, "errors": errors})
        return errors


def _read_kept(path: Path) -> dict[str, Any] | None:
    """The content of a file of kept errors; None where it is absent, damaged or of another schema."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(kept, dict) and kept.get("schema") == SCHEMA and isinstance(kept.get("errors"), dict)
    return kept["errors"] if whole and kept["errors"].keys() >= {"baselines", "curves"} else None


LABORATORY = Icl()

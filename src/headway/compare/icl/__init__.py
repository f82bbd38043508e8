"""Compare, the in-context laboratory: what closed-form `estimators` reach, which is costly, and so is kept."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from headway.compare.icl.estimators import estimator_errors
from headway.compare.laboratory import ComparisonSlice, References
from headway.declare.icl.run import IclRun
from headway.files import derived, inside, kept_json, plain, write_json
from headway.identity import is_as_signed, signed
from headway.runs.folder import Run

SCHEMA = 1


class IclComparisonSlice(ComparisonSlice):
    """In-context regression."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> References:
        """The classical estimators, kept under `estimators/`."""
        spec = runs[0].spec
        assert isinstance(spec, IclRun)
        path = inside(directory, "estimators", f"{key}.json")
        found = _read_kept(path, key)
        if found is None:
            errors = plain(estimator_errors(spec.task, spec.evaluation))
            with derived(path):
                write_json(path, signed({"schema": SCHEMA, "task": key, "errors": errors}))
            found = TypeAdapter(References).validate_python(errors)
        return found


def _read_kept(path: Path, key: str) -> References | None:
    """The kept errors of a task; None where they are absent, not as they were written, or of another schema."""
    kept = kept_json(path)
    try:
        if not isinstance(kept, dict) or (kept.get("schema"), kept.get("task")) != (SCHEMA, key):
            return None
        if not is_as_signed(kept):
            return None
        found = TypeAdapter(References).validate_python(kept.get("errors"))
    except ValidationError:
        return None
    return found if found.curves is not None else None


LABORATORY = IclComparisonSlice()

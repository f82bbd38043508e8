"""The generated reference and schema are those of the declared types, and the shipped experiments fit the schema."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest

from headway.config.yaml import read_file, shipped

DOCS = Path(__file__).parents[2] / "docs"
MADE = runpy.run_path(str(DOCS / "experiment_keys.py"))
UNITS, main, reference, schema = (MADE[name] for name in ("UNITS", "main", "reference", "schema"))


def test_the_committed_reference_is_up_to_date(tmp_path):
    main(str(tmp_path))
    for name in ("experiment-keys.md", "experiment.schema.json"):
        assert (DOCS / name).read_text() == (tmp_path / name).read_text(), "run `make docs`"


def test_every_key_has_a_meaning_and_every_unit_a_key():
    rows = [line.split(" | ") for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert all(len(row) == 3 and row[1].strip() for row in rows)
    assert set(UNITS) <= {row[0].strip("|` ") for row in rows}


@pytest.fixture(scope="module")
def validator():
    made = schema()
    kind = jsonschema.validators.validator_for(made)
    kind.check_schema(made)
    return kind(made)


def test_shipped_experiments_fit_the_schema(validator):
    for name in shipped():
        validator.validate(read_file(shipped()[name]))


@pytest.mark.parametrize(
    "change",
    [
        {"modle": {}},
        {"arms": {"a": {"model": {"n_haeds": 1}}}},
        {"training": {"steps": "many"}},
        {"task": {"kind": "x"}},
    ],
)
def test_the_schema_refuses_what_headway_refuses(change, validator):
    content = {**read_file(shipped()["icl-heads"]), **change}
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(json.loads(json.dumps(content)))

"""Results have types: what is written is what is read, a damaged file says what is wrong, and nobody reads by key."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest
from support.fabricate import fabricate, small
from support.fabricate_heads import fabricate_heads, xray
from support.fabricate_text import data_lane, fabricate_text, head_progression

from headway.base.identity import signed
from headway.errors import ResultsError
from headway.stats import results
from headway.stats.results import Results
from headway.store.directory import Store

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs/results_schema.py"))


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Between them every kind of entry: fits, sizes, learning rates, associations, statements, estimators' curves."""
    out = tmp_path_factory.mktemp("types")
    fabricate_text(out / "progression", head_progression().select(controls=["learning-rates"], seeds=2))
    fabricate_text(out / "lane", data_lane())
    fabricate_heads(out / "xray", xray().select(arms=["heads-4", "heads-8"]))
    icl = fabricate(out / "icl", small("icl-heads").select(arms=["h1", "h2"], seeds=2), {("h2", 1): "waiting"})
    results.write(Store.open(icl))
    return [out / name for name in ("progression", "lane", "xray", "icl")]


@pytest.fixture(scope="module")
def contents(directories):
    return [json.loads((directory / "results.json").read_text()) for directory in directories]


@pytest.mark.slow
def test_what_is_written_is_what_is_read(directories, contents):
    for directory, content in zip(directories, contents, strict=True):
        read = results.read(directory)
        assert signed(read.to_json()) == content
        assert Results.from_json(content) == read
        assert results.build(Store.open(directory)) == read
    entries = (
        "contrasts",
        "families",
        "fits",
        "plain_curve",
        "learning_rates",
        "associations",
        "claims",
        "warnings",
        "tasks",
    )
    assert [key for key in entries if not any(content[key] for content in contents)] == []


@pytest.mark.slow
def test_results_of_real_and_fabricated_runs_fit_the_schema(contents):
    schema = MADE["json_schema"]()
    before = Results.from_json(json.loads((ROOT / "tests/before/icl/results.json").read_text()))
    for content in [*contents, before.to_json()]:
        jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**contents[0], "comparisons": [{"metric": "eval_mse"}]}, schema)


def test_the_committed_schema_is_up_to_date(tmp_path):
    MADE["main"](str(tmp_path))
    file = MADE["FILE"]
    assert (ROOT / "docs" / file).read_text() == (tmp_path / file).read_text(), "run `make docs`"


@pytest.mark.parametrize("name", ["icl", "text"])
def test_files_of_a_former_version_are_read(name):
    content = json.loads((ROOT / "tests/before" / name / "results.json").read_text())
    read = Results.from_json(content)
    assert read.schema == 2
    assert [run.arm for run in read.runs] == [row["arm"] for row in content["runs"]]
    assert [one.verdict for one in read.comparisons] == [row["verdict"] for row in content["comparisons"]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 1}, r"it has schema 1, and this version of Headway reads 2"),
        ({"runs": None}, r"runs: Input should be a valid tuple"),
        ({"comparisons": [{"arm": "a"}]}, r"comparisons\.0\.metric: Field required, and \d+ more"),
        ({"comparisons": 3}, r"comparisons: Input should be a valid tuple"),
        ({"warnings": [1]}, r"warnings\.0: Input should be a valid string"),
    ],
)
def test_a_damaged_file_says_where_and_what_to_do(contents, tmp_path, change, said):
    (tmp_path / "results.json").write_text(json.dumps({**contents[0], **change}))
    with pytest.raises(
        ResultsError, match=rf"results\.json: cannot be read \({said}\); `headway compare .*` writes it"
    ):
        results.read(tmp_path)


@pytest.mark.parametrize("text", ["[]", "null", '{"runs": [', "{}"])
def test_what_is_no_results_file_is_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ResultsError, match="cannot be read"):
        results.read(tmp_path)

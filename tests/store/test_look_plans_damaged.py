"""A damaged note of `looks/` stays as it is, and is named, until a person removes it."""

import shutil

import pytest
from support.fabricate import fabricate, small
from typer.testing import CliRunner

from headway.cli.options import app
from headway.store.look_plans import LookMade, Seen, keep, why_not


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    experiment = small("icl-heads").select(arms=["h1", "h2"], seeds=3)
    path = fabricate(tmp_path_factory.mktemp("compared") / "results", experiment)
    assert CliRunner().invoke(app, ["compare", str(path)]).exit_code == 0
    return path


@pytest.fixture
def compared(original, tmp_path):
    return shutil.copytree(original, tmp_path / "results")


@pytest.mark.parametrize("content", [b"", b'{"n_seeds": 3}', b"\xff\x00"])
def test_compare_names_the_damage_again_and_again_and_leaves_the_file_until_it_is_removed(compared, content):
    file = compared / "looks/seen-3.json"
    written = file.read_bytes()
    file.write_bytes(content)
    for verb in ("compare", "verify", "compare", "verify"):
        ended = CliRunner().invoke(app, [verb, str(compared)])
        assert f"{file} is not as it was written; put it back from a copy, or remove it" in ended.output
        assert (ended.exit_code == 0) == (verb == "compare")
        assert file.read_bytes() == content

    file.unlink()  # a person removes it
    assert "is missing; put it back from a copy, or compare again" in why_not(compared, "seen-3")
    assert CliRunner().invoke(app, ["compare", str(compared)]).exit_code == 0
    assert len(file.read_bytes()) == len(written)
    assert CliRunner().invoke(app, ["verify", str(compared)]).exit_code == 0


FINDINGS = (Seen(n_seeds=5), LookMade(n_seeds=5, outcomes={}, intervals={}, made=""))


@pytest.mark.parametrize("value", FINDINGS)
def test_findings_that_are_damaged_are_never_replaced(compared, value):
    name = "seen-5" if isinstance(value, Seen) else "after-5"
    kept = keep(compared, name, value)
    file = compared / "looks" / f"{name}.json"
    file.write_bytes(b"damaged")
    assert keep(compared, name, value) == value
    assert file.read_bytes() == b"damaged"
    file.unlink()
    assert type(keep(compared, name, value)) is type(kept)
    assert not why_not(compared, name)

"""Foreign files and links among a run's files are named by `verify`; nothing reads them."""

import os
import shutil
from pathlib import Path

import pytest
from support.fabricate import fabricate, small
from typer.testing import CliRunner

from headway.cli.options import app


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return fabricate(
        tmp_path_factory.mktemp("foreign") / "results", small("icl-heads").select(arms=["h1", "h2"], seeds=1)
    )


def verified(path):
    ended = CliRunner().invoke(app, ["verify", str(path)])
    return ended.exit_code, ended.stdout


def test_a_run_as_it_was_written_has_nothing_foreign(original):
    code, said = verified(original)
    assert code == 0
    assert "not of the run" not in said
    assert "links" not in said


@pytest.mark.parametrize("name", ["notes.txt", "heads/mine.txt", "checkpoint/weights.pt", ".hidden", "folder/file.txt"])
def test_a_foreign_file_is_named(original, tmp_path, name):
    path = shutil.copytree(original, tmp_path / "results")
    folder = path / "runs/h1/seed-0"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("x")
    code, said = verified(path)
    assert code == 0
    named = name.partition("/")[0] if name.startswith("folder") else name
    assert f"{folder}: not of the run: {named}" in said


@pytest.mark.parametrize("name", ["notes.txt", "log.txt", "heads/000000007.json", "samples.txt"])
@pytest.mark.parametrize("target", ["/etc/hostname", "nowhere", "run.json"])
def test_a_link_is_named_whether_or_not_it_leads_anywhere(original, tmp_path, name, target):
    path = shutil.copytree(original, tmp_path / "results")
    link = path / "runs/h1/seed-0" / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    _, said = verified(path)
    assert f"links, which Headway does not follow: {name}" in said


def test_of_many_the_first_are_named_and_the_rest_counted(original, tmp_path):
    path = shutil.copytree(original, tmp_path / "results")
    for number in range(30):
        (path / f"runs/h1/seed-0/a{number:02}").touch()
    assert "not of the run: a00, a01, a02, a03, a04 and 25 more" in verified(path)[1]


ODD = (b"runs/h\xff", b"runs/h1/seed-\xfe", b"runs/\xfd/seed-0", b"timings", b"looks/\xfc.json", b"figures/\xfb.png")


@pytest.mark.slow
@pytest.mark.parametrize("place", ODD)
@pytest.mark.parametrize("verb", ["status", "verify", "compare", "report"])
def test_a_name_that_is_no_utf_8_is_named_or_passed_over(original, tmp_path, place, verb):
    path = shutil.copytree(original, tmp_path / "results")
    odd = Path(os.fsdecode(os.path.join(os.fsencode(path), place)))
    odd.parent.mkdir(parents=True, exist_ok=True)
    if place.endswith((b".json", b".png")):
        odd.write_bytes(b"{}")
    elif place == b"timings":
        odd.mkdir()
        Path(os.fsdecode(os.fsencode(odd) + b"/\xfa.json")).write_bytes(b"{}")
    else:
        shutil.copytree(path / "runs/h1/seed-0", odd if b"seed" in place else odd / "seed-0")
    options = ["--no-figures"] if verb == "report" else []
    ended = CliRunner().invoke(app, [verb, str(path), *options])
    assert ended.exception is None or type(ended.exception).__module__ == "headway.errors", ended.exception
    if place.startswith(b"runs"):
        page = (path / "report.html").read_text(encoding="utf-8") if verb == "report" else ""
        assert "⟨U+DC" in ended.output + str(ended.exception or "") + page

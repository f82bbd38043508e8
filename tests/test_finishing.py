"""What is written of runs that are done: the look at their heads beside the report, made once, and never in the way."""

import subprocess
import sys
from dataclasses import replace

import pytest
import small_text

import headway
from headway.data.tokens import hub
from headway.finished import look as look_module
from headway.finished.own_text import brings_text
from headway.finishing import finish
from headway.runs.store import Store
from headway.show.report import current

LINK = '<a href="look.html">'


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two arms, and what was told while their report was written for the first time."""
    asked = small_text.experiment(
        training={**small_text.CONTENT["training"], "steps": 6}, samples=None, evaluation={"every": 6, "sequences": 8}
    )
    path = tmp_path_factory.mktemp("finishing") / "runs"
    store = headway.run(asked, path, workers=1, figures=False, progress=False, timing=False)
    assert not (path / "look.html").exists()  # with the figures, or where it is asked for
    told = []
    finish(store, figures=False, look=True, tell=told.append)
    return store.path, told


@pytest.fixture
def told():
    return []


def again(path, told, **options):
    finish(Store.open(path), figures=False, tell=told.append, **options)


def test_the_page_stands_beside_the_report_which_links_to_it(trained):
    path, told = trained
    assert told == ["looking at the heads of 2 finished models, for look.html (Ctrl-C leaves it out) ..."]
    html = (path / "look.html").read_text()
    assert "falling-seed-0" in html
    assert "rising-seed-0" in html
    assert f"headway look {path}" in html
    assert LINK in (path / "report.html").read_text()


def test_it_is_made_anew_when_what_it_shows_changes_and_only_then(trained, told, monkeypatch):
    path, _ = trained
    before = (path / "look.html").stat().st_mtime_ns
    again(path, told, look=True)
    assert told == []
    assert (path / "look.html").stat().st_mtime_ns == before
    monkeypatch.setattr(current, "look_state", lambda runs: "another")
    again(path, told)  # without figures there is no page either
    assert told == []
    again(path, told, look=True)
    assert told == ["looking at the heads of 2 finished models, for look.html (Ctrl-C leaves it out) ..."]
    assert (path / "look.html").stat().st_mtime_ns > before
    assert current.is_of(path / "look.html", "another")


@pytest.mark.slow
def test_the_page_of_the_verb_is_the_same_page(trained, told):
    path, _ = trained
    (path / "look.html").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "headway", "look", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    again(path, told, look=True)
    assert told == []
    assert current.is_signed(path / "look.html")


def test_whatever_stands_in_the_way_is_told_and_the_report_is_written(trained, told, monkeypatch):
    path, _ = trained
    (path / "report.html").unlink()
    monkeypatch.setattr(current, "look_state", lambda runs: "another")

    def broken(path, **options):
        raise MemoryError("there is none left")

    def interrupted(path, **options):
        raise KeyboardInterrupt

    page = (path / "look.html").read_bytes()
    monkeypatch.setattr(look_module, "look", broken)
    again(path, told, look=True)
    assert told[1:] == [
        "note: falling is not on look.html: MemoryError: there is none left",
        "note: rising is not on look.html: MemoryError: there is none left",
        "note: look.html was not written: none of them can be looked at",
    ]
    assert (path / "look.html").read_bytes() == page
    monkeypatch.setattr(look_module, "look", interrupted)
    again(path, told, look=True)
    assert told[-1] == "note: look.html was left out"
    assert LINK in (path / "report.html").read_text()


def test_a_page_that_somebody_made_otherwise_is_left(trained, told):
    path, _ = trained
    page = (path / "look.html").read_bytes()
    try:
        (path / "look.html").write_text("<p>mine")
        again(path, told, look=True)
        assert (path / "look.html").read_text() == "<p>mine"
        assert told == []
    finally:
        (path / "look.html").write_bytes(page)


def test_while_a_run_is_worked_on_it_is_left(trained, told, monkeypatch):
    path, _ = trained
    store = Store.open(path)
    runs = store.runs()
    monkeypatch.setattr(current, "look_state", lambda runs: "another")
    monkeypatch.setattr(Store, "runs", lambda self, depth="changed": (*runs[:1], _running(runs[1])))
    again(path, told, look=True)
    assert told == []


def _running(run):
    return replace(run, status="running")


def test_a_report_whose_page_is_there_loads_no_torch(trained):
    path, _ = trained
    code = (
        "import sys; from pathlib import Path; from headway.finishing import finish; "
        "from headway.runs.store import Store; "
        f"finish(Store.open(Path({str(path)!r})), figures=False, look=True, tell=print); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_other_laboratories_have_no_page(tmp_path, told):
    small = ["training.steps=20", "evaluation.prompts=50", "evaluation.curve=null"]
    experiment = headway.load("icl-heads", settings=small).select(arms=["h1"])
    store = headway.run(experiment, tmp_path / "icl", seeds=1, figures=False, progress=False)
    finish(store, figures=False, look=True, tell=told.append)
    assert told == []
    assert not (store.path / "look.html").exists()


def test_a_text_that_would_have_to_be_fetched_gives_no_page(monkeypatch):
    run = headway.load("x-ray", scale="paper").arm("heads-2").spec(0)
    monkeypatch.setattr(hub, "is_fetched", lambda limit: limit is None)
    assert brings_text(run)
    monkeypatch.setattr(hub, "is_fetched", lambda limit: False)
    assert not brings_text(run)
    assert brings_text(small_text.experiment().arm("falling").spec(0))
    assert not brings_text(headway.load("heads-for-parity").arms[0].spec(0))

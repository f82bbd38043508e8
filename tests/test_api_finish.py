"""What is written of runs that are done: the look at their heads beside the report, made once, and never in the way."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from support import small_text
from support.typed import typed

import headway
from headway.analysis import look as look_module
from headway.analysis.inputs import brings_text
from headway.api import _paced, carry_out, finish
from headway.cli.directories import compare
from headway.data import corpus
from headway.errors import UserError
from headway.execute.sweep import ExecutionOptions
from headway.stats.answer import answer
from headway.store.directory import Store, asked_in

LINK = '<a href="look.html">'


@pytest.fixture(scope="module", autouse=True)
def unpaced():
    """Lines on how far something is depend on the speed of the machine; here are none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.api._TOLD_EVERY_S", 1e9)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two arms, and what was told while their report was written for the first time."""
    training, evaluation = {**small_text.CONTENT["training"], "steps": 6}, {"every": 6, "sequences": 8}
    asked = small_text.experiment(training=training, samples=None, evaluation=evaluation)
    path = tmp_path_factory.mktemp("finishing") / "runs"
    store = headway.run(asked, path, workers=1, figures=False, progress=False, timing=False)
    assert not (path / "look.html").exists()  # with the figures, or where it is asked for
    told = []
    finish(store, figures=False, look=True, tell=told.append)
    return store.path, told


@pytest.fixture
def told():
    return []


def age(page):
    """Make a page older than all that it is made from."""
    os.utime(page, (0, 0))


def again(path, told, **options):
    finish(Store.open(path), figures=False, tell=told.append, **options)


def test_the_page_stands_beside_the_report_which_links_to_it(trained):
    path, told = trained
    assert told == ["looking at the heads of 2 finished models, for look.html (Ctrl-C leaves it out) ..."]
    html = (path / "look.html").read_text()
    assert "falling, seed 0" in html
    assert "rising, seed 0" in html
    assert f"headway look {path}" in html
    assert LINK in (path / "report.html").read_text()


@pytest.mark.slow
def test_it_is_made_anew_when_it_is_older_than_what_it_shows_and_only_then(trained, told):
    path, _ = trained
    before = (path / "look.html").stat().st_mtime_ns
    again(path, told, look=True)
    assert told == []
    assert (path / "look.html").stat().st_mtime_ns == before
    page = (path / "look.html").read_bytes()
    (path / "look.html").write_text("<p>mine")
    again(path, told, look=True)
    assert told == [], "it is left, though somebody made it otherwise"
    (path / "look.html").write_bytes(page)
    age(path / "look.html")
    again(path, told)  # without figures there is no page either
    assert told == []
    again(path, told, look=True)
    assert told == ["looking at the heads of 2 finished models, for look.html (Ctrl-C leaves it out) ..."]
    assert (path / "look.html").stat().st_mtime_ns > before


@pytest.mark.slow
def test_the_page_of_the_verb_is_the_same_page_and_where_it_is_there_no_torch_is_loaded(trained):
    path, _ = trained
    (path / "look.html").unlink()
    done = typed("look", path)
    assert done.returncode == 0, done.stderr
    code = (
        "import sys; from pathlib import Path; from headway.api import finish; "
        "from headway.store.directory import Store; "
        f"finish(Store.open(Path({str(path)!r})), figures=False, look=True, tell=print); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_whatever_stands_in_the_way_is_told_and_the_report_is_written(trained, told, monkeypatch):
    path, _ = trained
    (path / "report.html").unlink()
    age(path / "look.html")

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
        "note: look.html was not written: no run has heads that this page can show",
    ]
    assert (path / "look.html").read_bytes() == page
    monkeypatch.setattr(look_module, "look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again(path, told, look=True)
    makes = f"`headway report {path}` writes the missing parts"
    assert told[-1] == f"left out: look.html; the answer is in results.json, and {makes}"
    assert LINK in (path / "report.html").read_text()


STEPS = {
    "headway.execute.timing.time_arms": ("the timing of arms", "run"),
    "headway.api.look_beside": ("look.html", "report"),
    "headway.report.experiment.page.write_report": ("report.html", "report"),
}


@pytest.mark.parametrize("step", STEPS)
def test_the_answer_is_shown_before_what_takes_long_and_survives_its_interruption(trained, monkeypatch, step):
    """Ctrl-C in any step leaves out that step alone, and a line says what is missing and what makes it."""
    path, _ = trained
    events = []

    def noted(name, *args, **options):
        events.append(name)
        if name == step:
            raise KeyboardInterrupt
        return ()

    for name in STEPS:
        monkeypatch.setattr(name, partial(noted, name))
    with pytest.raises(KeyboardInterrupt):
        carry_out(
            asked_in(path),
            path,
            where=ExecutionOptions(workers=1),
            timing=True,
            figures=True,
            goal=None,
            warn=print,
            tell=events.append,
            watch=list,
            show=lambda store, results: events.append(tuple(answer(results))),
        )
    shown = next(event for event in events if isinstance(event, tuple))
    assert shown, "the verdicts"
    assert [event for event in events if event in STEPS or event is shown] == [shown, *STEPS]
    what, verb = STEPS[step]
    makes = f"`headway {verb} {path}` writes the missing parts"
    assert events[-1] == f"left out: {what}; the answer is in results.json, and {makes}"


def test_what_takes_long_tells_how_far_it_is(monkeypatch):
    times = iter(range(0, 100, 3))
    monkeypatch.setattr("headway.api._TOLD_EVERY_S", 5.0)
    monkeypatch.setattr("headway.api.monotonic", lambda: next(times))
    told = []
    assert list(_paced("abcdef", what="drawing figures", tell=told.append)) == [*"abcdef"]
    assert told == ["drawing figures: 2 of 6 done", "drawing figures: 4 of 6 done"]


def test_while_a_run_is_worked_on_it_is_left(trained, told, monkeypatch):
    path, _ = trained
    store = Store.open(path)
    runs = store.runs()
    age(path / "look.html")
    running = (runs[0], replace(runs[1], status="running"))
    monkeypatch.setattr(Store, "runs", lambda self, depth="changed": running)
    again(path, told, look=True)
    assert told == []


@pytest.mark.slow
def test_other_laboratories_have_no_page(tmp_path, told):
    small = ["training.steps=20", "evaluation.prompts=50", "evaluation.curve=null"]
    experiment = headway.load("icl-heads", settings=small).select(arms=["h1"])
    store = headway.run(experiment, tmp_path / "icl", seeds=1, figures=False, progress=False)
    finish(store, figures=False, look=True, tell=told.append)
    assert told == []
    assert not (store.path / "look.html").exists()


def test_a_text_that_would_have_to_be_fetched_gives_no_page(monkeypatch):
    run = headway.load("x-ray", scale="paper").arm("heads-2").spec(0)
    monkeypatch.setattr(corpus, "is_fetched", lambda limit: limit is None)
    assert brings_text(run)
    monkeypatch.setattr(corpus, "is_fetched", lambda limit: False)
    assert not brings_text(run)
    assert brings_text(small_text.experiment().arm("falling").spec(0))
    assert not brings_text(headway.load("heads-for-parity").arms[0].spec(0))


@pytest.fixture
def read_only(trained, tmp_path):
    """A copy in which nobody may write, and what begins a command that keeps to this as root too."""
    path = tmp_path / "received"
    shutil.copytree(trained[0], path)
    for name in ("results.json", "report.html", "look.html", ".checked.json"):
        (path / name).unlink(missing_ok=True)
    folders = [path, *(each for each in path.rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    capability = "-dac_override,-dac_read_search,-fowner"
    lesser = ["setpriv", f"--bounding-set={capability}", f"--inh-caps={capability}"] if os.geteuid() == 0 else []
    yield path, [*lesser, sys.executable, "-m", "headway"]
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_compared_and_reported_elsewhere(read_only, tmp_path):
    path, headway_as_other = read_only

    def as_other(*words):
        return subprocess.run([*headway_as_other, *map(str, words)], capture_output=True, text=True, check=False)

    for words in (["status", path], ["verify", path]):
        assert as_other(*words).returncode == 0, words
    refused = as_other("compare", path)
    assert refused.returncode == 2
    why = "results.json cannot be written: no permission, or a read-only disk"
    assert f"{why}; `headway report {path} --out FOLDER` writes to another" in refused.stderr
    out = tmp_path / "elsewhere"
    compared = as_other("compare", path, "--out", out)
    assert compared.returncode == 0, compared.stderr
    assert f"results: {out / 'results.json'}\n" in compared.stdout
    reported = as_other("report", path, "--out", out, "--look", "--no-figures")
    assert reported.returncode == 0, reported.stderr
    assert f"report: {out / 'report.html'}\n" in reported.stdout
    assert LINK in (out / "report.html").read_text()
    assert {each.name for each in out.iterdir()} == {"results.json", "report.html", "look.html"}
    assert not (path / "results.json").exists()


def test_no_other_results_are_replaced_by_those_that_are_written_elsewhere(trained, tmp_path):
    path, _ = trained
    (tmp_path / "experiment.yaml").write_text("")
    with pytest.raises(UserError, match=r"it is another results directory, whose results.json and report.html would"):
        compare(path, out=tmp_path)
    with pytest.raises(UserError, match=r"it is inside .*; name a folder outside of the results directory"):
        compare(path, out=path / "runs")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="this is a file; give a folder"):
        compare(path, out=tmp_path / "file")

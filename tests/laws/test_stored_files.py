"""Law: whatever a verb opens in a results directory stands in one table, with what would tell that it is damaged."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from faults import damager
from faults.damager import STORED_FILES
from support import quadratic, stored
from typer.testing import CliRunner

from headway.cli.options import app
from headway.execute.work import work
from headway.report.charts import page as chart_page
from headway.report.experiment import page
from headway.store.directory import Store
from headway.store.growth import turn
from headway.store.records import READ

NOT_HERE = ("plugins/*.py", "code/*", "timings/lease/*.json", "runs/*/seed-*/start.json")
"""Of plug-ins, of commands, of timing, and of runs that start from others, which no directory here has."""
VERBS = ("status", "compare", "verify", "report")

_opened: list[str] | None = None


def _hear(event: str, arguments: tuple) -> None:
    if _opened is not None and event == "open" and isinstance(arguments[0], str | Path):
        mode, flags = arguments[1], arguments[2]
        reads = mode in ("r", "rb") if mode is not None else flags & os.O_ACCMODE == os.O_RDONLY
        if reads:
            _opened.append(os.path.abspath(arguments[0]))


sys.addaudithook(_hear)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Directories of both laboratories, of a former version and made now, with a plan, a search, and a killed run."""
    into = tmp_path_factory.mktemp("read")
    for name in ("icl", "text"):
        shutil.copytree(damager.BEFORE / name, into / name)
    of = quadratic.experiment(**damager.MADE)
    store = Store.create(into / "made", of)
    for arm, seed in of.runs:
        work(store.add(arm, seed).path, damager.study)
    stored.rewrite(into / "made/runs/slow/seed-0", status="running", seal=None)
    (into / "made/runs/slow/seed-0/seal.json").unlink()
    planned = list(damager.planned_directories(into))
    (into / "text/timings").mkdir()
    (into / "text/timings/few.json").write_text("{")  # damaged: verify says so
    return [into / "icl", into / "text", into / "made", *(directory.path for directory in planned)]


@pytest.mark.slow
def test_every_file_that_is_opened_is_named_and_every_one_that_is_named_is_opened(directories, monkeypatch):
    global _opened
    monkeypatch.setattr(chart_page, "svg_of", lambda _: "<svg/>")
    monkeypatch.setattr(chart_page, "convert", lambda _, kind: kind.encode())
    monkeypatch.setattr(page, "page", lambda *_: "<html></html>")
    found: dict[str, set[str]] = {}
    for path in directories:
        _opened = list[str]()
        try:
            for verb in (*VERBS, "report") if path.name == "icl" else VERBS[:3]:
                done = CliRunner().invoke(app, [verb, str(path)])
                assert done.exit_code == 0 or (verb, path.name) == ("verify", "text"), done.output
            for run in Store.open(path).runs():
                if run.status == "done":
                    damager.everything(run)
            for _ in range(2):
                with turn(path):  # a lease that follows one
                    pass
        finally:
            opened, _opened = _opened, None
        files = {Path(file).relative_to(path).as_posix() for file in opened if file.startswith(f"{path}{os.sep}")}
        for name in files:
            if (path / name).is_file() and not name.endswith(".tmp"):
                found.setdefault(damager.kind_of(name), set()).add(name)
    assert found.pop(damager.FREE, set()) == set(), "faults.damager.STORED_FILES names it, or nothing opens it"
    unread = {kind.pattern for kind in STORED_FILES} - found.keys()
    assert unread == set(NOT_HERE), "what is read no more is taken out of the table"


def test_the_table_is_whole_and_names_no_file_twice():
    patterns = [kind.pattern for kind in STORED_FILES]
    assert len(set(patterns)) == len(patterns)
    assert all(f"runs/*/seed-*/{name}" in patterns for name in READ)
    assert all(kind.by for kind in STORED_FILES)

"""The cache: built once, by one of many processes, whole or not at all."""

import os
from pathlib import Path

import pytest

from headway.base.files import cache_folder
from headway.data import cache
from headway.data.cache import cached, content_hash
from headway.errors import UserError


def writing(text):
    return lambda folder: (folder / "a.txt").write_text(text)


def test_the_folder_is_the_users_or_the_systems(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("HEADWAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/headway")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/headway"


def test_a_result_is_built_once():
    folder = cached("name", writing("one"))
    assert cached("name", writing("two")) == folder
    assert (folder / "a.txt").read_text() == "one"


def test_a_failed_build_leaves_nothing(cache):
    def failing(folder):
        (folder / "a.txt").write_text("half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        cached("name", failing)
    assert [p.name for p in cache.iterdir()] == ["name.lock"]
    assert (cached("name", writing("one")) / "a.txt").read_text() == "one"


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        UserError, match=r"the cache .*file cannot be written: .*; free space or check .* HEADWAY_CACHE"
    ):
        cached("name", writing("one"))


def test_of_many_processes_one_builds(tmp_path):
    log = tmp_path / "log"

    def build(folder):
        with open(log, "a") as file:
            file.write("built\n")
        (folder / "a.txt").write_text("one")

    children = []
    for _ in range(9):
        if not (pid := os.fork()):
            code = 1
            try:
                code = (cached("name", build) / "a.txt").read_text() != "one"
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 9
    assert log.read_text() == "built\n"


def test_where_locks_do_not_work_the_first_result_stays(monkeypatch):
    monkeypatch.setattr(cache.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(95, "no locks")))

    def slower(folder):
        cached("name", writing("first"))
        writing("second")(folder)

    assert (cached("name", slower) / "a.txt").read_text() == "first"


def test_a_hash_is_remembered_until_the_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("one")
    first = content_hash(path)
    with monkeypatch.context() as patched:
        patched.setattr(cache.files.Content, "of_file", None)
        assert content_hash(path) == first
    path.write_text("two")
    assert content_hash(path) != first

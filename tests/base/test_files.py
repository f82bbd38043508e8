"""Files in directories that strangers may have filled: nothing that stands outside is read, written or removed."""

import os
from pathlib import Path

import pytest

from headway.base import files
from headway.errors import ResultsError


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that must stay as it is."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return tmp_path / "outside"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "directory").mkdir()
    return tmp_path / "directory"


@pytest.mark.parametrize("name", ["", ".", "..", "../outside", "/etc/passwd", "a/b", "a\0b"])
def test_a_text_that_is_no_name_leads_nowhere(directory: Path, name: str) -> None:
    assert not files.is_bare(name)
    with pytest.raises(
        ResultsError, match="is not a name of a file or folder in it, and Headway opens no file outside"
    ):
        files.inside(directory, name)


def test_a_link_is_refused_at_every_level_and_the_directory_itself_may_be_one(directory: Path, outside: Path) -> None:
    (directory / "runs").symlink_to(outside)
    for path in ("runs",), ("runs", "secret.txt"):
        with pytest.raises(ResultsError, match=r"runs is a symbolic link, and Headway follows no link inside a res"):
            files.inside(directory, *path)
    with pytest.raises(ResultsError, match="replace the link by the file or folder itself"):
        files.folder_in(directory, "runs", "one")
    chosen = directory.parent / "chosen"
    chosen.symlink_to(directory)
    assert files.folder_in(chosen, "looks", "one").is_dir()
    assert files.inside(chosen, "looks", "one", "none.json") == chosen / "looks" / "one" / "none.json"
    (directory / "nowhere").symlink_to(directory / "nothing")
    with pytest.raises(ResultsError, match="nowhere is a symbolic link"):
        files.inside(directory, "nowhere")


def test_entries_are_found_a_level_at_a_time(directory: Path, outside: Path) -> None:
    for name in ("b/seed-1", "a/seed-0", "a/other"):
        files.folder_in(directory, "runs", *name.split("/"))
    (directory / "runs" / "file").touch()
    found = [path.relative_to(directory).as_posix() for path in files.entries(directory, "runs/*/seed-*")]
    assert found == ["runs/a/seed-0", "runs/b/seed-1"]
    assert files.entries(directory, "none/*") == []
    (directory / "runs" / "a" / "seed-7").symlink_to(outside)
    for pattern in "runs/*/seed-*", "runs/*/seed-*/run.json":
        with pytest.raises(ResultsError, match="seed-7 is a symbolic link"):
            files.entries(directory, pattern)
    (directory / "one.json").symlink_to(outside / "secret.txt")
    assert files.entries(directory, "*.json") == [directory / "one.json"]
    with pytest.raises(files.NotOrdinary, match="it is a symbolic link"):
        files.read_bytes(directory / "one.json")
    assert files.read_bytes(directory / "one.json", links=True) == b"secret"


def test_appending_never_reaches_another_file(directory: Path, outside: Path) -> None:
    def append(name: str) -> bytes:
        descriptor = files.appending(directory / name)
        os.write(descriptor, b"+")
        os.close(descriptor)
        return (directory / name).read_bytes()

    (directory / "link").symlink_to(outside / "secret.txt")
    (directory / "dangling").symlink_to(outside / "made.txt")
    os.link(outside / "secret.txt", directory / "second")
    os.mkfifo(directory / "pipe")
    (directory / "usual").write_text("usual")
    assert append("link") == append("dangling") == append("pipe") == append("new") == b"+"
    assert append("second") == b"secret+"
    assert append("usual") == b"usual+"
    (directory / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        append("folder")
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_writing_and_removing_leave_what_else_has_the_name(directory: Path, outside: Path) -> None:
    (directory / "link").symlink_to(outside / "secret.txt")
    os.link(outside / "secret.txt", directory / "second")
    for name in "link", "second":
        files.write_text(directory / name, "mine")
        assert (directory / name).read_text() == "mine"
        assert not (directory / name).is_symlink()
    (directory / "dangling").symlink_to(outside / "made.txt")
    assert not files.create_text(directory / "dangling", "mine")
    with pytest.raises(FileExistsError):
        files.write_new(directory / "dangling", b"mine")
    (directory / "folder").mkdir()
    for name in "dangling", "folder", "none":
        files.remove(directory / name)
    assert sorted(path.name for path in directory.iterdir()) == ["folder", "link", "second"]
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"

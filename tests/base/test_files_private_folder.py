"""The part of the cache from which things are executed: nobody else can have put them there."""

import os
import stat
import subprocess
import sys

import pytest

from headway.base.files import private_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"torch-{os.getuid()}"


def test_it_stands_in_the_cache_and_is_the_users_alone(folder):
    former = os.umask(0o002)
    try:
        assert private_folder("torch") == (folder, "")
    finally:
        os.umask(former)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_folder("torch") == (folder, ""), "and it stays"


def test_what_others_may_read_is_closed(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert private_folder("torch") == (folder, "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def not_ours(folder):
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(parents=True)
    os.chown(folder, 12_345, 12_345)


def writable(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def of_the_group(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o770)


def a_link(folder):
    (folder.parent / "elsewhere").mkdir(parents=True)
    folder.symlink_to(folder.parent / "elsewhere")


def a_file(folder):
    folder.parent.mkdir()
    folder.write_text("")


def exchangeable(folder):
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)


def in_a_file(folder):
    folder.parent.write_text("")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (not_ours, "it belongs to another user, who could put code into it that would then run; remove it"),
        (writable, "other users can write to it, and their code could run from it; remove it"),
        (of_the_group, "other users can write to it, and their code could run from it; remove it"),
        (a_link, "it is not a folder but a file or a link; remove it"),
        (a_file, "it is not a folder but a file or a link; remove it"),
        (exchangeable, "and replace it; remove that permission, then remove it"),
        (in_a_file, "free space or check permissions, or name another cache in HEADWAY_CACHE"),
    ],
)
def test_what_may_be_somebody_elses_is_not_used_and_it_is_said(folder, make, said):
    make(folder)
    instead, why_not = private_folder("torch")
    assert why_not.startswith(f"{folder} is not used: ")
    assert said in why_not
    assert why_not.endswith("; until this is fixed, torch keeps nothing between runs")
    assert instead != folder
    assert stat.S_IMODE(instead.stat().st_mode) == 0o700
    assert instead.stat().st_uid == os.getuid()
    instead.rmdir()


def test_what_it_is_replaced_by_ends_with_the_process(folder):
    writable(folder)
    made = "f, _ = private_folder('torch'); (f / 'a').write_text(''); print(f)"
    script = f"from headway.base.files import private_folder; {made}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not os.path.exists(done.stdout.strip())

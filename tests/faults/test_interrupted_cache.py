"""The cache of tokens: killed, or out of disk, at every operation on the file system."""

import os

import pytest
from support.faults import KILLED, Operations, die, disk_full

from headway.data.cache import cached
from headway.errors import UserError


def _build(folder):
    for name in ("a.bin", "b.bin"):
        (folder / name).write_bytes(name.encode() * 1_000)


def _building(cache, number, instead):
    """The exit code of a process that builds until its operation of a number; 2 for a user's error."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            Operations(cache, number, instead)
            cached("tokens", _build)
            code = 0
        except UserError as error:
            code = 2 if "cannot be written: No space left on device; free space" in str(error) else 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize(("instead", "code"), [(die, KILLED), (disk_full, 2)])
def test_what_was_interrupted_is_never_taken_for_whole(tmp_path, monkeypatch, instead, code):
    ends = []
    for number in range(1, 200):
        cache = tmp_path / f"{code}-{number}"
        monkeypatch.setenv("HEADWAY_CACHE", str(cache))
        ends.append(_building(cache, number, instead))
        folder = cached("tokens", _build)
        assert (folder / "a.bin").read_bytes() == b"a.bin" * 1_000
        assert (folder / "b.bin").read_bytes() == b"b.bin" * 1_000
        assert not [p for p in cache.iterdir() if p.suffix == ".tmp"]
        if ends[-1] == 0 and instead is die:
            break
        if ends[-3:] == [0, 0, 0]:
            break
    assert ends.count(code) > 5
    assert set(ends) <= {0, code}

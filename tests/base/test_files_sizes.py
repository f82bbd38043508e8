"""Every file that is read in a results directory has a largest size, in one table."""

import errno
import os

import pytest
from faults.damager import STORED_FILES

from headway.base.files import LARGEST_FILES, NotOrdinary, checked, kept_json, largest_size, ordinary, read_bytes

NAMES = [*(f"name{suffix}" for suffix in LARGEST_FILES), "name"]


def sparse(path, size):
    path.write_bytes(b"")
    os.truncate(path, size)
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reader", [ordinary, checked, read_bytes])
def test_a_file_beyond_its_size_is_refused_before_it_is_read(tmp_path, name, reader):
    path = sparse(tmp_path / name, largest_size(tmp_path / name) + 1)
    with pytest.raises(NotOrdinary, match="MB, above the limit of") as refused:
        reader(path)
    assert refused.value.errno == errno.EFBIG
    assert kept_json(path) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_its_largest_size_is_opened(tmp_path, name):
    with ordinary(sparse(tmp_path / name, largest_size(tmp_path / name))) as file:
        assert file.read(1) == b"\0"


def test_a_file_that_the_user_names_has_the_limits_of_its_reader(tmp_path):
    path = sparse(tmp_path / "text.json", largest_size(tmp_path / "text.json") + 1)
    ordinary(path, links=True).close()


def test_every_name_has_a_largest_size(tmp_path):
    assert largest_size(tmp_path / "results.json") > largest_size(tmp_path / "log.txt")
    assert all(largest_size(tmp_path / kind.pattern) > 0 for kind in STORED_FILES)

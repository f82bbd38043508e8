"""A native library that is not there, damaged or of another build is an absence with a reason, never a traceback."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from headway.data import native
from headway.errors import UserError

NAME = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
BUILT = Path(native.__file__).parents[1] / NAME


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder without a library, which `native` takes for its own."""
    monkeypatch.setattr(native, "__file__", str(tmp_path / "data" / "native.py"))
    caches = (native._loaded, native.instruction_sets)
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def absent_because(reason):
    assert native.available() is None
    assert native.instruction_sets() == ()
    assert reason in native.absence()
    assert native.absence().endswith("; install a C++ compiler and then Headway again")
    with pytest.raises(UserError, match="native code was asked for, but the native code"):
        native.library()


def test_nothing_built(package):
    absent_because("the native code is not built")


def test_a_damaged_library(package):
    (package / NAME).write_bytes(b"\x7fELF and nothing more")
    absent_because("the native code cannot be loaded (")


def test_a_library_of_another_python_is_none_of_ours(package):
    (package / "_native.cpython-399-strange.so").write_bytes(b"anything")
    absent_because("the native code is not built")


def test_a_library_without_our_functions(package):
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (package / "other.c").write_text("int other(void) { return 1; }")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", package / NAME, package / "other.c"], check=True)
    absent_because(f"the native code in {package / NAME} is of another version")


@pytest.mark.skipif(not BUILT.is_file(), reason="nothing is built")
def test_ours_is_taken_beside_a_damaged_one_of_another_python(package):
    (package / "_native.zz-last-by-name.so").write_bytes(b"anything")
    shutil.copy(BUILT, package / NAME)
    assert native.available() is not None

"""How every test is run: shapes in signatures are executed, by jaxtyping with beartype."""

import gc
import itertools
import sys

import hypothesis
import pytest
from jaxtyping import install_import_hook
from support import skips

install_import_hook(["headway.data", "headway.heads", "headway.icl", "headway.models"], "beartype.beartype")

collect_ignore = ["support/made_up_kind.py"]  # its kind of task is for the table of a process of its own

pytest_runtest_makereport = skips.pytest_runtest_makereport
pytest_make_collect_report = skips.pytest_make_collect_report

# A busy machine is no failure, and what failed once fails again.
hypothesis.settings.register_profile("headway", deadline=None, derandomize=True)
hypothesis.settings.load_profile("headway")


def pytest_collection_finish():
    freeze()


def freeze():
    """What is there now lives to the end: no later search for garbage goes over it, a third of the tests' time."""
    gc.collect()
    gc.freeze()


_N_BEGUN = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """What a worker settles in this process ends with its test: two threads to a process slow all that follow."""
    if next(_N_BEGUN) % 100 == 0:
        freeze()  # modules that tests imported, and what pytest keeps of each test
    torch = sys.modules.get("torch")
    if torch is None:
        return (yield)
    n_threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    try:
        return (yield)
    finally:
        torch.set_num_threads(n_threads)
        torch.set_deterministic_debug_mode(mode)


@pytest.fixture(scope="session")
def compiles():
    """Skips where torch cannot compile; asked by tests that do, since asking takes seconds."""
    from headway.train.torch_trainer import compiling_obstacle

    if obstacle := compiling_obstacle():
        pytest.skip(obstacle)

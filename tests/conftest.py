"""Shapes in signatures are executed: jaxtyping checks them with beartype in every test."""

import pytest
from jaxtyping import install_import_hook

install_import_hook(["headway.data", "headway.heads", "headway.icl", "headway.model"], "beartype.beartype")


@pytest.fixture(scope="session")
def compiles():
    """Skips where torch cannot compile; asked by tests that do, since asking takes seconds."""
    from headway.train.trainer import compiling_obstacle

    if obstacle := compiling_obstacle():
        pytest.skip(obstacle)

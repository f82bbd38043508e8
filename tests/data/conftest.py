"""A cache of tokens that no other test writes into."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADWAY_CACHE", str(folder))
    return folder

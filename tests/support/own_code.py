"""Plugins for tests: a small task, and a fixture after which nothing of any plugin is left."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.config import plugins

ECHO = """
from typing import Literal
import numpy as np
from headway import own

@own.task
class Echo(own.Task):
    kind: Literal["echo"]
    length: int = 6

    @property
    def n_ctx(self):
        return self.length

    @property
    def vocab_size(self):
        return 5

    def draw(self, random, n):
        inputs = random.integers(5, size=(n, self.length))
        targets = np.roll(inputs, 1, axis=1)
        targets[:, 0] = own.MASKED
        return own.Batch(inputs=inputs, targets=targets)
"""
"""Say the token before."""

DOCUMENT = {
    "name": "echo",
    "plugins": ["mine.py"],
    "task": {"kind": "echo"},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_positions": 8},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 8, "steps": 6},
    "evaluation": {"every": 3, "sequences_during": 8, "sequences": 16},
    "samples": None,
    "logging": {"every": 2},
    "arms": {"h1": {"model": {"n_heads": 1}}, "h2": {"model": {"n_heads": 2}}},
    "seeds": 1,
}


def remove_plugin(plugin: plugins.Plugin) -> None:
    """Take away what a plugin registered."""
    if plugins.is_registered(plugin.digest):
        plugins._take_back(plugins._loaded.pop(plugin.name).entries)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes a plugin in the working directory, which is empty; a cache of its own says that nothing was run yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / ".cache"))

    def written(code: str, name: str = "mine.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        return path

    yield written
    for plugin in tuple(plugins._loaded.values()):
        remove_plugin(plugin)

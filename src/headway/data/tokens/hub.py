"""Data: stories from the hub, fetched once into the cache as JSON lines.

TinyStories-GPT4 is the part of TinyStories that GPT-4 wrote, in the version that the published experiments used:
2,745,100 stories in the field `story`. Its first so many are taken.

Paper: Eldan and Li 2023, arXiv 2305.07759.
"""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from headway.caches import cache_folder
from headway.data.tokens.token_cache import cached
from headway.errors import UserError

TINYSTORIES = "skeskinen/TinyStories-GPT4"
_FIELD = "story"


def is_fetched(limit: int | None) -> bool:
    """Whether the first `limit` stories are in the cache."""
    return (cache_folder() / _name(limit)).is_dir()


def tinystories(limit: int | None) -> Path:
    """A file of JSON lines with the first `limit` stories, None for all; it is fetched where the cache has none.

    Raises:
        UserError: when `datasets` is not installed, or the hub cannot be reached.
    """

    def fetch(folder: Path) -> None:
        stories = islice(_streamed(), limit)
        with open(folder / "stories.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in stories)

    return cached(_name(limit), fetch) / "stories.jsonl"


def _name(limit: int | None) -> str:
    return f"tinystories-{limit or 'all'}"


def _streamed() -> Iterator[str]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise UserError(
            "task.corpus tinystories comes from the hub through the package datasets, which is not installed; "
            "pip install 'headway[hf]', or give the path of a text file in task.corpus"
        ) from None
    try:
        rows: Any = load_dataset(TINYSTORIES, split="train", streaming=True)
        for row in rows:
            yield row[_FIELD]
    except Exception as error:  # the hub's client has many kinds of failures
        raise UserError(
            f"task.corpus tinystories: {TINYSTORIES} cannot be read from the hub ({type(error).__name__}: {error}); "
            "check the network, or give the path of a text file in task.corpus"
        ) from error

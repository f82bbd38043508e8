"""Results directories that are made up, for figures and pages."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fabricate import fabricate, material_of, small

from headway.report.charts.figure import Figure
from headway.report.charts.page import Table
from headway.report.experiment.data import ReportData
from headway.store.directory import Store


@pytest.fixture(scope="session")
def heads_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """icl-heads with two seeds, all runs done."""
    path = tmp_path_factory.mktemp("show") / "icl-heads"
    return Store.open(fabricate(path, small("icl-heads").select(seeds=2)))


@pytest.fixture(scope="session")
def heads(heads_store: Store) -> ReportData:
    return material_of(heads_store)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A path at which results can be fabricated."""
    return tmp_path / "results"


MOST_SENTENCES, MOST_WORDS = 3, 25


@pytest.fixture(scope="module", autouse=True)
def captions_are_short() -> Iterator[None]:
    """A law of all figures and tables here: at most three sentences in a caption, of at most 25 words each."""

    def checked(make: Callable[..., None]) -> Callable[..., None]:
        def made(self: Figure | Table, **parts: Any) -> None:
            make(self, **parts)
            sentences = re.split(r"(?<=\.) (?=\S)", self.caption)
            assert len(sentences) <= MOST_SENTENCES, self.caption
            for sentence in sentences:
                assert len(re.findall(r"\S*\w\S*", sentence)) <= MOST_WORDS, sentence
                assert sentence[:1] == sentence[:1].upper(), sentence

        return made

    with pytest.MonkeyPatch.context() as patch:
        for kind in (Figure, Table):
            patch.setattr(kind, "__init__", checked(kind.__init__))
        yield

"""Results directories that are made up, for figures and pages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fabricate import fabricate, material_of, small

from headway.report.charts.figure import Figure
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


@pytest.fixture(scope="session", autouse=True)
def captions_are_short() -> Iterator[None]:
    """A law of the figures that any test here makes: at most three sentences in a caption, of at most 25 words each."""
    make = Figure.__init__

    def make_checked(figure: Figure, **parts: Any) -> None:
        make(figure, **parts)
        sentences = [each for each in re.split(r"(?<=\.) (?=\S)", figure.caption) if each]
        assert len(sentences) <= MOST_SENTENCES, f"{figure.name}: {figure.caption}"
        for sentence in sentences:
            assert len(re.findall(r"\S*\w\S*", sentence)) <= MOST_WORDS, f"{figure.name}: {sentence}"
            assert sentence[0] == sentence[0].upper(), f"{figure.name}: {sentence}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "__init__", make_checked)
        yield

"""Results directories that are made up, for figures and pages."""

from pathlib import Path

import pytest
from support.fabricate import fabricate, material_of, small

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

"""Show: what a laboratory supplies for a report, and the one way to get at it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headway.declare.laboratories import part_of
from headway.declare.run import RunSpec
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.report.tables import Table
from headway.show.shared.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A sentence of the answer beside the verdicts, and the colour of what it is about."""

    sentence: str
    colour: str


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A text that a model wrote; `prompt` is how it was made to begin."""

    title: str
    prompt: str
    text: str
    note: str


@dataclass(frozen=True, kw_only=True)
class Writing:
    """What an arm wrote before and after training."""

    label: str
    samples: tuple[Sample, ...]


class ReportSlice(ABC):
    """A laboratory's slice of the report."""

    controls_apart: ClassVar[bool] = False
    """Whether figures are drawn once for each control, so that an arm keeps its colour under it."""

    def answer(self, material: ReportData) -> Figure | None:  # noqa: ARG002
        """The figure that answers what is asked, before all others; None where differences of arms do."""
        return None

    @abstractmethod
    def figures(self, material: ReportData) -> Iterator[Figure | None]:
        """Its figures in their order, None for those that the results have no numbers for."""

    def answers(self, material: ReportData) -> Iterator[Figure | None]:  # noqa: ARG002
        """Figures that answer the question better than differences between arms do, and so come before them."""
        yield from ()

    @abstractmethod
    def final(self, material: ReportData) -> Table:
        """The opening table."""

    @abstractmethod
    def luck(self, material: ReportData) -> str:
        """What the intervals leave out, in a sentence; empty where there is no interval."""

    def heads(self, arm: ArmResults) -> Iterable[tuple[int, Table]]:  # noqa: ARG002
        """The table per head of each seed of an arm."""
        return ()

    def statements(self, material: ReportData) -> Sequence[Statement]:  # noqa: ARG002
        """What is said below the verdicts."""
        return ()

    def tables(self, material: ReportData) -> Sequence[tuple[str, Table]]:  # noqa: ARG002
        """Further tables, by title."""
        return ()

    def writings(self, material: ReportData) -> Sequence[Writing]:  # noqa: ARG002
        """Texts before and after training."""
        return ()


def laboratory_of(run: RunSpec) -> ReportSlice:
    """The laboratory of a run."""
    found: ReportSlice = part_of(run, "show")
    return found

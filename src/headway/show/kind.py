"""Show: what of a report depends on the laboratory; the table of them stands in `kinds.py`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headway.show.figure import Figure
from headway.show.material import ArmResults, Material
from headway.show.tables import Table


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


def _nothing(material: Material) -> Sequence[object]:  # noqa: ARG001 - the parts of a kind share a signature
    return ()


def _no_heads(arm: ArmResults) -> Iterator[tuple[int, Table]]:  # noqa: ARG001
    return iter(())


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A laboratory's report."""

    figures: Callable[[Material], Iterator[Figure | None]]
    """Its figures in their order, None for those that the results have no numbers for."""
    final: Callable[[Material], Table]
    """The opening table."""
    luck: Callable[[Material], str]
    """What the intervals leave out, in a sentence; empty where there is no interval."""
    heads: Callable[[ArmResults], Iterator[tuple[int, Table]]] = _no_heads
    """The table per head of each seed of an arm."""
    statements: Callable[[Material], Sequence[Statement]] = _nothing  # type: ignore[assignment]
    """What is said below the verdicts."""
    tables: Callable[[Material], Sequence[tuple[str, Table]]] = _nothing  # type: ignore[assignment]
    """Further tables, by title."""
    writings: Callable[[Material], Sequence[Writing]] = _nothing  # type: ignore[assignment]
    """Texts before and after training."""

"""Show, the in-context laboratory: its `report`, and the figures in it.

`lengths` of prompts, `dynamics` of w and mu while training, `maps` of circuits, and `theory`.
"""

from collections.abc import Iterable, Iterator

from headway.show.icl import report
from headway.show.report.laboratory import Laboratory
from headway.show.report.material import ArmResults, Material
from headway.show.report.tables import Table
from headway.show.shared.figure import Figure


class Icl(Laboratory):
    """In-context regression."""

    def figures(self, material: Material) -> Iterator[Figure | None]:
        """See `report.figures`."""
        return report.figures(material)

    def final(self, material: Material) -> Table:
        """See `report.final_metrics`."""
        return report.final_metrics(material)

    def luck(self, material: Material) -> str:
        """The luck of the prompts."""
        return report.luck(material)

    def heads(self, arm: ArmResults) -> Iterable[tuple[int, Table]]:
        """Of one-layer arms."""
        return report.heads(arm)


LABORATORY = Icl()

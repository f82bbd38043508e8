"""Show, transformers on tokens: their `report`, and the figures in it.

* what it comes to: `loss_against_heads`, `sizes`, `learning`, `cost`;
* the data lane: `lane`, `lane_diagram`; what models write: `writing`;
* what `probed` heads did: `head_training`, `head_layers`, `head_maps`, `kv_heads`, `regularised`, `association` with
  the loss, and the published `statements`.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from headway.show.report.laboratory import Laboratory, Statement, Writing
from headway.show.report.material import Material
from headway.show.report.tables import Table
from headway.show.shared.figure import Figure
from headway.show.tokens import report, writing


class Tokens(Laboratory):
    """Transformers on tokens."""

    controls_apart: ClassVar[bool] = True

    def figures(self, material: Material) -> Iterator[Figure | None]:
        """See `report.figures`."""
        return report.figures(material)

    def final(self, material: Material) -> Table:
        """See `report.final`."""
        return report.final(material)

    def luck(self, material: Material) -> str:
        """The luck of the held-out sequences."""
        return report.luck(material)

    def statements(self, material: Material) -> Sequence[Statement]:
        """See `report.statements`."""
        return report.statements(material)

    def tables(self, material: Material) -> Sequence[tuple[str, Table]]:
        """See `report.tables`."""
        return report.tables(material)

    def writings(self, material: Material) -> Sequence[Writing]:
        """See `writing.writings`."""
        return writing.writings(material)


LABORATORY = Tokens()

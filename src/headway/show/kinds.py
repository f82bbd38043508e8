"""Show: the laboratories' reports by `task.kind`, the one place where they are chosen."""

from headway.show import regression, text
from headway.show.kind import Kind
from headway.show.material import Material

KINDS: dict[str, Kind] = {"regression": regression.KIND, "text": text.KIND}


def kind_of(material: Material) -> Kind:
    """The kind of report that an experiment gets."""
    return KINDS[material.kind]

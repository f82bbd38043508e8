"""Show: figures of one's own, which plugins register; one that fails is left out of the report, with a warning."""

import warnings
from collections.abc import Iterator

from headway.declare.plugins import Entry, Plugin
from headway.show.report.report_data import ReportData
from headway.show.shared.figure import Figure


def figures_of_own(material: ReportData) -> Iterator[Figure]:
    """What the plugins of an experiment draw of it."""
    for plugin in material.experiment.plugins:
        for entry in plugin.entries:
            if entry.kind == "figure" and (figure := _drawn(entry, plugin, material)) is not None:
                yield figure


def _drawn(entry: Entry, plugin: Plugin, material: ReportData) -> Figure | None:
    try:
        figure: Figure | None = entry.value(material)
        if figure is not None:
            _ = figure.spec  # whose errors would end the report
    except Exception as error:  # noqa: BLE001 - whatever code of the user's raises is told
        warnings.warn(
            f"figure {entry.name} of plugin {plugin.given} is left out: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return figure

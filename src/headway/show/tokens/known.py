"""Show: the figures that answer what a task is asked for whose answer is known, in their order."""

from collections.abc import Iterator

from headway.show.report.report_data import ReportData
from headway.show.shared.figure import Figure
from headway.show.tokens.known_errors import errors_by_heads
from headway.show.tokens.known_parts import by_kind, by_length
from headway.show.tokens.known_scores import accuracies
from headway.show.tokens.solved_map import solved_map


def answers(material: ReportData) -> Iterator[Figure | None]:
    """What kinds of question get, what errors come to, in how many seeds it is solved, and how much is right."""
    for draw in (by_kind, errors_by_heads, solved_map, accuracies, by_length):
        yield draw(material)

"""Show: the report, one HTML file that holds everything it needs and fetches nothing.

The answer stands first, one sentence per arm; then the numbers, the figures, the tables per head, how it was run
and how to repeat it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headway.compare.answer import MANY, without_pairs
from headway.compare.results import Results
from headway.declare.experiment import load
from headway.declare.shipped import shipped
from headway.show.report import current, tables
from headway.show.report.differences import differences
from headway.show.report.laboratory import laboratory_of
from headway.show.report.report_data import ReportData, gather
from headway.show.shared.figure import Figure
from headway.show.shared.figure_files import are_current, remove_outdated, write_figures, write_whole
from headway.show.shared.page import render
from headway.show.shared.theme import ASKED
from headway.words import command_line, counted, duration

if TYPE_CHECKING:
    from headway.runs.store import Store


UNKNOWN = "#9aa0a8"
"""The colour of what is about no arm that is drawn."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A sentence of the answer, and the colour of the arm it is about."""

    sentence: str
    colour: str
    group: str | None
    control: str | None


def write_report(store: "Store", results: Results, *, files: bool = True) -> Path:
    """Write `report.html`, and its figures as `files` under `figures/`, as far as they changed; the path of the page.

    Where figures are not wanted as files, those of before that the page no longer holds are removed.

    Raises:
        ResultsError: when a file cannot be written.
    """
    path, state = store.path / "report.html", current.state(store.path)
    written = current.is_of(path, state)
    if written and (not files or are_current(store.path / "figures", state)):
        return path
    material = gather(store, results)
    drawn = tuple(figures(material))
    if files:
        write_figures(store.path / "figures", drawn, state=state)
    else:
        remove_outdated(store.path / "figures", drawn, state)
    return path if written else write_whole(path, current.signed(page(material, drawn), state).encode())


def figures(material: ReportData) -> Iterator[Figure]:
    """Every figure that the results have the numbers for; none at all before a run has finished."""
    if material.arms:
        yield from differences(material)
        drawn = laboratory_of(material.run).figures(material)
        yield from (figure for figure in drawn if figure is not None)


def page(material: ReportData, drawn: Sequence[Figure]) -> str:
    """The report as HTML."""
    laboratory = laboratory_of(material.run)
    said = by_control(material)
    return render(
        "report.html.j2",
        drawn,
        experiment=material.experiment,
        verdicts=said[None],
        controlled={name: found for name, found in said.items() if name is not None},
        progress=progress(material),
        luck=laboratory.luck(material),
        statements=laboratory.statements(material),
        warnings=material.results.warnings,
        final=laboratory.final(material) if material.arms else None,
        further=laboratory.tables(material),
        writings=laboratory.writings(material),
        heads={arm.label: found for arm in material.arms if (found := list(laboratory.heads(arm)))},
        comparisons=tables.comparisons(material),
        runs=tables.runs(material),
        execution=tables.execution(material),
        command=command(material),
        document=material.experiment.dump(),
    )


def verdicts(material: ReportData) -> list[Verdict]:
    """What is asked of several arms, what the comparisons of the primary metric say, and how many say nothing yet."""
    asked = [
        Verdict(sentence=c.sentence, colour=ASKED, group=None, control=c.control) for c in material.results.contrasts
    ]
    colours = {arm.name: arm.colour for arm in material.arms}
    found = [
        Verdict(sentence=c.verdict, colour=colours.get(c.arm, UNKNOWN), group=c.group, control=c.control)
        for c in material.results.judged
        if c.verdict and c.n_pairs
    ]
    missing = without_pairs(material.results)
    return [*asked, *found, *([Verdict(sentence=missing, colour=UNKNOWN, group=None, control=None)] if missing else [])]


def by_control(material: ReportData) -> dict[str | None, list[Verdict]]:
    """The verdicts that stand in the answer, under None, and where they are many, those that each control adds."""
    every = verdicts(material)
    folded: dict[str | None, list[Verdict]] = {None: []}
    for verdict in every:
        control = verdict.control if len(every) > MANY else None
        label = None if control is None else material.experiment.control_label(control)
        folded.setdefault(label, []).append(verdict)
    return folded


def progress(material: ReportData) -> str:
    """How many runs there are, over how many seeds, and how many are not done."""
    done = sum(run.status == "done" for run in material.runs)
    failed = sum(run.status == "failed" for run in material.runs)
    said = f"{counted(len(material.runs), 'run')}: {done} done"
    damaged = sum(run.status == "damaged" for run in material.runs)
    open_runs = len(material.runs) - done - failed - damaged
    said += f", {failed} failed" if failed else ""
    said += f", {damaged} damaged" if damaged else ""
    said += f", {open_runs} not finished" if open_runs else ""
    seconds = sum(run.metrics.get("wall_s") or 0.0 for run in material.runs)
    return said + (f"; {duration(seconds)} of training" if seconds else "")


def command(material: ReportData) -> str:
    """What to type to run all this again into another directory."""
    experiment = material.experiment
    ships = experiment.name in shipped() and _is_shipped(material)
    seeds = sorted({run.seed for run in material.runs})
    counts = seeds == list(range(len(seeds)))
    present = {run.arm for run in material.runs}
    declared = [arm for arm in experiment.arms if arm.control is None]
    partly = present and {arm.name for arm in declared} - present
    return command_line(
        "run",
        experiment.name if ships else f"{experiment.name}.yaml",
        scale=experiment.scale if ships else None,
        seeds=(len(seeds) if counts else ",".join(map(str, seeds)) + "," * (len(seeds) == 1)) or None,
        arms=",".join(arm.name for arm in declared if arm.name in present) if partly else None,
        control=[control for control in dict.fromkeys(run.control for run in material.runs) if control],
    )


def _is_shipped(material: ReportData) -> bool:
    """Whether the directory's document is the one that comes with Headway, unchanged."""
    experiment = material.experiment
    scales = load(experiment.name).document.scales
    if experiment.scale and experiment.scale not in scales:
        return False
    return not load(experiment.name, scale=experiment.scale).differences(experiment)

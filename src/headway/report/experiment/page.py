"""The report page: one HTML file that holds everything it needs and fetches nothing.

The answer stands first (`first_screen`), and what it rests on. Then follow the numbers, the figures, the tables per
head, how the experiment was run, and how to repeat it.

Plugins may register figures of their own. A figure that fails is left out of the report, with a warning.
"""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from headway.base.files import entries, inside, is_up_to_date
from headway.base.identity import grouped
from headway.base.text import command_line, counted
from headway.base.words import agreement, say
from headway.config.document import Published
from headway.config.experiment import Experiment
from headway.config.load import load
from headway.config.metrics import METRICS
from headway.config.plugins import Entry, Plugin
from headway.config.spec import MOST_MODELS
from headway.config.yaml import leaves, shipped
from headway.errors import UserError
from headway.report.charts.figure import Figure
from headway.report.charts.page import convert, render, svg_of, templates, why_not_drawn, write_figures, write_whole
from headway.report.experiment import laboratory as tables
from headway.report.experiment.data import ReportData, gather
from headway.report.experiment.first_screen import first_screen, would_change
from headway.report.experiment.laboratory import report_part_of
from headway.stats.answer import without_pairs
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison
from headway.stats.results import Results
from headway.stats.verdicts import carried_by, kind_of, scope

if TYPE_CHECKING:
    from headway.store.directory import Store


def plugin_figures(material: ReportData) -> Iterator[Figure]:
    """Yield the figures that the plugins of an experiment draw."""
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


_INPUTS = (
    "results.json",
    "experiment.yaml",
    "timings/*.json",
    "looks/*.json",
    "runs/*/seed-*/run.json",
)
"""The files of a results directory that the report is made from; `experiment.yaml` names plugins by their hashes."""


def write_report(
    store: "Store",
    results: Results,
    *,
    files: bool = True,
    anew: bool = True,
    out: Path | None = None,
    follow: Callable[[Sequence[Figure]], Iterable[Figure]] = iter,
) -> Path:
    """Write `report.html`, and its figures as files under `figures/`; return the path of the page.

    If nothing can be drawn, the page says so and has no figures. Old files of figures stay.

    Args:
        store: the results directory.
        results: the results of the directory.
        files: True to write the figures as files.
        anew: True to write everything, even files that are newer than their inputs.
        out: the folder of the page and of `results.json`; None: the directory itself.
        follow: the function that goes through the figures while they are written, to show progress.

    Raises:
        ResultsError: when a file cannot be written.
    """
    path, folder = (out or store.path) / "report.html", inside(out or store.path, "figures")
    writes_figures = files and not why_not_drawn()
    if not anew:
        inputs = list[Path]()
        for pattern in _INPUTS:
            inputs += entries(store.path, pattern)
        page_inputs = [*inputs, *entries(store.path, "look.html")]
        page_is_current = is_up_to_date(path, page_inputs)
        figures_are_current = not writes_figures or is_up_to_date(folder, inputs)
        if page_is_current and figures_are_current:
            return path
    material = gather(store, results)
    drawn = () if why_not_drawn() else tuple(figures(material))
    if writes_figures:
        write_figures(folder, drawn, follow=follow)
    return write_whole(path, page(material, drawn, out).encode())


def write_answer(store: "Store", results: Results, out: Path | None = None) -> Path:
    """Write the answer of a directory as Markdown, its first figure as a PNG beside it; return the path of the text.

    Both are named after the experiment and stand in `answer/`, in the directory or in another folder `out`.

    Raises:
        ResultsError: when a file cannot be written.
    """
    material, folder = gather(store, results), inside(out or store.path, "answer")
    experiment, name = material.experiment, material.experiment.name
    said = [one.sentence for one in report_part_of(material.run).statements(material)] if material.arms else []
    picture = None if why_not_drawn() else next(figures(material), None)
    if picture is not None:
        write_whole(folder / f"{name}.png", convert(svg_of(picture.spec), "png"))
    first = first_screen(material, progress(material), said)
    ended = max(((run.path / "run.json").stat().st_mtime for run in material.runs if run.status == "done"), default=0.0)
    content = {"name": name, "question": experiment.question or name, "first": first, "picture": picture}
    # A directory may be older than what its shipped file says of the literature.
    document = load(name).document if _settings_of_shipped(experiment) == [] else experiment.document
    published = [(claim, _found(claim, material.results)) for claim in document.published]
    content |= {"published": published, "changes": would_change(material, first.cautions)}
    content |= {"command": command(material), "version": version("headway"), "date": f"{date.fromtimestamp(ended)}"}
    # Quotes do no harm in Markdown, and commands have some.
    text = templates().get_template("answer.md.j2").render(content).replace("&#39;", "'").replace("&#34;", '"')
    return write_whole(folder / f"{name}.md", text.encode())


def _found(claim: Published, results: Results) -> str:
    """Return what these results say of a published claim: whether they agree, and the verdict."""
    for statement in results.claims:
        if (statement.name, statement.control) == (claim.compares, None):
            return statement.sentence.removeprefix(f"{statement.says}: ")
    every: dict[str | None, Comparison | JudgedContrast] = {}
    every |= {one.name: one for one in results.contrasts if one.control is None}
    every |= {f"{one.arm} - {one.baseline}": one for one in results.judged if one.control is None}
    judged = every.get(claim.compares)
    if judged is None or claim.says is None:
        return say("not_compared")
    kind = kind_of(judged, results.family(judged), METRICS[judged.metric].better)
    return f"{agreement(claim.says, kind)}: {judged.sentence}"


def figures(material: ReportData) -> Iterator[Figure]:
    """Yield every figure that the results have numbers for; none before a run has finished."""
    if material.arms:
        laboratory = report_part_of(material.run)
        yield from filter(None, laboratory.answers(material))
        yield from filter(None, laboratory.figures(material))
        yield from plugin_figures(material)


def _can_look(material: ReportData) -> bool:
    """Return whether `headway look` can open the models, which must read tokens."""
    reads_numbers = getattr(material.run.model, "encoder", None) is not None
    return bool(material.arms) and material.run.task.n_ctx is not None and not reads_numbers


def page(material: ReportData, drawn: Sequence[Figure], out: Path | None = None) -> str:
    """The report as HTML, for the results directory or another folder."""
    laboratory = report_part_of(material.run)
    statements = laboratory.statements(material)
    undrawn = [why for why in (why_not_drawn(),) if why]
    said = [statement.sentence for statement in statements]
    return render(
        "report.html.j2",
        drawn,
        experiment=material.experiment,
        first=first_screen(material, progress(material), said, undrawn),
        sure=sureness(material),
        luck=laboratory.luck(material),
        look=((out or material.path) / "look.html").is_file(),
        can_look=_can_look(material),
        look_at=_alone(material),
        statements=statements,
        final=laboratory.final(material) if material.arms else None,
        further=laboratory.tables(material),
        writings=laboratory.writings(material),
        heads={arm.label: found for arm in material.arms if (found := list(laboratory.heads(arm)))},
        comparisons=tables.comparisons(material),
        runs=tables.runs(material),
        execution=tables.execution(material),
        command=command(material),
        document=without_folders(material.experiment.dump(), material.experiment),
    )


def _alone(material: ReportData) -> str:
    """Return a run to open by itself, if a page does not hold a run of each arm; empty if it does."""
    names = {run.name for run in material.runs if run.status == "done"}
    if not material.arms or len(names) <= MOST_MODELS:
        return ""
    return material.arms[0].shown.run.path.relative_to(material.path).as_posix()


def sureness(material: ReportData) -> list[tuple[str, list[str]]]:
    """Return what holds for each family of the primary metric, and below it the verdicts in full, as sentences."""
    results = material.results
    asked = [one for one in results.contrasts if one.sentence]
    found = [one for one in results.judged if one.n_pairs]
    # What both say is told once, as the answer to the question.
    distinct: dict[tuple[str | None, str], Comparison | JudgedContrast] = {}
    every: list[Comparison | JudgedContrast] = [*asked, *found]
    for one in every:
        distinct.setdefault((one.control, one.sentence), one)
    told: dict[str, list[str]] = {}
    for judged in grouped(distinct.values(), lambda one: (one.of, one.control)).values():
        control, family = judged[0].control, results.family(judged[0])
        held = "" if family is None else scope(family, judged)
        under = "" if control is None else f"Under {material.experiment.control_label(control)}: "
        sentences = told.setdefault(f"{under}{held}", [])
        sentences += [one.sentence for one in judged]
        if family is not None and (carried := carried_by(family, judged)):
            sentences.append(carried)
    if asked and found:
        told.setdefault("", []).append(say("two_families"))
    if missing := without_pairs(results):
        told.setdefault("", []).append(missing)
    return list(told.items()) if material.arms else []


def progress(material: ReportData) -> str:
    """Return how many runs there are, over how many seeds, and how many are not done."""
    counts = Counter(run.status for run in material.runs)
    if set(counts) == {"done"}:
        return f"{counted(len(material.runs), 'run')}, all finished"
    said = f"{counted(len(material.runs), 'run')}: {counts['done']} done"
    said += "".join(f", {counts[status]} {status}" for status in ("failed", "damaged") if counts[status])
    unfinished = len(material.runs) - counts["done"] - counts["failed"] - counts["damaged"]
    return said + (f", {unfinished} not finished" if unfinished else "")


_MOST_SETTINGS = 8
"""The most settings of a command that a reader types; beyond that the document is saved instead."""


def command(material: ReportData) -> str:
    """Return the command that runs all this again into another directory."""
    experiment = material.experiment
    settings = _settings_of_shipped(experiment)
    seeds = sorted({run.seed for run in material.runs})
    counts = seeds == list(range(len(seeds)))
    present = {run.arm for run in material.runs}
    declared = [arm for arm in experiment.arms if arm.control is None]
    partly = present and {arm.name for arm in declared} - present
    return command_line(
        "run",
        f"{experiment.name}.yaml" if settings is None else experiment.name,
        scale=None if settings is None else experiment.scale,
        seeds=(len(seeds) if counts else ",".join(map(str, seeds)) + "," * (len(seeds) == 1)) or None,
        arms=",".join(arm.name for arm in declared if arm.name in present) if partly else None,
        control=[control for control in dict.fromkeys(run.control for run in material.runs) if control],
        set=settings,
    )


def _settings_of_shipped(experiment: Experiment) -> list[str] | None:
    """Return the settings that make the shipped experiment of this name this one; None if no few of them do."""
    if experiment.name not in shipped():
        return None
    values = leaves(experiment.plain())
    try:
        keys = load(experiment.name, scale=experiment.scale).differences(experiment)
        if len(keys) > _MOST_SETTINGS or not values.keys() >= set(keys):
            return None
        settings = [f"{key}={text if isinstance(text := values[key], str) else json.dumps(text)}" for key in keys]
        made = load(experiment.name, scale=experiment.scale, settings=settings)
    except UserError:  # a scale that is gone, or a value that no setting gives
        return None
    return None if made.differences(experiment) else [without_folders(setting, experiment) for setting in settings]


def without_folders(text: str, experiment: Experiment) -> str:
    """Return a text with the names of files in place of the absolute paths that an experiment has.

    A page is sent to others, whom the folders of its writer do not concern.
    """
    paths = [value for value in leaves(experiment.plain()).values() if isinstance(value, str) and value.startswith("/")]
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, PurePath(path).name or path)
    return text

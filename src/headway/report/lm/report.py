"""The report on transformers on tokens: its figures in their order, its tables and its texts.

`answers` yields the figures of tasks with known answers; `probed` yields those of the probes, for arms without a
control and under each control.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from headway.base.text import capital, join, number
from headway.base.words import say
from headway.config.metrics import METRICS, YES_OR_NO
from headway.config.run import PER_BYTE
from headway.report.charts.figure import NGRAMS, QUIET, SCHEME_COLOURS, Figure
from headway.report.charts.page import Row, Table
from headway.report.experiment.data import ArmResults, ReportData, arm_styles
from headway.report.experiment.laboratory import ReportPart, Statement, Writing, by_task, over_seeds, seeds_said
from headway.report.experiment.outcome import final_outcome
from headway.report.lm import heads, samples, size, training
from headway.report.lm.common import BITS, LOSS, loss_metric, values
from headway.report.lm.heads import PART
from headway.report.lm.published import against_loss, association, lane_diagram, with_film
from headway.report.lm.synthetic import accuracies, by_kind, errors_by_heads, solved_map
from headway.report.lm.training import learning_rates
from headway.stats.evidence import Comparison
from headway.stats.learning_rates import rate_controls
from headway.stats.lm.scaling import PARAMETERS, Fit
from headway.stats.lm.verdicts import apart_sentence


def answers(material: ReportData) -> Iterator[Figure | None]:
    """Yield the figures of a task with known answers: question kinds, errors, solved seeds, accuracies."""
    for draw in (by_kind, errors_by_heads, solved_map, accuracies):
        yield draw(material)


def probed(material: ReportData, control: str | None) -> Iterator[Figure]:
    """Yield every figure of the probes of arms under one control; those under a control are a part of their own."""
    part_of_all = material.under(control)
    progress = (with_film(figure, part_of_all) for figure in heads.progress(part_of_all, every=control is None))
    for figure in filter(None, (*progress, association(part_of_all), against_loss(part_of_all))):
        if control is None:
            yield figure
        else:
            part = f"{PART}: {material.experiment.control_label(control)}"
            yield replace(figure, name=f"{figure.name}-{control}", part=part, folded=True)


Draw = Callable[[ReportData], Figure | None]

LOSS_AGAINST_HEADS, LEARNING = partial(by_task, size.loss_against_heads), partial(by_task, training.learning)
"""The figures of the loss, one for each task, since losses of different tasks differ."""

FINAL = {
    "eval_bits_per_byte": BITS.axis,
    "solved": "seeds that solve the task",
    "accuracy": "accuracy",
    "nmse": "error over variance",
    "eval_loss_nats": LOSS.axis,
    "total_heads": "total number of heads",
    "n_parameters": "parameters",
    "tokens": "training tokens",
}
"""Final metrics in the opening table: name to heading."""


class TokensReportPart(ReportPart):
    """The report of transformers on tokens."""

    controls_apart: ClassVar[bool] = True

    def answers(self, material: ReportData) -> Iterator[Figure | None]:
        """Yield the figures of a task with known answers, and those of the loss without heads if arms were pruned."""
        yield from answers(material)
        if _has_init_from(material):
            for control in material.controls:
                yield _under(material, control, training.against_kept)

    def figures(self, material: ReportData) -> Iterator[Figure | None]:
        """The figures in their order; None in place of one that the results have no numbers for."""
        shown = [control for control in material.controls if control not in rate_controls(material.experiment)]
        trained = _trained(material)

        def of_controls(draw: Draw) -> Iterator[Figure | None]:
            for control in shown:
                yield _under(trained, control, draw)

        if not _has_init_from(material):  # the heads of a pruned arm are no chosen layout
            yield from of_controls(LOSS_AGAINST_HEADS)
            yield by_task(size.loss_against_parameters, material)
        if material.results.primary == PER_BYTE:
            yield final_outcome(material, BITS)
        else:
            yield by_task(partial(final_outcome, measure=loss_metric(material)), material)
        for draw in (LEARNING, size.cost):
            yield from of_controls(draw)
        yield lane_diagram(material)
        for draw in (training.lane_use, samples.repetition):
            yield from of_controls(draw)
        for control in shown:
            yield from probed(material, control)

    def final(self, material: ReportData) -> Table:
        """A row per arm and, below, a row for each of what needs no training."""
        primary = material.results.primary
        names = [name for name in FINAL if any(len(arm.final(name)) for arm in material.arms)]
        if primary != PER_BYTE:
            names = [name for name in names if name != PER_BYTE]
        headings = FINAL | {LOSS.metric: loss_metric(material).axis}
        # A primary metric that is a share has no differences in per cent.
        relative = primary in names and METRICS[primary].unit != YES_OR_NO
        columns = {"": [arm.label for arm in material.arms]}
        for name in names:
            if name == "solved":
                cells = [_solved(arm) for arm in material.arms]
            else:
                cells = [over_seeds(arm, name) for arm in material.arms]
            columns[headings[name]] = cells
            if name == names[0] and relative:
                columns |= _against(material)
        columns |= _costs(material) if material.timings else {}
        rows = []
        for arm, *cells in zip(material.arms, *columns.values(), strict=True):
            rows.append(Row(cells=tuple(cells), colour=arm.colour))
        for name, loss in values(material).items():
            rows.append(Row(cells=(NGRAMS[name][0], number(loss), *[""] * (len(columns) - 2)), quiet=True))
        return Table(
            columns=tuple(columns),
            rows=rows,
            caption=join(
                f"Values at the end of training ({seeds_said(material)}).",
                "Tokens exclude the training of the initial checkpoint." if _has_init_from(material) else "",
                size.busy(material),
            ),
            hints={headings[name]: METRICS[name].sentence for name in names if name in METRICS},
        )

    def luck(self, material: ReportData) -> str:
        """Return a sentence on the sampling of held-out text, which intervals leave out; empty without intervals."""
        return self.same_examples(material, "held-out sequences", "sequences")

    def statements(self, material: ReportData) -> list[Statement]:
        """The published sentence recomputed, what lies below the curve of plain models, and the best learning rates."""
        results, named = material.results, arm_styles(material.experiment)
        rate_only = rate_controls(material.experiment)
        found = list(_curves(material, [fit for fit in results.fits if fit.control not in rate_only]))
        for entry in results.plain_curve:
            if entry.arm.partition("+")[2] not in rate_only:
                found.append(Statement(sentence=entry.sentence, colour=named[entry.arm].colour))
        at_best = [c for entry in results.learning_rates for c in entry.comparisons]
        changed = [c for c in at_best if c.changed]
        for c in changed:
            found.append(Statement(sentence=say("at_best_rates", verdict=c.verdict), colour=QUIET))
        if not changed and any(c.interval for c in at_best):
            found.append(Statement(sentence=say("no_change_at_best_rates"), colour=QUIET))
        prunable = training.prunable(material.under(None))
        if prunable is not None:
            found.append(prunable)
        return [*samples.statements(material), *found]

    def tables(self, material: ReportData) -> list[tuple[str, Table]]:
        """Further tables: learning rates, and what samples repeat and use."""
        found = [
            ("Published claims", samples.table(material)),
            ("Learning rates", learning_rates(material)),
            ("Sample statistics", samples.vanishing(material)),
        ]
        return [(title, table) for title, table in found if table]

    def writings(self, material: ReportData) -> list[Writing]:
        """The texts of each arm's shown run."""
        return samples.writings(material)


def _has_init_from(material: ReportData) -> bool:
    """Return whether arms are initialised from others."""
    return any(arm.parent is not None for arm in material.experiment.arms)


def _trained(material: ReportData) -> ReportData:
    """Return the data with only the arms that were trained, since the others have no curve."""
    arms = tuple(arm for arm in material.arms if arm.shown.run.steps)
    return replace(material, arms=arms) if arms else material


def _under(material: ReportData, control: str | None, draw: Draw) -> Figure | None:
    figure = draw(material.under(control))
    if figure is None or control is None:
        return figure
    title = f"{figure.title}: {material.experiment.control_label(control)}"
    return replace(figure, name=f"{figure.name}-{control}", title=title)


def _solved(arm: ArmResults) -> str:
    """In how many of its seeds the task is solved."""
    solved = arm.final("solved")
    if not len(solved):
        return "–"
    return f"{int(solved.sum())} of {len(solved)}"


def _against(material: ReportData) -> dict[str, list[str]]:
    """Columns of the differences from the baselines, and of the baselines' short names where there are several.

    An arm is compared with the baseline that it is first compared with: its group's, where it has one.
    """
    named, first = arm_styles(material.experiment), dict[str, Comparison]()
    for comparison in material.results.judged:
        if comparison.share is not None:
            first.setdefault(comparison.arm, comparison)
    differences, baselines = list[str](), list[str]()
    for arm in material.arms:
        compared = first.get(arm.name)
        if compared is None or compared.share is None:
            differences.append("–")
            baselines.append("–")
        else:
            differences.append(f"{100 * compared.share:+.2f} %".replace("-", "−"))
            baselines.append(named[compared.baseline].point)
    columns = {"against its baseline": differences}
    if len(set(baselines) - {"–"}) > 1:
        columns["baseline"] = baselines
    return columns


def _costs(material: ReportData) -> dict[str, list[str]]:
    timings = [material.timings.get(arm.name, {}) for arm in material.arms]
    memory = [timing.get("memory_bytes") for timing in timings]
    return {
        "tokens/s": [number(timing.get("tokens_per_s"), 4) for timing in timings],
        "memory, MiB": ["–" if used is None else f"{used / 2**20:,.0f}" for used in memory],
    }


def _curves(material: ReportData, fits: Sequence[Fit]) -> Iterator[Statement]:
    """Yield statements on the curves through the arms, the published form with the other form beside it."""
    published, free_form = PARAMETERS
    for fit in sorted(fits, key=lambda f: (f.control is not None, f.scheme != "descending")):
        if fit.sentence and fit.form == published:
            key = fit.scheme, fit.control, free_form
            free = next((f.against for f in fits if f.against and (f.scheme, f.control, f.form) == key), None)
            other = ""
            if free and len(fit.seeds) > 1:
                other = say("free", comparison=apart_sentence(free.relative, free.interval, len(fit.seeds)))
            control = "" if fit.control is None else f", under {material.experiment.control_label(fit.control)}"
            sentence = say("fitted", comparison=capital(fit.sentence), free=other, control=control)
            yield Statement(sentence=sentence, colour=SCHEME_COLOURS[fit.scheme])


LABORATORY = TokensReportPart()

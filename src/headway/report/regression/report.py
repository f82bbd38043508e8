"""The report on in-context regression: its figures in their order, and its tables."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from headway.base.text import join, number, span
from headway.base.words import say
from headway.config.metrics import METRICS
from headway.icl.circuits import head_table
from headway.report.charts.figure import ESTIMATORS, HEAD_COLOURS, Figure
from headway.report.charts.page import Row, Table
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.report.experiment.laboratory import ReportPart, Statement, arm_rows, by_task, seeds_said
from headway.report.experiment.outcome import OutcomeMeasure, final_outcome
from headway.report.regression import heads, theory, training
from headway.report.regression.heads import circuits_of, declared, has_one_layer

ERROR = OutcomeMeasure(
    name="final-error",
    metric="eval_mse",
    column="mse",
    axis="mean squared error",
    title="Final error",
    sentence="Mean squared error on the fixed evaluation prompts, at the training prompt length.",
    references=ESTIMATORS,
    one_seed="Each point is one seed, and its bar is the 95 % interval over prompts.",
)

FINAL = {
    "eval_mse": "error",
    "ratio_to_debiased_gd": "÷ debiased GD",
    "kernel_mse": "kernel's error",
    "reduction_error": "model − kernel",
    "mu_dot_w": "μ·w",
    "sum_mu": "Σμ",
    "n_parameters": "parameters",
}
"""Final metrics in the opening table: name to heading."""

HEADS = {
    "w": "w",
    "diagonal_variance": "variance of the diagonal",
    "largest_off_diagonal": "largest off-diagonal",
    "largest_y_row": "largest in the y row",
    "mu": "μ",
    "largest_other_ov": "largest other OV",
}
"""Columns of `head_table`: name to heading."""

PER_OUTPUT = "Cells with several values list the outputs in order."

WHOLE: tuple[Callable[[ReportData], Figure | None], ...] = (
    partial(by_task, partial(final_outcome, measure=ERROR)),
    partial(by_task, training.lengths),
    training.lengths_by_arm,
    partial(by_task, training.loss),
    heads.dynamics,
)
PER_ARM: tuple[Callable[[ArmResults], Figure | None], ...] = (heads.final_circuits, heads.circuit_steps)


class IclReportPart(ReportPart):
    """The report of in-context regression."""

    def answers(self, material: ReportData) -> Iterator[Figure | None]:
        """Yield the figure of the benefit of a second head, if tasks have arms with one head and with two."""
        yield theory.second_head(material)

    def statements(self, material: ReportData) -> Sequence[Statement]:
        """Return the sentences on the benefit of a second head."""
        return theory.worth_statement(material)

    def figures(self, material: ReportData) -> Iterator[Figure | None]:
        """The figures in their order; None in place of one that the results have no numbers for."""
        yield from (draw(material) for draw in WHOLE)
        yield from (draw(arm) for arm in material.arms for draw in PER_ARM)
        yield theory.proportional(material)

    def final(self, material: ReportData) -> Table:
        """Return the table of final metrics: a row per arm and, below, a row per estimator on the same prompts."""
        names = [
            name for name in FINAL if any(run.metrics.get(name) is not None for a in material.arms for run in a.runs)
        ]
        rows = arm_rows(material, names)
        if material.one_task and "eval_mse" in names:
            rows += _estimator_rows(material, names)
        return Table(
            columns=("", *(FINAL[name] for name in names)),
            rows=rows,
            caption=join(
                f"Values at the end of training ({seeds_said(material)}).",
                PER_OUTPUT if any(declared(arm).task.d_y > 1 for arm in material.arms) else "",
            ),
            hints={FINAL[name]: METRICS[name].sentence for name in names if name in METRICS},
        )

    def heads(self, arm: ArmResults) -> Iterator[tuple[int, Table]]:
        """The table per head of every seed of a one-layer arm, at the end of training."""
        for run in arm.runs if has_one_layer(arm) else ():
            yield run.seed, _heads_of(arm, run)

    def luck(self, material: ReportData) -> str:
        """Return a sentence on the sampling of shared prompts, which intervals leave out; empty without intervals."""
        errors = [error for arm in material.arms for error in arm.final("eval_mse_se")]
        counts = {declared(arm).evaluation.prompts for arm in material.arms}
        examples = f"{max(counts):,} prompts" if len(counts) == 1 else "prompts"
        error = f" (standard error {span(errors, 2)})" if errors else ""
        return self.same_examples(material, examples, "prompts", error)


def _estimator_rows(material: ReportData, names: Sequence[str]) -> Iterator[Row]:
    baselines = material.baselines(material.arms[0], "mse")
    reference = baselines.get("debiased_gd_best")
    for name, (label, _, _) in ESTIMATORS.items():
        if (mse := baselines.get(name)) is not None:
            known = {"eval_mse": number(mse), "ratio_to_debiased_gd": number(mse / reference) if reference else ""}
            yield Row(cells=(label, *(known.get(name, "") for name in names)), quiet=True)


def _heads_of(arm: ArmResults, run: Finished) -> Table:
    circuits, task = circuits_of(run), declared(arm).task
    columns = head_table(circuits["qk"][0], circuits["ov"][0], task)
    n_heads = len(columns["w"])
    rows = [
        Row(
            cells=(str(head), *("\n".join(number(v, 3) for v in np.atleast_1d(columns[name][head])) for name in HEADS)),
            colour=HEAD_COLOURS[head % len(HEAD_COLOURS)],
        )
        for head in range(n_heads)
    ]
    caption = join(
        say("dead_heads", n=heads.dead_heads(run), all=n_heads, least=100 * heads.DEAD),
        "" if task.d_y == 1 else PER_OUTPUT,
    )
    return Table(columns=("head", *HEADS.values()), rows=rows, caption=caption)


LABORATORY = IclReportPart()

"""Figures of one's own: drawn with the others, in any form that Altair knows; one that fails ends no report."""

import warnings
from dataclasses import replace

import pytest
from support.own_code import write as write

from headway.config.plugins import load
from headway.report.experiment.page import figures_of_own

CODE = """
import altair as alt
from headway import own

@own.figure(title="Errors", caption="A point for each arm.")
def errors_of_arms(material):
    rows = [{"arm": arm.label, "mse": float(arm.final("eval_mse").mean())} for arm in material.arms]
    return alt.Chart(alt.Data(values=rows)).mark_point().encode(x="arm:N", y="mse:Q")

@own.figure(title="None")
def not_drawn(material):
    return None

@own.figure(title="Broken")
def broken(material):
    return material.no_such_thing

@own.figure(title="No chart")
def no_chart(material):
    return 7
"""


def test_what_a_plugin_draws_stands_in_the_report(heads, write):
    write(CODE, "figures.py")
    material = replace(heads, experiment=replace(heads.experiment, plugins=(load("figures.py"),)))
    with pytest.warns(RuntimeWarning) as told:
        figures = list(figures_of_own(material))
    assert [(figure.name, figure.part, figure.title) for figure in figures] == [
        ("errors-of-arms", "Of your own", "Errors")
    ]
    assert [str(each.message) for each in told] == [
        "figure broken of plugin figures.py is left out: AttributeError: 'ReportData' object has no attribute "
        "'no_such_thing'",
        "figure no-chart of plugin figures.py is left out: AttributeError: 'int' object has no attribute 'to_dict'",
    ]
    rows = figures[0].spec["data"]["values"]
    assert [row["arm"] for row in rows] == [arm.label for arm in heads.arms]


def test_without_plugins_nothing_is_drawn(heads):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(figures_of_own(heads)) == []

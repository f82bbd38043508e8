"""An arm's name, colour, dash and shape."""

import pytest

from headway.config.load import load
from headway.config.yaml import shipped
from headway.report.experiment.data import arm_styles


@pytest.mark.parametrize("name", [name for name in shipped() if not name.startswith("icl-")])
def test_an_arm_of_a_language_model_keeps_its_look_under_every_control(name):
    experiment = load(name)
    styles = arm_styles(experiment)
    for arm in experiment.arms:
        own = styles[arm.name]
        assert (styles[arm.full_name].colour, styles[arm.full_name].shape) == (own.colour, own.shape)
        assert styles[arm.full_name].point == arm.label


@pytest.mark.parametrize("name", list(shipped()))
def test_no_two_arms_have_one_name_in_a_legend(name):
    labels = [style.label for style in arm_styles(load(name)).values()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", list(shipped()))
def test_arms_look_different_while_there_are_colours(name):
    experiment = load(name)
    styles = arm_styles(experiment)
    seen = {(styles[arm].colour, styles[arm].dash, styles[arm].shape) for arm in list(experiment.document.arms)[:12]}
    assert len(seen) == len(list(experiment.document.arms)[:12])

"""Labels of arms, which state the sizes of the runs."""

import pytest

from headway.config.load import load
from headway.errors import DeclarationError


def test_a_label_has_the_sizes_of_the_run():
    arms = load("head-progression", settings=["arms.ascending-low.model.n_heads=1-1-1-8"])
    assert arms.arm("ascending-low").label == "1-1-1-8"
    assert arms.arm("constant-low+learning-rates-half").label == "4-4-4-4, half the learning rate"
    labels = [arm.label for arm in load("data-lane", scale="paper").arms if arm.control is None]
    assert labels[0] == "NoDL-96-96-5.5M"
    assert labels[-1] == "SwDL-768-192-40M"
    few = load(
        "data-lane", settings=["arms.plain-full.label={parameters} numbers", "arms.plain-eighth.label={{7*7}} {X}"]
    )
    assert few.arm("plain-full").label == "273K numbers"
    assert few.arm("plain-eighth").label == "{{7*7}} {X}", "other braces are text"
    assert "label: '{parameters} numbers'" in few.dump(as_given=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["arms.constant-low.label={width}"], r"arm constant-low: label: \{width\} is not a value of the run; give"),
        (["arms.constant-low.label={seed.x}"], r"\{seed\.x\} is not a value of the run"),
        (
            ["arms.constant-low.label={heads}", "arms.ascending-low.model.n_heads=4"],
            r"two arms have the label '4-4-4-4', which a figure could not distinguish",
        ),
    ],
)  # fmt: skip
def test_a_label_that_cannot_be_computed_or_stands_twice(settings, message):
    with pytest.raises(DeclarationError, match=message):
        load("head-progression", settings=settings)

"""Contrasts: questions of one's own, read and refused."""

import pytest

from headway.config.contrasts import contrasts_of
from headway.config.load import load, resolve
from headway.config.yaml import read_file, shipped
from headway.errors import DeclarationError
from headway.stats.verdicts import sides_of

ARMS = ("falling-low", "falling-high", "rising-low", "rising-high", "flat", "better")


def one(value):
    (found,) = contrasts_of({"it": value}, ARMS)
    return found


@pytest.mark.parametrize(
    ("value", "weights", "label"),
    [
        ("falling-low - flat", {"falling-low": 1, "flat": -1}, "falling-low - flat"),
        ("falling-* - flat", {"falling-low": 0.5, "falling-high": 0.5, "flat": -1}, "falling - flat"),
        (["flat", "rising-low"], {"flat": 1, "rising-low": -1}, "flat - rising-low"),
        (
            [["falling-low", "falling-high"], ["rising-low", "rising-high"]],
            {"falling-low": 0.5, "falling-high": 0.5, "rising-low": -0.5, "rising-high": -0.5},
            "falling - rising",
        ),
        (
            {"better": "falling-*", "than": ["rising-low", "flat"]},
            {"falling-low": 0.5, "falling-high": 0.5, "rising-low": -0.5, "flat": -0.5},
            "falling - rising-low and flat",
        ),
        # An arm that two patterns name counts once, and one whose name is a key's is an arm.
        (["*-low", "flat"], {"falling-low": 0.5, "rising-low": 0.5, "flat": -1}, "low - flat"),
        ([["falling-*", "falling-low"], "flat"], {"falling-low": 0.5, "falling-high": 0.5, "flat": -1}, None),
        ({"better": 1, "flat": -1}, {"better": 1, "flat": -1}, "it"),
        ({"falling-*": 1, "rising-*": -1}, {a: (0.5 if "f" in a else -0.5) for a in ARMS[:4]}, "it"),
        (
            {"falling-low": 1, "falling-high": -1, "rising-low": -1, "rising-high": 1},
            {"falling-low": 1, "falling-high": -1, "rising-low": -1, "rising-high": 1},
            "it",
        ),
        ({"falling-low": 2, "flat": -2, "better": 0}, {"falling-low": 2, "flat": -2}, "it"),
    ],
)
def test_every_form_is_a_weighted_sum(value, weights, label):
    found = one(value)
    assert dict(found.weights) == weights
    assert sum(found.weights.values()) == pytest.approx(0)
    assert label is None or found.label == label
    assert {**found.first, **{arm: -weight for arm, weight in found.second.items()}} == weights
    if found.sides is not None:
        assert sum(found.first.values()) == pytest.approx(1)


def test_a_pattern_is_called_by_its_word_unless_that_is_an_arm_or_there_is_none():
    arms = ["wide", "wide-1", "wide-2", "a-1-x", "a-2-x"]
    (found,) = contrasts_of({"it": ["wide-*", "a-?-x"]}, arms)
    assert found.sides == ("the mean of wide-*", "the mean of a-?-x")
    (found,) = contrasts_of({"it": ["wide-*", "a-*"]}, arms[1:])
    assert found.sides == ("wide", "a")


def test_a_common_start_names_sides_that_differ_in_nothing_else():
    arms = ["lane-half", "lane-all", "plain-half", "plain-all", "plain-twice"]
    (alike, shifted) = contrasts_of(
        {
            "alike": [["lane-half", "lane-all"], ["plain-half", "plain-all"]],
            "shifted": [["lane-half", "lane-all"], ["plain-all", "plain-twice"]],
        },
        arms,
    )
    assert alike.sides == ("lane", "plain")
    assert shifted.sides == ("lane-half and lane-all", "plain-all and plain-twice")


def test_a_document_may_name_the_sides():
    asked = "contrasts={it: {better: [h2, h4], than: h1, names: [several heads, a single one]}}"
    experiment = load("icl-heads", settings=[asked])
    (contrast,) = experiment.contrasts
    assert sides_of(contrast, experiment) == ("several heads", "a single one")
    assert contrast.label == "several heads - a single one"


def test_two_sides_never_have_the_same_name():
    (found,) = contrasts_of({"it": [["a-1", "a-2"], ["a-3", "a-4"]]}, ["a-1", "a-2", "a-3", "a-4"])
    assert found.sides == ("a-1 and a-2", "a-3 and a-4")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("falling-lo - flat", r"contrasts.it: there is no arm 'falling-lo'; did you mean falling-low"),
        ("wide-* - flat", r"contrasts.it: no arm fits 'wide-\*'; choose from: better, falling"),
        ("falling-low", r"'falling-low' was given; write 'one arm - another', with spaces around the dash"),
        (" - flat", r"its side 'first' is empty; name an arm, or several"),
        (["flat", {"a": 1}], r"its side 'second' is \{'a': 1\}; give an arm, a pattern such as wide-\*, or a list"),
        (["flat"], r"1 sides were given; give two \(the second is subtracted\)"),
        ("falling-* - falling-low", r"falling-low is on both sides; leave it out of one"),
        ({"better": "flat", "then": "falling-low"}, r"contrasts.it.then: there is no such key; did you mean than"),
        (
            {"better": "flat", "than": "falling-low", "names": "flat"},
            r"contrasts.it.names: 'flat' was given; give two names",
        ),
        ({"than": "flat"}, r"contrasts.it.better: missing; name the arms of that side"),
        ({"than": "flat", "beter": "falling-low"}, r"contrasts.it.beter: there is no such key; did you mean better"),
        ({"flat": 1, "falling-low": -0.5}, r"its weights add up to 0.5; the weights of a contrast add up to 0"),
        ({}, r"no arm has a weight that is not 0; write it as 'one arm - another', \[first, second\]"),
        ({"flat": "1", "falling-low": -1}, r"contrasts.it.flat: '1' was given; a weight is a number"),
        ({"flat": float("nan"), "falling-low": -1}, r"contrasts.it.flat: nan was given"),
        ({"falling-*": 1, "falling-low": -1}, r"falling-low has two weights; give it one"),
        (3, r"contrasts.it: 3 was given; write it as 'one arm - another'"),
    ],
)
def test_wrong_contrasts_get_errors_that_teach(value, message):
    with pytest.raises(ValueError, match=message):
        one(value)


@pytest.mark.parametrize("other", [["better", "flat"], "flat - better", {"flat": 3, "better": -3}])
def test_two_contrasts_that_ask_the_same_are_an_error(other):
    with pytest.raises(ValueError, match=r"contrasts.b: it asks the same as contrasts.a; keep one"):
        contrasts_of({"a": "flat - better", "b": other}, ARMS)
    assert len(contrasts_of({"a": "flat - better", "b": "flat - falling-low"}, ARMS)) == 2


def document(**changes):
    content = {**read_file(shipped()["icl-heads"]), **changes}
    return resolve(content)


def test_contrasts_are_no_part_of_a_run_and_may_be_added():
    plain, asked = document(), document(contrasts={"more": "h4 - h2"})
    assert [arm.resolved_spec.id for arm in plain.arms] == [arm.resolved_spec.id for arm in asked.arms]
    assert plain.differences(asked) == []
    assert [dict(contrast.weights) for contrast in asked.contrasts] == [{"h4": 1.0, "h2": -1.0}]
    assert document().contrasts == ()
    assert asked.plain()["contrasts"] == {"more": "h4 - h2"}


def test_wrong_contrasts_are_errors_of_the_document():
    with pytest.raises(DeclarationError, match=r"contrasts.more: there is no arm 'h5'; choose from: h1, h2"):
        document(contrasts={"more": "h5 - h2"})
    with pytest.raises(DeclarationError, match=r"contrasts: .* was given; give a mapping, keys with values"):
        document(contrasts=["h4 - h2"])

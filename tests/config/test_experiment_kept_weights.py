"""Steps whose weights runs keep: which they are, beside those that other arms need, and everything that is none."""

import pytest
from support import small_text

from headway.config.load import load
from headway.errors import DeclarationError

REWOUND = {
    "init_from": {"arm": "falling", "weights": "rewound", "rewind_to": 10, "prune": {"by": "random", "keep": 0.5}}
}


def kept(weights, arm="falling", **document):
    of = small_text.experiment(logging={"weights": weights}, samples=None, **document)
    return of.kept_weights(of.arm(arm))


def test_those_that_are_listed_are_kept_but_for_the_last_which_is_there_anyway():
    assert kept([]) == ()
    assert kept([20, 0, 5]) == (0, 5, 20)
    assert kept([5, 40]) == (5,)


def test_spaced_ones_begin_at_0_and_are_even_on_a_log_scale():
    assert kept({"log_spaced": 4}) == (0, 2, 5, 15)
    assert kept({"log_spaced": 1}) == (0,)
    assert kept({"log_spaced": 1000}) == tuple(range(40))
    untrained = {"init_from": {"arm": "falling"}, "training": {"steps": 0}}
    assert kept({"log_spaced": 4}, "cut", arms={"falling": {}, "cut": untrained}) == ()
    assert kept([0, 5], "cut", arms={"falling": {}, "cut": untrained}) == ()


def test_they_are_added_to_what_other_arms_start_from():
    arms = {"falling": {}, "early": REWOUND}
    assert kept([], arms=arms) == (10,)
    assert kept([0, 5], arms=arms) == (0, 5, 10)
    assert kept([10], arms=arms) == (10,)
    assert kept([0, 5], "early", arms=arms) == (0, 5)


def test_they_change_no_run():
    plain, keeping = load("x-ray", settings="logging.weights=[]"), load("x-ray")
    assert keeping.kept_weights(keeping.arm("heads-2")) == (0, 3, 13, 54, 207, 789)
    assert plain.kept_weights(plain.arm("heads-2")) == ()
    assert [arm.resolved_spec.id for arm in plain.arms] == [arm.resolved_spec.id for arm in keeping.arms]
    assert not plain.differences(keeping)


def test_under_a_control_an_arm_may_be_shorter():
    controls = {"short": {"training": {"steps": 8}}}
    assert kept([5, 20], "falling+short", controls=controls) == (5,)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([0, 10, -1], "logging.weights.2: -1 was given; give a number of at least 0"),
        ([0, 10, 10], "logging.weights: 10 appears twice; keep one"),
        ([0, 41], "logging.weights: step 41 was given, and arm falling is trained for 40 steps; give earlier ones"),
        ([1.5], "logging.weights.0: 1.5 was given; give a whole number, such as 8"),
        (7, "logging.weights: 7 was given; give a list, such as [1, 2]"),
        ({"log_spaced": 0}, "logging.weights: 0 was given; give a number greater than 0"),
        ({"log_spaced": 10**9}, "logging.weights: 1000000000 was given; give a number of at most 1000"),
        ({"spaced": 3}, "logging.weights: 'spaced' is not known; did you mean log_spaced?"),
    ],
)
def test_what_are_no_steps_of_a_run_is_said(weights, said):
    with pytest.raises(DeclarationError) as raised:
        kept(weights)
    assert str(raised.value) == said


def test_spaced_steps_of_a_run_whose_corpus_counts_them_have_to_be_listed():
    epochs = {**small_text.CONTENT["training"], "epochs": 1}
    del epochs["steps"]
    assert kept([3, 10_000], training=epochs) == (3, 10_000)
    with pytest.raises(DeclarationError, match="log_spaced needs a number of steps, and arm falling is"):
        kept({"log_spaced": 3}, training=epochs)

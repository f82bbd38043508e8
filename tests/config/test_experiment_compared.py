"""Which arms are compared when some of a document's arms are chosen: baselines, groups, contrasts, and what is said."""

from itertools import combinations, pairwise

import pytest

from headway.config.load import load, resolve
from headway.config.yaml import shipped
from headway.errors import DeclarationError
from headway.stats.cells import matches_of, why_no_verdict

SCALES = [(name, scale) for name in sorted(shipped()) for scale in (load(name).document.scales or {None: {}})]


def document(**changes):
    return {
        "name": "small",
        "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
        "model": {"family": "icl"},
        "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 8, "steps": 10},
        "arms": {
            f"{row}-{n}": {"model": {"n_heads": 1 + 2 * n + (row == "new")}} for row in ("new", "old") for n in (1, 2)
        }
        | {"other": {"model": {"n_heads": 9}}},
        "controls": {"noisy": {"task": {"noise_variance": 0.5}}},
        "groups": {f"g{n}": {"arms": [f"new-{n}", f"old-{n}"], "baseline": f"old-{n}"} for n in (1, 2)},
        "contrasts": {"new-old": {"better": "new-*", "than": "old-*"}, "slope": {"new-1": 1, "other": -1}},
        "baseline": "other",
        **changes,
    }


def pairs(experiment, control=None):
    """The comparisons as `ARM BASELINE`."""
    matches = [match for match in matches_of(experiment) if match.control == control]
    return [f"{match.arm.full_name} {match.baseline.full_name}" for match in matches]


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_any_two_arms_of_a_shipped_experiment_are_compared(name, scale):
    """The law: whichever two arms are chosen, with equal seeds, a comparison of them is planned."""
    experiment = load(name) if scale is None else load(name, scale=scale)
    arms = list(experiment.document.arms)
    chosen = list(combinations(arms, 2)) if len(arms) < 16 else [*pairwise(arms), (arms[-1], arms[0])]
    for two in chosen:
        selected = experiment.select(arms=two)
        planned = [match.weights for match in matches_of(selected)] + [each.weights for each in selected.contrasts]
        assert any(set(two) <= weights.keys() for weights in planned) or len(selected.selected) > 2, two
        runs = {(arm.full_name, seed) for arm, seed in selected.runs}
        assert not why_no_verdict(selected, runs) or len(experiment.seeds) < 3, two


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_all_arms_of_a_shipped_experiment_are_compared_as_its_file_says(name, scale):
    experiment = load(name) if scale is None else load(name, scale=scale)
    assert experiment.compared().notes == ()
    assert experiment.baseline == experiment.document.baseline
    assert experiment.groups == experiment.document.groups
    if experiment.document.contrasts:
        assert [each.name for each in experiment.contrasts] == list(experiment.document.contrasts)


CHOICES = {
    # arms as named: comparisons, contrasts, the baseline that a note names
    ("new-1", "old-1"): (["new-1 old-1"], [], ""),
    ("old-1", "new-1"): (["new-1 old-1"], [], ""),
    ("new-1", "new-2"): (["new-2 new-1"], [], "new-1"),
    ("new-2", "new-1"): (["new-1 new-2"], [], "new-2"),
    ("new-1", "other"): (["new-1 other"], ["slope"], ""),
    ("old-2", "new-1"): (["new-1 old-2"], [], "old-2"),
    ("new-1", "new-2", "old-2"): (["new-2 old-2", "new-2 new-1", "old-2 new-1"], [], "new-1"),
    ("new-1", "new-2", "old-1", "old-2"): (
        ["new-1 old-1", "new-2 old-2", "new-2 new-1", "old-2 new-1"], ["new-old"], "new-1",
    ),
    ("other",): ([], [], ""),
}  # fmt: skip


@pytest.mark.parametrize("arms", CHOICES)
def test_chosen_arms_are_compared(arms):
    selected = resolve(document()).select(arms=arms)
    expected, contrasts, named = CHOICES[arms]
    assert pairs(selected) == expected
    assert [each.name for each in selected.contrasts] == contrasts
    said = [note for note in selected.compared().notes if note.startswith("baseline: ")]
    assert [note.split(",")[0] for note in said] == ([f"baseline: {named}"] if named else [])


def test_a_note_says_why_an_arm_is_the_baseline():
    notes = resolve(document()).select(arms=["new-1", "new-2"]).compared().notes
    assert notes == (
        "baseline: new-1, the first arm that was named, because other is not among the arms",
        "Headway leaves out contrasts new-old and slope, because some of the arms are missing, and compares the other "
        "arms",
    )
    without = resolve(document(groups={}, contrasts={}, baseline=None))
    assert without.compared().notes == (
        "baseline: new-1, the first arm that was named, because the experiment declares none",
    )
    assert without.baseline == "new-1"


def test_a_control_is_compared_among_the_arms_that_it_was_run_with():
    """A directory may hold every arm without a control, and two of them with it."""
    experiment = resolve(document())
    names = [arm.full_name for arm in experiment.arms if arm.control is None]
    there = experiment.among([*names, "new-2+noisy", "new-1+noisy"])
    assert pairs(there, "noisy") == ["new-1+noisy new-1", "new-2+noisy new-2", "new-1+noisy new-2+noisy"]
    assert pairs(there) == pairs(experiment)


def test_arms_that_a_directory_has_already_were_named_first():
    experiment = resolve(document())
    joined = experiment.select(arms=["new-1"]).beside(["new-2"])
    assert pairs(joined) == ["new-1 new-2"]
    assert [arm.full_name for arm in joined.selected] == ["new-1"], "which are not trained again"
    assert pairs(experiment.select(arms=["new-1"]).beside(["new-2", "other"])) == ["new-1 other", "new-2 other"]


def test_a_baseline_that_is_set_is_that_of_its_group_too():
    experiment = load("head-progression", settings=["baseline=ascending-low"])
    assert experiment.groups["low"].baseline == "ascending-low"
    assert experiment.groups["high"].baseline == "constant-high"
    found = pairs(experiment)
    against = {pair.split()[0] for pair in found if pair.endswith(" ascending-low")}
    assert against == {*experiment.document.arms} - {"ascending-low"}
    chosen = load("head-progression", settings=["baseline=descending-low"]).select(
        arms=["ascending-low", "descending-low"]
    )
    assert pairs(chosen) == ["ascending-low descending-low"]
    assert not any(note.startswith("baseline") for note in chosen.compared().notes)
    both = load("head-progression", settings=["baseline=ascending-low", "groups.low.baseline=descending-low"])
    assert both.groups["low"].baseline == "descending-low"


REFUSED = {
    "baseline=other": r"^setting baseline needs other, and the chosen arms are new-1 and new-2; choose more arms",
    "groups.g1.baseline=old-1": r"^setting groups.g1.baseline needs old-1, and the chosen arms are new-1",
    "contrasts.mine=new-1 - old-1": r"^setting contrasts.mine needs old-1, and the chosen arms are new-1",
    "contrasts={mine: {old-1: 1, old-2: -1}}": r"^setting contrasts needs old-1 and old-2, .*; choose more arms",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_a_setting_of_what_is_compared_is_obeyed_or_refused(setting):
    experiment = resolve(document(), settings=[setting])
    experiment.check_compared()
    with pytest.raises(DeclarationError, match=REFUSED[setting]):
        experiment.select(arms=["new-1", "new-2"]).check_compared()
    experiment.select(arms=["new-1", "new-2"]).beside(["old-1", "old-2", "other"]).check_compared()


RUNS = {
    "there is nothing to compare: the only arm is new-1; add another, such as new-2": [("new-1", 0), ("new-1", 1)],
    "no two compared arms share a seed; train them with the same seeds": [("new-1", 0), ("new-2", 1)],
    "compared arms share 2 seeds, and a verdict needs 3; choose more seeds (--seeds 3)": [
        (arm, seed) for arm in ("new-1", "new-2") for seed in (0, 1)
    ],
    "": [(arm, seed) for arm in ("new-1", "new-2") for seed in (0, 1, 5)],
}


@pytest.mark.parametrize("why", RUNS)
def test_why_runs_give_no_verdict(why):
    names = list(dict.fromkeys(arm for arm, _ in RUNS[why]))
    assert why_no_verdict(resolve(document()).among(names), RUNS[why]) == why

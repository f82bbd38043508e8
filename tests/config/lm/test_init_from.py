"""Arms that start from others: what they are, what is refused, and what they bring along."""

import pytest
from support import small_text

from headway.config.document import starts_of
from headway.config.experiment import Experiment
from headway.config.lm.run import TokensRun
from headway.config.load import load, read_resolved, resolve
from headway.config.yaml import read_yaml, write_yaml
from headway.errors import DeclarationError

TAYLOR = {"by": "taylor", "keep": 0.5}
SMALL = {"init_from": {"arm": "dense", "prune": TAYLOR}, "training": {"steps": 0}}
REGROWN = {"init_from": {"arm": "tuned", "regrow": True}}
TUNED = {"init_from": {"arm": "dense", "step": 20, "prune": TAYLOR, "weights": "rewound", "rewind_to": 10}}


def experiment(**arms) -> Experiment:
    return small_text.experiment(
        arms={"small": SMALL, "dense": {}, "tuned": TUNED, "regrown": REGROWN} | arms, baseline="dense"
    )


def refused(start, **arm) -> str:
    with pytest.raises(DeclarationError) as error:
        experiment(tuned={"init_from": start, **arm})
    return str(error.value)


def test_an_id_holds_that_of_the_parent_of_the_same_seed():
    of = experiment()
    for seed in (0, 3):
        assert of.arm("tuned").spec(seed).init_from.run == of.arm("dense").spec(seed).id
        assert of.arm("regrown").spec(seed).init_from.run == of.arm("tuned").spec(seed).id
        assert of.arm("tuned").configuration(seed)["init_from"]["run"] == of.arm("dense").spec(seed).id
    other = small_text.experiment(
        arms={"small": SMALL, "dense": {"training": {"steps": 41}}, "tuned": TUNED, "regrown": REGROWN},
        baseline="dense",
    )
    assert other.arm("regrown").spec(0).id != of.arm("regrown").spec(0).id  # what its grandparent does is part of it


def test_the_name_of_the_parent_is_no_part_of_an_id():
    renamed = small_text.experiment(
        arms={"whole": {}, "small": {**SMALL, "init_from": {"arm": "whole", "prune": TAYLOR}}}, baseline="whole"
    )
    assert renamed.arm("small").spec(0).id == experiment().arm("small").spec(0).id


def test_an_arm_brings_along_those_that_it_starts_from():
    chosen = experiment().select(arms="regrown")
    assert [arm.name for arm in chosen.selected] == ["dense", "tuned", "regrown"]
    assert [arm.name for arm in chosen.arm("regrown").ancestors] == ["dense", "tuned"]


def test_seeds_that_are_added_to_an_arm_are_added_to_its_parents():
    of = experiment()
    pairs = [(of.arm("dense"), 0), (of.arm("regrown"), 4)]
    found = [(arm.name, seed) for arm, seed in of.with_ancestors(pairs)]
    assert found == [("dense", 0), ("dense", 4), ("tuned", 4), ("regrown", 4)]


def test_the_parent_keeps_the_weights_that_are_asked_of_it():
    of = experiment()
    assert of.kept_weights(of.arm("dense")) == (10, 20)
    assert of.kept_weights(of.arm("small")) == ()
    first = experiment(regrown={"init_from": {"arm": "tuned", "weights": "rewound"}})
    assert first.kept_weights(first.arm("tuned")) == (0,)  # it did not begin with weights that can be drawn again


def test_under_a_control_it_starts_from_its_parent_under_that_control():
    controls = {"wide": {"model": {"windows": [None]}}, "factors": {"model": {"factor_init": "matched"}}}
    of = small_text.experiment(arms={"dense": {}, "small": SMALL}, baseline="dense", controls=controls)
    assert of.arm("small+wide").spec(1).init_from.run == of.arm("dense+wide").spec(1).id
    # What changes nothing in the parent changes nothing in the child.
    assert of.arm("small+factors").is_no_op
    assert of.arm("small+factors").spec(1).init_from.run == of.arm("dense").spec(1).id


def test_what_is_expected_of_it_has_as_many_heads_as_are_kept():
    of = experiment()
    small, regrown = of.arm("small").expected_spec, of.arm("regrown").expected_spec
    assert isinstance(small, TokensRun)
    assert (small.model.layout.total, str(regrown.model.layout)) == (3, "4-2")
    assert small.budget.n_parameters < of.arm("dense").expected_spec.budget.n_parameters == regrown.budget.n_parameters
    assert of.arm("small").resolved_spec.scheme is None  # which heads go is found, not declared


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("dense", "arms.tuned.init_from: 'dense' was given; it is a mapping, such as {arm: small}"),
        ({}, "arms.tuned.init_from.arm: missing; name the arm whose runs it starts from: small, dense, tuned and"),
        ({"arm": "dens"}, "arms.tuned.init_from.arm: there is no arm 'dens'; did you mean dense?"),
        (
            {"arm": "dense", "seed": 1},
            "arms.tuned.init_from.seed: a run always starts from the run with its own seed, so that arms",
        ),
        ({"arm": "dense", "run": "run1-0"}, "arms.tuned.init_from.run: name the arm, as"),
        ({"arm": "dense", "stp": 3}, "arms.tuned.init_from.stp: there is no such key; did you mean step?"),
        (
            {"arm": "dense", "step": 41},
            "arms.tuned.init_from: step 41 of dense is asked for, and that is trained for 40",
        ),
        (
            {"arm": "dense", "prune": {"by": "tailor", "keep": 1}},
            "init_from.prune.by: 'tailor' is not known; did you mean",
        ),
        ({"arm": "dense", "prune": {"by": "taylor", "keep": "0"}}, "init_from.prune.keep 0: that is none of 6 heads"),
        (
            {"arm": "dense", "prune": {"by": "taylor", "keep": 6}},
            "init_from.prune.keep 6: that is 6 of 6 heads; give from",
        ),
        ({"arm": "dense", "prune": TAYLOR, "regrow": True}, "prune and regrow were both given; use an arm for each"),
        ({"arm": "dense", "rewind_to": 3}, "rewind_to 3 needs weights: rewound, but weights is kept"),
        ({"arm": "dense", "step": 5, "weights": "rewound", "rewind_to": 9}, "rewind_to 9 is after step 5"),
        ({"arm": "dense", "regrow": True, "weights": "fresh"}, "regrow needs weights: kept"),
    ],
)
def test_what_cannot_be_started_from_is_said(start, said):
    assert said in refused(start)


NOTHING = {"init_from": {"arm": "dense", "weights": "fresh"}}


def test_what_takes_nothing_from_another_run_is_refused():
    said = (
        "arms.tuned.init_from: nothing would be taken from dense, since its weights are re-initialised and no head is "
        "pruned; leave"
    )
    for more in ({}, {"step": 5}):
        assert said in refused({**NOTHING["init_from"], **more})
    assert experiment(tuned={"init_from": {"arm": "dense", "weights": "rewound"}}).arm("tuned").parent is not None


def test_of_a_pruned_run_its_layout_is_taken_and_no_step_of_it():
    start = {"arm": "small", "weights": "fresh"}
    assert experiment(small={**SMALL, "training": {"steps": 10}}, tuned={"init_from": start})
    with pytest.raises(
        DeclarationError, match=r"nothing would be taken from step 5 of small, since its weights are re-initialised"
    ):
        experiment(small={**SMALL, "training": {"steps": 10}}, tuned={"init_from": {**start, "step": 5}})


GROUPED = {"model": {"n_heads": "4:2-4:2"}}


@pytest.mark.parametrize("keep", [2, "25%"])
def test_fewer_heads_than_a_method_can_leave_are_refused(keep):
    few = {"init_from": {"arm": "dense", "prune": {"by": "alike", "keep": keep}}}
    with pytest.raises(DeclarationError) as error:
        small_text.experiment(arms={"dense": GROUPED, "few": {**GROUPED, **few}}, baseline="dense")
    assert str(error.value) == (
        f"arms.few.init_from: prune.keep {keep}: that is 2 heads, but alike prunes one of two similar heads, so "
        "each layer keeps its last head and the heads that share its keys and values; keep 4 or more, or take "
        "another method"
    )
    few["init_from"]["prune"] |= {"by": "taylor"}
    assert small_text.experiment(arms={"dense": GROUPED, "few": {**GROUPED, **few}}, baseline="dense")


def test_heads_that_are_alone_in_their_layers_cannot_be_the_most_alike():
    alone = {"model": {"n_heads": "1-1"}}
    one = {**alone, "init_from": {"arm": "dense", "prune": {"by": "alike", "keep": 1}}}
    with pytest.raises(
        DeclarationError, match=r"none of these heads can be pruned; leave init_from.prune out, or take another method"
    ):
        small_text.experiment(arms={"dense": alone, "one": one}, baseline="dense")


def test_directories_that_have_what_is_refused_now_are_read(tmp_path):
    content = read_yaml(write_yaml(experiment().plain()))
    content["arms"]["small"] = {"init_from": {"arm": "dense", "prune": {"by": "alike", "keep": 1}}}
    content["arms"]["tuned"] = {"init_from": {"arm": "dense", "weights": "fresh", "step": 5}}
    path = tmp_path / "experiment.yaml"
    path.write_text(write_yaml(content))
    assert read_resolved(path).arm("tuned").resolved_spec.init_from.sentence == "at step 5, weights re-initialised"
    with pytest.raises(DeclarationError, match=r"arms.small.init_from: prune.keep 1: that is 1 head, but alike"):
        load(path)


def test_weights_have_to_fit():
    start = {"arm": "dense", "prune": TAYLOR}
    assert "its model is not that of dense, so weights would not fit" in refused(start, model={"n_heads": "2-4"})
    assert "its task is not that of dense" in refused(start, task={"n_ctx": 16})
    ranks = {"model": {"ranks": {"q": 4}}}
    with pytest.raises(DeclarationError, match=r"init_from.regrow does not work with model.ranks"):
        experiment(dense=ranks, small={}, tuned=ranks, regrown={"init_from": {"arm": "dense", "regrow": True}, **ranks})


def test_no_steps_are_for_what_starts_from_another():
    with pytest.raises(DeclarationError, match=r"training.steps 0: only a run that starts from another may have 0"):
        experiment(tuned={"training": {"steps": 0}})


def test_a_circle_is_named():
    arms = {"a": {"init_from": {"arm": "b"}}, "b": {"init_from": {"arm": "c"}}, "c": {"init_from": {"arm": "b"}}}
    with pytest.raises(
        ValueError, match=r"arms.a.init_from.arm: b, which starts from c, which starts from b: these arms start"
    ):
        starts_of(arms)


def test_a_long_line_of_arms_is_refused():
    arms = {f"a{at}": {"init_from": {"arm": f"a{at + 1}"}} for at in range(2_000)} | {"a2000": None}
    with pytest.raises(
        ValueError, match=r"arms.a0.init_from.arm: a chain of more than 100 arms that start from one another"
    ):
        starts_of(arms)


def test_the_one_layer_laboratory_has_no_starts():
    content = load("icl-heads").plain()
    content["arms"]["h2"] = {**(content["arms"]["h2"] or {}), "init_from": {"arm": "h1"}}
    with pytest.raises(
        DeclarationError, match=r"arms.h2.init_from: only a transformer on tokens can start from another"
    ):
        resolve(content)


def test_what_importance_costs_is_said():
    run = small_text.run_of(probes={"importance": True, "every": 10, "sequences": 8})
    said = "probes.importance: a forward and a backward pass of 8 sequences every 10 steps, about 25 % of what training"
    assert any(remark.startswith(said) for remark in run.warnings)


def test_heads_cannot_be_ablated_where_there_are_none():
    for key, over in {
        "after.ablate": {"after": {"ablate": {}}},
        "probes.importance": {"probes": {"importance": True}},
    }.items():
        with pytest.raises(DeclarationError, match=f"{key}: the model has no heads"):
            small_text.run_of(model={"n_heads": "0-0"}, **over)


def test_a_setting_of_steps_reaches_multiples_of_them_and_leaves_arms_untrained():
    arms = {"dense": {}, "small": SMALL, "on": {"init_from": {"arm": "dense"}, "training": {"steps": "x0.5"}}}
    content = small_text.experiment(arms=arms, baseline="dense").plain()
    of = resolve(content, settings=["training.steps=60"])
    of.check_settings()
    assert [of.arm(name).resolved_spec.declared_steps for name in arms] == [60, 0, 30]

"""Keys that were renamed: a user types the current name; ids and results directories of 0.2.0 hold the former one."""

import pytest

from headway.config.kinds import parse_run, parse_stored
from headway.config.lm.run import as_trained
from headway.config.load import load, read_resolved
from headway.config.spec import FORMER, renamed
from headway.config.yaml import read_yaml, write_yaml
from headway.errors import DeclarationError

CONTENT = {
    "name": "pruned",
    "task": {"kind": "parity", "n_bits": 3},
    "model": {"family": "gpt-2", "d_model": 16, "n_layers": 1, "n_heads": 2, "n_positions": 8, "mask": "past"},
    "training": {
        "optimizer": "adamw",
        "learning_rate": 0.1,
        "batch_size": 8,
        "steps": 10,
        "lr_schedule": "cosine",
        "grad_accumulation": 2,
        "drophead": {"start": 0.3},
    },
    "samples": None,
    "arms": {"a": None, "b": {"init_from": {"arm": "a", "weights": "rewound"}, "training": {"lr_schedule": "linear"}}},
    "controls": {"whole": {"training": {"grad_accumulation": 1}}},
}
"""An experiment with every key that was renamed, and with another key that is called `start`."""
PLAIN_ID, STARTED_ID = "run1-ac79ea79d5abf5eb", "run1-42600a4396224c49"
"""The ids of the arms' runs with seed 0, as 0.2.0 computed them."""


def test_ids_are_those_of_the_former_names():
    arms = load(CONTENT).selected
    assert [arm.spec(0).id for arm in arms] == [PLAIN_ID, STARTED_ID]


def test_a_stored_run_has_either_name():
    for arm in load(CONTENT).selected:
        stored = renamed(arm.configuration(0), FORMER)
        assert {"accumulate", "decay", "drophead"} <= stored["training"].keys()
        assert "attends" in stored["model"]
        assert "start" in stored
        assert parse_stored(stored) == parse_stored(arm.configuration(0)) == parse_run(arm.configuration(0))


def test_a_stored_document_has_either_name(tmp_path):
    experiment, path = load(CONTENT), tmp_path / "experiment.yaml"
    former = renamed(experiment.plain(), FORMER)
    assert former["arms"]["b"]["start"]["weights"] == "rewound"
    assert former["controls"]["whole"]["training"] == {"accumulate": 1}
    path.write_text(write_yaml(former), encoding="utf-8")
    assert read_resolved(path).dump() == experiment.dump()
    assert load(read_yaml(experiment.dump(as_given=True))).dump() == experiment.dump()


def test_a_stored_beginning_has_either_name():
    run = load(CONTENT).arm("b").spec(0)
    stored = renamed({"model": run.model.model_dump(mode="json")}, FORMER)
    assert "attends" in stored["model"]
    assert as_trained(run, stored).model == run.model


@pytest.mark.parametrize("place", ["contrasts", "groups"])
def test_names_that_a_user_gives_are_no_keys(place):
    named = {place: {"model": {"mask": 1, "attends": -1}, "training": {"decay": 1}}}
    assert renamed(named) == renamed(named, FORMER) == named


@pytest.mark.parametrize("name", ["start", "training", "arms"])
def test_an_arm_may_have_the_name_of_a_key(name):
    arms = {"arms": {name: {"training": {"accumulate": 2}}}}
    assert renamed(arms) == {"arms": {name: {"training": {"grad_accumulation": 2}}}}


@pytest.mark.parametrize(
    ("part", "former", "value", "now"),
    [
        ("training", "accumulate", 4, "grad_accumulation"),
        ("training", "decay", "constant", "lr_schedule"),
        ("model", "attends", "past", "mask"),
        ("arms.b", "start", "{arm: a}", "init_from"),
        ("arms.b.training", "decay", "constant", "lr_schedule"),
        ("controls.whole.training", "decay", "constant", "lr_schedule"),
    ],
)
def test_a_former_name_is_an_error_that_gives_the_current_one(part, former, value, now):
    with pytest.raises(DeclarationError) as raised:
        load(CONTENT, settings=f"{part}.{former}={value}")
    said = str(raised.value).removeprefix("--set ")
    assert said == f"{part}.{former}: there is no such key; it is called {now} now"


def test_a_file_with_former_names_is_told_all_of_them():
    with pytest.raises(DeclarationError) as raised:
        load({**renamed(CONTENT, FORMER), "arms": {"a": None}})
    assert str(raised.value).splitlines() == [
        "model.attends: there is no such key; it is called mask now",
        "training.decay: there is no such key; it is called lr_schedule now",
        "training.accumulate: there is no such key; it is called grad_accumulation now",
    ]


@pytest.mark.parametrize(
    ("unknown", "said"), [("lr_schedul", "did you mean lr_schedule"), ("start", "choose from: batch_size")]
)
def test_another_unknown_key_is_told_keys_of_its_part(unknown, said):
    with pytest.raises(DeclarationError, match=f"training.{unknown}: there is no such key; {said}"):
        load({**CONTENT, "training": {**CONTENT["training"], unknown: "cosine"}})

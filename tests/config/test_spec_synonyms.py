"""The field's words for keys: accepted beside the older names, which documents and ids hold."""

import pytest

from headway.config.load import load
from headway.config.spec import KEYS, older_keys
from headway.config.yaml import read_yaml
from headway.errors import DeclarationError, UserError

OLD = {
    "name": "old",
    "task": {"kind": "parity", "n_bits": 3},
    "model": {"family": "gpt-2", "d_model": 16, "n_layers": 1, "n_heads": 2, "n_positions": 8, "attends": "past"},
    "training": {
        "optimizer": "adamw",
        "learning_rate": 0.1,
        "batch_size": 8,
        "steps": 10,
        "decay": "cosine",
        "accumulate": 2,
    },
    "samples": None,
    "arms": {"a": None, "b": {"start": {"arm": "a", "weights": "rewound"}, "training": {"decay": "linear"}}},
    "controls": {"whole": {"training": {"accumulate": 1}}},
    "scales": {"laptop": {"arms": {"b": {"training": {"accumulate": 4}}}}},
}


def renamed(content):
    """The document with the field's words."""
    words = {older: word for names in KEYS.values() for word, older in names.items()}
    if not isinstance(content, dict):
        return content
    return {words.get(key, key): renamed(value) for key, value in content.items()}


def test_a_document_with_the_fields_words_is_the_document_with_the_older_ones():
    new = renamed(OLD)
    assert new != OLD
    assert older_keys(new) == OLD
    mine, theirs = load(new), load(OLD)
    assert [arm.spec(1).id for arm in mine.arms] == [arm.spec(1).id for arm in theirs.arms]
    assert mine.dump() == theirs.dump()
    shown = theirs.dump(as_given=True)
    assert "lr_schedule" in shown
    assert "decay" not in shown
    assert load(read_yaml(shown)).dump() == mine.dump()


@pytest.mark.parametrize(
    ("word", "older"),
    [
        ("training.grad_accumulation=4", "training.accumulate=4"),
        ("arms.b.init_from.weights=kept", "arms.b.start.weights=kept"),
        ("controls.whole.training.lr_schedule=constant", "controls.whole.training.decay=constant"),
        ("arms.a={training: {lr_schedule: constant}}", "arms.a={training: {decay: constant}}"),
    ],
)
def test_a_setting_has_either_name(word, older):
    assert load(OLD, settings=word).plain() == load(OLD, settings=older).plain()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"model": {**OLD["model"], "mask": "past"}},
            "model.mask: mask and attends are two names of one key; keep mask",
        ),
        (
            {"arms": {"a": None, "b": {"start": {"arm": "a"}, "init_from": {"arm": "a"}}}},
            "arms.b.init_from: init_from and start are two names of one key; keep init_from",
        ),
    ],
)
def test_both_names_are_an_error_that_names_both(change, said):
    with pytest.raises(DeclarationError, match=said):
        load({**OLD, **change})


def test_both_names_of_a_setting_are_an_error():
    with pytest.raises(UserError, match=r"training.lr_schedule: training.decay is another name of the same key"):
        load(OLD, settings=["training.decay=constant", "training.lr_schedule=constant"])


@pytest.mark.parametrize("place", ["contrasts", "groups"])
def test_names_that_a_user_gives_are_no_keys(place):
    named = {place: {"model": {"mask": 1, "attends": -1}, "training": {"decay": 1}}}
    assert older_keys(named) == named


def test_a_misspelt_word_is_corrected():
    with pytest.raises(DeclarationError, match="did you mean lr_schedule"):
        load({**OLD, "training": {**OLD["training"], "lr_schedul": "cosine"}})

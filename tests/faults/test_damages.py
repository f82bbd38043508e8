"""Random damage to every kind of file: none is believed, none is overlooked by `headway verify`."""

import random

import damager
import pytest

PAIRS = [(kind, damage) for kind in (*damager.RUN_FILES, *damager.BESIDE) for damage in damager.DAMAGES]
RESUMED = [kind for kind in damager.RUN_FILES if kind not in ("seal.json", "curves.json", damager.FOLDER)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with damager.hurried():
        yield damager.Finished(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    with damager.hurried():
        yield damager.Interrupted(tmp_path_factory.mktemp("interrupted"))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "damage"), PAIRS)
def test_damage_to_a_finished_directory_is_named_or_made_good(finished, kind, damage):
    outcome = finished.outcome(kind, damage, random.Random(f"{kind} {damage}"))
    if damage == "swapped" and kind in damager.BESIDE:
        assert outcome is None, "there is one of it in a directory"
    elif kind == damager.FOLDER and damage != "gone":
        assert outcome is None, "it has no content of its own"
    else:
        assert outcome in ((None, "noticed") if damage == "swapped" else ("noticed",)) or kind in damager.DERIVED
        assert outcome != "believed"


@pytest.mark.slow
@pytest.mark.parametrize("kind", RESUMED)
def test_what_was_damaged_before_a_resume_is_written_again_or_said(interrupted, kind):
    for damage in damager.DAMAGES:
        outcome = interrupted.outcome(kind, damage, random.Random(f"{kind} {damage}"))
        assert outcome in ("noticed", "harmless") or (outcome is None and damage == "swapped")

"""Random damage to every file of a directory: none is believed, none is overlooked by `headway verify`."""

import random

import pytest
from faults import damager


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    with damager.hurried():
        yield damager.Finished(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    with damager.hurried():
        yield damager.Interrupted(tmp_path_factory.mktemp("interrupted"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", damager.KINDS)
def test_damage_to_a_finished_directory_is_named_or_made_good(finished, kind):
    for damage in damager.DAMAGES:
        outcome = finished.outcome(kind, damage, random.Random(f"{kind} {damage}"))
        assert outcome in ("noticed", "harmless", None), damage


@pytest.mark.slow
@pytest.mark.parametrize("kind", damager.RUN_FILES)
def test_what_was_damaged_before_a_resume_is_written_again_or_said(interrupted, kind):
    for damage in damager.DAMAGES:
        outcome = interrupted.outcome(kind, damage, random.Random(f"{kind} {damage}"))
        assert outcome in ("noticed", "harmless") or (outcome is None and damage in ("swapped", "older"))

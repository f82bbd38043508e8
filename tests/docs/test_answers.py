"""The answers in docs are those of the experiments that ship."""

import runpy
from pathlib import Path

import pytest

from headway.config.load import load
from headway.config.yaml import shipped

MADE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "answers.py"))
FOLDER, DUE, THERE = MADE["ANSWERS"], MADE["DUE"], MADE["answers"]()


@pytest.mark.parametrize("name", shipped())
def test_an_experiment_has_a_current_answer_or_is_due_for_a_reason(name):
    if name in THERE:
        assert MADE["is_current"](name, THERE[name]), f"the runs of {name}'s answer are not those of its file"
        assert name not in DUE
    else:
        assert DUE[name]


def test_the_gallery_names_every_answer_once():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(name for names in MADE["GROUPS"].values() for name in names) == sorted(shipped())
    for name in THERE:
        assert text.count(f"| [{load(name).document.question}]({name}.md) |") == 1
        assert MADE["sentence"](name) in text
    front = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"[{len(THERE)} answers](docs/answers/README.md)" in front


def test_a_changed_file_makes_an_answer_due():
    runs = {arm: {**of_arm, "ids": ["run1-0"]} for arm, of_arm in THERE["icl-init"]["runs"].items()}
    assert not MADE["is_current"]("icl-init", {**THERE["icl-init"], "runs": runs})


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_an_answer_is_small(path):
    assert path.stat().st_size <= {".png": 150_000, ".json": 60_000}.get(path.suffix, 20_000)

"""Headway from Python: what it shows, and that its messages are right there too."""

import ast
from pathlib import Path

import pytest

import headway
from headway import api
from headway.errors import UserError

SETTINGS = ["training.steps=50", "evaluation.prompts=100", "evaluation.curve=null", "logging.every=50"]


@pytest.fixture
def small():
    return headway.load("icl-heads", settings=SETTINGS).select(arms=["h1", "h2"], seeds=1)


@pytest.mark.slow
def test_progress_is_shown_when_it_is_asked_for_and_else_where_someone_looks(small, tmp_path, capsys):
    headway.run(small, tmp_path / "silent", figures=False)
    assert capsys.readouterr() == ("", "")
    headway.run(small, tmp_path / "shown", figures=False, progress=True)
    out, err = capsys.readouterr()
    assert "h1 seed 0 done" in out
    assert err.splitlines() == [
        "note: no verdict at the end: compared arms share 1 seed, and a verdict needs 3; choose more seeds (--seeds 3)",
        "comparing ...",
        "drawing the report; Ctrl-C leaves out what is being made ...",
    ]
    assert not (tmp_path / "shown/figures").exists()


def test_a_trainer_that_cannot_is_named():
    with pytest.raises(UserError, match=r"^trainer fused cannot train arm l2: .*; use auto$"):
        api.fallbacks(headway.load("icl-depth").select(arms=["l2"]), "fused")


def test_no_message_that_python_may_see_speaks_of_options_of_the_command_line():
    root = Path(api.__file__).parent
    files = [root / "api.py", *root.glob("train/**/*.py"), *root.glob("store/**/*.py")]
    raised = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Raise)]
    texts = [n.value for node in raised for n in ast.walk(node) if isinstance(n, ast.Constant)]
    assert len(texts) > 50
    assert [text for text in texts if isinstance(text, str) and "--" in text] == []

"""`headway judge` as it is typed: sentences, notes, exit codes and files."""

import json

import pytest
from support.typed import typed

from headway.judged.judge import judge

TABLE = "arm,seed,loss\n" + "".join(
    f"{arm},{seed},{value}\n"
    for arm, values in {"a": (3.2, 3.3, 3.25, 3.28), "b": (3.0, 3.11, 3.04, 3.09)}.items()
    for seed, value in enumerate(values)
)


@pytest.fixture
def judging(tmp_path):
    """Type `headway judge`; returns the exit code, what is printed, and what is told beside it."""
    (tmp_path / "runs.csv").write_text(TABLE)
    (tmp_path / "open.csv").write_text("arm,seed,loss\na,0,1\na,1,2\na,2,3\nb,0,2\nb,1,1\nb,2,3.5\n")

    def verb(*words):
        done = typed("judge", *words, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return verb


def test_the_verdict_comes_first_and_then_how_the_table_was_read(judging):
    code, out, _ = judging("runs.csv")
    first, *rest = out.splitlines()
    assert code == 0
    assert first.startswith("b vs a: better, loss")
    assert any(line.startswith("read runs.csv: 8 rows, 8 runs; arm: arm (guessed)") for line in rest)


def test_json_is_what_python_returns(judging, tmp_path):
    code, out, _ = judging("runs.csv", "--json", "--margin", "0.5%")
    assert (code, json.loads(out)) == (0, judge(tmp_path / "runs.csv", margin=0.5).to_json())


def test_an_open_question_fails_if_it_is_asked_to(judging):
    assert judging("open.csv")[0] == 0
    assert judging("open.csv", "--fail-if-open")[0] == 3
    assert judging("runs.csv", "--fail-if-open")[0] == 0


def test_files_are_written_into_a_folder(judging, tmp_path):
    code, _, err = judging("runs.csv", "--out", "pages")
    assert (code, sorted(path.name for path in (tmp_path / "pages").iterdir())) == (0, ["report.html", "results.json"])
    assert "pages/report.html" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nothing.csv",), "there is no such file or folder"),
        (("runs.csv", "--metric", "los"), "there is no column 'los'; its columns are arm, seed and loss"),
        (("runs.csv", "--baseline", "c"), "choose from: a, b"),
        (("runs.csv", "--margin", "half"), "such as 0.5%"),
        (("runs.csv", "--higher-is-better", "--lower-is-better"), "give one of them"),
        (("runs.csv", "--out", "runs.csv"), "is a file"),
    ],
)
def test_what_cannot_be_judged_exits_with_2(judging, words, says):
    code, _, err = judging(*words)
    assert code == 2
    assert says in err

"""`headway judge` as it is typed: sentences, notes, exit codes and files."""

import json

import pytest

import headway.cli
from headway.judged.judge import judge

TABLE = "arm,seed,loss\n" + "".join(
    f"{arm},{seed},{value}\n"
    for arm, values in {"a": (3.2, 3.3, 3.25, 3.28), "b": (3.0, 3.11, 3.04, 3.09)}.items()
    for seed, value in enumerate(values)
)


@pytest.fixture
def typed(monkeypatch, capsys, tmp_path):
    """Type `headway judge`; returns the exit code, what is printed, and what is told beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.csv").write_text(TABLE)
    (tmp_path / "open.csv").write_text("arm,seed,loss\na,0,1\na,1,2\na,2,3\nb,0,2\nb,1,1\nb,2,3.5\n")

    def verb(*words):
        monkeypatch.setattr("sys.argv", ["headway", "judge", *words])
        with pytest.raises(SystemExit) as ended:
            headway.cli.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return verb


def test_the_verdict_comes_first_and_then_how_the_table_was_read(typed):
    code, out, _ = typed("runs.csv")
    first, *rest = out.splitlines()
    assert code == 0
    assert first.startswith("b vs a: better, loss")
    assert any(line.startswith("read runs.csv: 8 rows, 8 runs; arm: arm (guessed)") for line in rest)


def test_json_is_what_python_returns(typed, tmp_path):
    code, out, _ = typed("runs.csv", "--json", "--margin", "0.5%")
    assert (code, json.loads(out)) == (0, judge(tmp_path / "runs.csv", margin=0.5).to_json())


def test_an_open_question_fails_if_it_is_asked_to(typed):
    assert typed("open.csv")[0] == 0
    assert typed("open.csv", "--fail-if-open")[0] == 3
    assert typed("runs.csv", "--fail-if-open")[0] == 0


def test_files_are_written_into_a_folder(typed, tmp_path):
    code, _, err = typed("runs.csv", "--out", "pages")
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
def test_what_cannot_be_judged_exits_with_2(typed, words, says):
    code, _, err = typed(*words)
    assert code == 2
    assert says in err

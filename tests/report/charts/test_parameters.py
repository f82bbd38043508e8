"""Where parameters go: bars in a terminal, and the same as a figure."""

import io

import pytest
from rich.console import Console

from headway.errors import UserError
from headway.report.charts.parameters import PART_COLOURS, Parts, compact, write_picture

PARTS = Parts(counts={"large": {"embedding": 600, "MLP": 200}, "small": {"embedding": 100, "MLP": 100}})


def drawn(parts, *, width=49, colour=None):
    out = io.StringIO()
    Console(file=out, width=width, color_system=colour, force_terminal=colour is not None).print(parts)
    return out.getvalue().splitlines()


def test_bars_are_as_long_as_models_are_large():
    assert drawn(PARTS) == [
        "large " + "E" * 26 + "M" * 9 + " 800",
        "small " + "E" * 4 + "M" * 5 + " 200",
        "E embedding  M MLP  ",
    ]


def test_colours_where_there_are_some():
    text = "\n".join(drawn(PARTS, colour="truecolor"))
    assert "█" in text
    assert "E" not in text.replace("\x1b", "")
    red, green, blue = (int(PART_COLOURS["embedding"][at : at + 2], 16) for at in (1, 3, 5))
    assert f"38;2;{red};{green};{blue}" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    many = Parts(counts={"x" * 50: {"embedding": 10**9, "norms": 1}, "y": {"MLP": 3}})
    assert all(len(line) <= width for line in drawn(many, width=width))


def test_parts_smaller_than_a_cell_and_models_smaller_than_one():
    lines = drawn(Parts(counts={"a": {"embedding": 10**9, "norms": 1}, "b": {"MLP": 1}}))
    assert "N" not in lines[0]
    assert lines[1].startswith("b M 1")


@pytest.mark.parametrize(
    ("number", "text"), [(999, "999"), (1000, "1.00K"), (99_999, "100K"), (999_960, "1.00M"), (68_514_048, "68.5M")]
)
def test_compact(number, text):
    assert compact(number) == text


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "html"])
def test_pictures_as_files(tmp_path, kind):
    path = write_picture(tmp_path / f"parts.{kind}", PARTS.figure("Parameters"))
    start = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF", "html": b"<!doctype html>"}[kind]
    assert path.read_bytes().startswith(start)


def test_a_figure_has_every_part_of_every_model():
    (rows,) = PARTS.figure("Parameters").spec["datasets"].values()
    assert {(row["model"], row["part"], row["parameters"]) for row in rows} == {
        ("large (800)", "embedding", 600), ("large (800)", "MLP", 200),
        ("small (200)", "embedding", 100), ("small (200)", "MLP", 100),
    }  # fmt: skip


def test_an_unknown_format(tmp_path):
    with pytest.raises(UserError, match=r"--out .*parts.gif: give a file name that ends in png, svg, pdf or html"):
        write_picture(tmp_path / "parts.gif", PARTS.figure("Parameters"))

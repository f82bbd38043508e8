"""Where parameters go, as a figure."""

import pytest

from headway.errors import UserError
from headway.report.charts.parameters import Parts, compact, write_picture

PARTS = Parts(counts={"large": {"embedding": 600, "MLP": 200}, "small": {"embedding": 100, "MLP": 100}})


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

"""Figures as files, and the page: drawn again only where what they show has changed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import altair as alt
import pytest

from headway.cli.options import check_out
from headway.errors import ResultsError, UserError
from headway.report.charts import files
from headway.report.charts.figure import Figure, inline
from headway.report.experiment import current
from headway.report.experiment.page import write_report
from headway.stats.results import build, read
from headway.store.directory import Store


def figure(name: str, *values: float, **changes: object) -> Figure:
    rows = inline({"x": n, "y": value} for n, value in enumerate(values))
    chart = alt.Chart(rows).mark_point().encode(x="x:Q", y="y:Q")
    return replace(Figure(name=name, part="Part", title="Title", caption="Words.", chart=chart), **changes)


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for each figure that is rendered."""
    calls: list[int] = []
    render = files.render
    monkeypatch.setattr(files, "render", lambda spec: (calls.append(1), render(spec))[1])
    return calls


def test_only_what_changed_is_drawn_again(tmp_path: Path, rendered: list[int]) -> None:
    paths = files.write_figures(tmp_path, [figure("a", 1, 2), figure("b", 3)])
    assert [path.name for path in paths] == ["a.png", "a.svg", "a.pdf", "b.png", "b.svg", "b.pdf"]
    stamps = {path: path.stat().st_mtime_ns for path in paths}
    assert len(rendered) == 2
    assert files.write_figures(tmp_path, [figure("a", 1, 2), figure("b", 4)]) == paths
    assert len(rendered) == 3
    changed = [path.name for path in paths if path.stat().st_mtime_ns != stamps[path]]
    assert changed == ["b.png", "b.svg", "b.pdf"]


def test_where_no_files_are_wanted_those_of_another_report_go(tmp_path: Path, rendered: list[int]) -> None:
    files.write_figures(tmp_path, [figure("a", 1), figure("b", 3), figure("c", 5)], state="one")
    (tmp_path / "mine.png").touch()
    files.remove_outdated(tmp_path, [figure("a", 1), figure("b", 4)], "two")
    assert {path.name for path in tmp_path.glob("*.*[gf]")} == {"a.png", "a.svg", "a.pdf", "mine.png"}
    assert not files.are_current(tmp_path, "one")
    files.remove_outdated(tmp_path / "nothing", [figure("a", 1)], "two")
    assert not (tmp_path / "nothing").exists()
    files.write_figures(tmp_path, [figure("a", 1), figure("b", 4)], state="two")
    assert len(rendered) == 4
    assert files.are_current(tmp_path, "two")


def test_a_file_that_is_missing_is_drawn_and_one_of_a_figure_that_is_no_more_goes(
    tmp_path: Path, rendered: list[int]
) -> None:
    files.write_figures(tmp_path, [figure("a", 1), figure("b", 3)])
    (tmp_path / "mine.png").touch()
    (tmp_path / "a.pdf").unlink()
    files.write_figures(tmp_path, [figure("a", 1)])
    assert len(rendered) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [files.DIGESTS, "a.pdf", "a.png", "a.svg", "mine.png"]


def test_who_is_killed_while_drawing_draws_again(
    tmp_path: Path, rendered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_figures(tmp_path, [figure("a", 1)])
    with monkeypatch.context() as patched:
        patched.setattr(files, "convert", lambda svg, kind: 1 / 0 if kind == "pdf" else b"half")
        with pytest.raises(ZeroDivisionError):
            files.write_figures(tmp_path, [figure("a", 2)])
    files.write_figures(tmp_path, [figure("a", 1)])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len(rendered) == 3


def test_what_moves_is_made_again_when_its_state_changed_or_is_not_known(tmp_path: Path) -> None:
    made: list[int] = []
    moving = figure("a", 1, animation=lambda: bytes([made.append(1) or len(made)]))
    for state, times in (("one", 1), ("one", 1), ("two", 2), ("", 3), ("", 4)):
        files.write_figures(tmp_path, [moving], state=state)
        assert len(made) == times, state
    assert (tmp_path / "a.gif").read_bytes() == b"\x04"


def test_damaged_digests_are_no_digests(tmp_path: Path, rendered: list[int]) -> None:
    files.write_figures(tmp_path, [figure("a", 1)])
    (tmp_path / files.DIGESTS).write_text("[1")
    files.write_figures(tmp_path, [figure("a", 1)])
    assert len(rendered) == 2


@pytest.fixture
def reported(heads_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A directory with a report, whose figures are one plain point: what they show is not of interest here."""
    store = Store.open(shutil.copytree(heads_store.path, tmp_path / "results"))
    monkeypatch.setattr(
        "headway.report.experiment.page.figures", lambda material: iter([figure("a", len(material.runs))])
    )
    write_report(store, read(store.path))
    return store


def stamps(store: Store) -> dict[str, int]:
    return {
        path.relative_to(store.path).as_posix(): path.stat().st_mtime_ns
        for path in [store.path / "report.html", *(store.path / "figures").iterdir()]
    }


def test_a_report_of_the_same_is_not_written_again(reported: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stamps(reported)
    with monkeypatch.context() as patched:
        patched.setattr("headway.report.experiment.page.gather", lambda *_: 1 / 0)
        assert write_report(reported, read(reported.path)) == reported.path / "report.html"
    assert stamps(reported) == before
    (reported.path / "figures/a.svg").unlink()
    write_report(reported, read(reported.path))
    after = stamps(reported)
    assert sorted(name for name, stamp in after.items() if before[name] != stamp) == [
        f"figures/{files.DIGESTS}", "figures/a.svg",
    ]  # fmt: skip


@pytest.mark.parametrize("changed", ["results.json", "experiment.yaml", "runs/h1/seed-0/run.json"])
def test_a_report_of_anything_else_is_written_again(reported: Store, changed: str) -> None:
    before = stamps(reported)
    file = reported.path / changed
    file.write_text(file.read_text() + "\n")
    write_report(reported, read(reported.path))
    assert stamps(reported)["report.html"] != before["report.html"]


def test_a_figure_or_a_page_that_was_damaged_is_made_again(reported: Store) -> None:
    whole = {file: file.read_bytes() for file in (reported.path / "report.html", reported.path / "figures/a.svg")}
    for file, content in whole.items():
        file.write_bytes(content.replace(b"a", b"e", 1))
        write_report(reported, read(reported.path))
        assert file.read_bytes() == content


def test_without_files_only_the_page_is_written(reported: Store) -> None:
    shutil.rmtree(reported.path / "figures")
    (reported.path / "report.html").unlink()
    write_report(reported, read(reported.path), files=False)
    assert not (reported.path / "figures").exists()
    assert current.is_of(reported.path / "report.html", current.state(reported.path))
    write_report(reported, read(reported.path))
    assert set(json.loads((reported.path / "figures" / files.DIGESTS).read_text())) == {"", "a.png", "a.svg", "a.pdf"}


@pytest.mark.parametrize("how", ["write", "remove"])
def test_names_in_a_received_directory_remove_nothing_outside(tmp_path: Path, rendered: list[int], how: str) -> None:
    folder, mine = tmp_path / "directory" / "figures", tmp_path / "mine.png"
    folder.mkdir(parents=True)
    for file in mine, tmp_path / "directory" / "also.png", folder / "old.png", folder / ".hidden.png":
        file.touch()
    (folder / "folder.png").mkdir()
    names = [
        str(mine),
        "../also.png",
        "../../mine.png",
        ".hidden.png",
        "..",
        "folder.png",
        "old.png",
        "old.png/../x.png",
    ]
    (folder / files.DIGESTS).write_text(json.dumps({**dict.fromkeys(names, "made, held"), "b.png": 7}))
    if how == "write":
        files.write_figures(folder, [figure("a", 1)])
    else:
        files.remove_outdated(folder, [figure("a", 1)], "state")
    assert mine.exists()
    assert (tmp_path / "directory" / "also.png").exists()
    assert (folder / ".hidden.png").exists()
    assert (folder / "folder.png").is_dir()
    assert not (folder / "old.png").exists()


def test_a_folder_of_figures_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "figures").symlink_to(tmp_path / "elsewhere")
    for act in (
        lambda: files.write_figures(tmp_path / "figures", [figure("a", 1)]),
        lambda: files.remove_outdated(tmp_path / "figures", [figure("a", 1)], "state"),
        lambda: files.are_current(tmp_path / "figures", "state"),
    ):
        with pytest.raises(ResultsError, match="figures is a symbolic link, and Headway follows no link"):
            act()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.fixture
def few_addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that cannot reserve what the drawing library reserves."""
    monkeypatch.setattr(files, "_ADDRESSES", 1 << 62)
    files.why_not_drawn.cache_clear()
    yield
    files.why_not_drawn.cache_clear()


SAID = "vl_convert, which draws them, reserves 4294967296 GiB of address space (not of memory), and the limit of this"


def test_without_addresses_nothing_is_drawn_and_the_process_goes_on(few_addresses: None, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^nothing can be drawn: vl_convert.* lift it with `ulimit -v unlimited`, or in"
    ):
        files.write_figures(tmp_path, [figure("a", 1, 2)])
    with pytest.raises(UserError, match=r"^nothing can be drawn: .* and run this again$"):
        check_out(tmp_path)
    check_out(tmp_path, draws=False)


@pytest.mark.slow
def test_without_addresses_a_report_has_its_numbers_and_says_what_is_left_out(
    few_addresses: None, heads_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(shutil.copytree(heads_store.path, tmp_path / "results"))
    results = build(store)
    (store.path / "results.json").write_text("{}")
    write_report(store, results)
    page = (store.path / "report.html").read_text()
    assert "igures are left out" in page
    assert SAID[1:] in page
    assert "script-src 'none';" in page
    assert "<script>" not in page
    assert "<figure>" not in page
    assert not (store.path / "figures").exists()
    monkeypatch.undo()
    files.why_not_drawn.cache_clear()
    write_report(store, results)
    assert "<figure>" in (store.path / "report.html").read_text()
    assert [*(store.path / "figures").glob("*.png")]


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v bounds nothing elsewhere")
def test_a_limit_of_the_shell_is_seen() -> None:
    code = "from headway.report.charts.files import why_not_drawn; print(why_not_drawn())"
    command = f"ulimit -v 20000000; exec {sys.executable} -c '{code}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "figures are left out: vl_convert, which draws them, reserves 66 GiB of address space"
    )

"""Figures as files, and the page: `headway run` draws them again only if they are older than what they show."""

import os
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
from headway.report.charts import page as chart_page
from headway.report.charts.figure import Figure, inline
from headway.report.experiment.page import write_report
from headway.stats.results import build, read, write
from headway.store.directory import Store
from headway.store.verify import verify


def figure(name: str, *values: float, **changes: object) -> Figure:
    rows = inline({"x": n, "y": value} for n, value in enumerate(values))
    chart = alt.Chart(rows).mark_point().encode(x="x:Q", y="y:Q")
    return replace(Figure(name=name, part="Part", title="Title", caption="Words.", chart=chart), **changes)


def test_every_file_is_drawn_anew_and_other_files_stay(tmp_path: Path) -> None:
    paths = chart_page.write_figures(tmp_path, [figure("a", 1, 2), figure("b", 3)])
    assert [path.name for path in paths] == ["a.png", "a.svg", "a.pdf", "b.png", "b.svg", "b.pdf"]
    for path in tmp_path.iterdir():
        path.write_bytes(b"damaged")
    assert chart_page.write_figures(tmp_path, [figure("a", 1, 2)]) == paths[:3]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir() if path.read_bytes() == b"damaged"} == {
        "b.png", "b.svg", "b.pdf",
    }  # fmt: skip


def test_who_is_killed_while_drawing_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (before, *_) = chart_page.write_figures(tmp_path, [figure("a", 1)])
    content = before.read_bytes()

    def killed(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        chart_page.write_figures(tmp_path, [figure("a", 2)])
    assert before.read_bytes() == content
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "a.svg", "a.pdf"}


@pytest.fixture(scope="module")
def written(heads_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a report, whose figures are one plain point: what they show is not of interest here."""
    store = Store.open(shutil.copytree(heads_store.path, tmp_path_factory.mktemp("written") / "results"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.report.experiment.page.figures", lambda material: [figure("a", len(material.runs))])
        write_report(store, write(store))
        yield store.path


@pytest.fixture
def reported(written: Path, tmp_path: Path) -> Store:
    return Store.open(shutil.copytree(written, tmp_path / "results"))


def stamps(store: Store) -> dict[str, int]:
    return {
        path.relative_to(store.path).as_posix(): path.stat().st_mtime_ns
        for path in [store.path / "report.html", *(store.path / "figures").iterdir()]
    }


def changed(store: Store, before: dict[str, int]) -> set[str]:
    return {name for name, stamp in stamps(store).items() if before.get(name) != stamp}


EVERY = {"report.html", "figures/a.png", "figures/a.svg", "figures/a.pdf"}


def test_a_report_that_is_up_to_date_is_written_only_if_that_is_asked_for(
    reported: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stamps(reported)
    with monkeypatch.context() as patched:
        patched.setattr("headway.report.experiment.page.gather", lambda *_: 1 / 0)
        assert write_report(reported, write(reported), anew=False) == reported.path / "report.html"
    assert changed(reported, before) == set()
    write_report(reported, write(reported))
    assert changed(reported, before) == EVERY


@pytest.mark.parametrize("newer", ["results.json", "experiment.yaml", "runs/h1/seed-0/run.json", "look.html"])
def test_a_report_that_is_older_than_a_file_it_is_made_from_is_written_again(reported: Store, newer: str) -> None:
    before, file = stamps(reported), reported.path / newer
    file.touch()
    os.utime(file, ns=(max(before.values()) + 1,) * 2)
    write_report(reported, read(reported.path), anew=False)
    assert changed(reported, before) == EVERY


def test_figures_that_are_older_than_a_page_without_them_are_written_again(reported: Store) -> None:
    shutil.rmtree(reported.path / "figures")
    write_report(reported, read(reported.path), files=False)
    assert not (reported.path / "figures").exists()
    write_report(reported, read(reported.path), anew=False)
    before = stamps(reported)
    os.utime(reported.path / "results.json", ns=(max(before.values()) + 1,) * 2)
    write_report(reported, read(reported.path), files=False, anew=False)
    assert changed(reported, before) == {"report.html"}
    write_report(reported, read(reported.path), anew=False)
    assert changed(reported, before) == EVERY


def test_results_of_the_same_content_stay_as_old_as_they_are(reported: Store) -> None:
    file = reported.path / "results.json"
    write(reported)
    before, content = file.stat().st_mtime_ns, file.read_bytes()
    write(reported)
    assert file.stat().st_mtime_ns == before
    file.write_bytes(content.replace(b"1", b"2", 1))
    write(reported)
    assert file.read_bytes() == content


def test_the_list_of_figures_that_older_versions_wrote_is_left_alone(reported: Store) -> None:
    old = reported.path / "figures" / ".digests.json"
    old.write_text('{"../../mine.png": "made, held", "old.png": "made, held"}')
    (reported.path / "figures/old.png").touch()
    write_report(reported, read(reported.path))
    assert (reported.path / "figures/old.png").exists()
    assert old.exists()
    assert not [damage for looked in verify(reported.path) for damage in looked.damages]


def test_a_folder_of_figures_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ResultsError, match="figures is a symbolic link, and Headway follows no link"):
        chart_page.write_figures(tmp_path / "figures", [figure("a", 1)])
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.fixture
def few_addresses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that cannot reserve what the drawing library reserves."""
    monkeypatch.setattr(chart_page, "_ADDRESSES", 1 << 62)
    chart_page.why_not_drawn.cache_clear()
    yield
    chart_page.why_not_drawn.cache_clear()


SAID = "the drawing library vl_convert reserves 4294967296 GiB of address space (not memory), but this shell or job"


def test_without_addresses_nothing_is_drawn_and_the_process_goes_on(few_addresses: None, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^nothing can be drawn: .*vl_convert.* Remove the limit with `ulimit -v unlimited`, or in"
    ):
        chart_page.write_figures(tmp_path, [figure("a", 1, 2)])
    with pytest.raises(UserError, match=r"^nothing can be drawn: .* and run this again$"):
        check_out(tmp_path)
    check_out(None, as_json=True)


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
    chart_page.why_not_drawn.cache_clear()
    write_report(store, results)
    assert "<figure>" in (store.path / "report.html").read_text()
    assert [*(store.path / "figures").glob("*.png")]


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v bounds nothing elsewhere")
def test_a_limit_of_the_shell_is_seen() -> None:
    code = "from headway.report.charts.page import why_not_drawn; print(why_not_drawn())"
    command = f"ulimit -v 20000000; exec {sys.executable} -c '{code}'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "figures are left out: the drawing library vl_convert reserves 66 GiB of address space"
    )

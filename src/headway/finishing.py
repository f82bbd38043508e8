"""Door: what is written of runs that are done: results, the page on which one looks at their heads, and the report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError, StorageFailed
from headway.runs.folder import Run
from headway.runs.store import Store
from headway.runs.worker import share_cores
from headway.show.report import current
from headway.words import command_line, counted

if TYPE_CHECKING:
    from headway.compare.results import Results
    from headway.heads.view import ModelView
    from headway.show.look.look_page import LookPage

LARGEST_MB = 10
"""Of a page on which one looks at heads, where nobody says."""


def finish(
    store: Store,
    *,
    figures: bool = True,
    look: bool | None = None,
    out: Path | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> "Results":
    """Derive results.json, the report and, unless they are not wanted as files, its figures; what the runs say.

    Args:
        store: the results directory.
        figures: whether the figures are written as files.
        look: whether look.html is written, where language models are finished; None: with the figures.
        out: the folder of all of them; None: the directory itself.
        tell: is given what takes a while, and what could not be done.
    """
    from headway.compare.results import write
    from headway.show.report.page import write_report
    from headway.show.shared.figure_files import why_not_drawn

    results = write(store, out)
    if figures if look is None else look:
        look_beside(store, tell, out)
    write_report(store, results, files=figures, out=out)
    if why := why_not_drawn():
        tell(f"warning: {why}")
    return results


def look_beside(store: Store, tell: Callable[[str], object], out: Path | None = None) -> None:
    """Write look.html as `headway look` on the directory does, unless it is there and nothing of it has changed.

    It stands in the directory, or in another folder `out`.

    While runs are worked on it is left as it is; and so is one that somebody made with options of their own. What
    stands in the way is told, and fails nothing.
    """
    path, runs = (out or store.path) / current.LOOK, final_runs(store)
    mine = current.is_signed(path) or not path.exists()
    if not runs or not mine or current.is_of(path, current.look_state(runs)):
        return
    tell(f"looking at the heads of {counted(len(runs), 'finished model')}, for {path.name} (Ctrl-C leaves it out) ...")
    try:
        write_look(store, runs, tell, out)
    except KeyboardInterrupt:
        tell(f"note: {path.name} was left out")
    except StorageFailed:
        raise  # the report could not be written either
    except Exception as error:  # noqa: BLE001 - a report does without it, whatever happened
        tell(f"note: {path.name} was not written: {_why(error)}")


def final_runs(store: Store) -> list[Run]:
    """The runs that `headway look` on a directory takes, as far as they have a text; none while any is worked on."""
    from headway.finished.own_text import brings_text

    if not any(brings_text(arm.template) for arm in store.experiment.arms):
        return []
    runs = store.runs(depth="sizes")
    if any(run.status == "running" for run in runs):
        return []
    from headway.finished.looked_at import first_of_arms

    return [run for run in first_of_arms(runs) if brings_text(run.spec)]


def write_look(store: Store, runs: Sequence[Run], tell: Callable[[str], object], out: Path | None = None) -> Path:
    """Look at the heads of runs and write the page, which says what it was made from, to the directory or to `out`.

    Raises:
        HeadwayError: when none of them can be looked at, or the page cannot be written.
    """
    from headway.finished.looked_at import check_number

    share_cores()
    paths = [run.path for run in runs]
    check_number(paths)
    found = list(_views(paths, tell))
    if not found:
        raise HeadwayError("none of them can be looked at")
    page = look_page_of(found, store.path, command_line("look", store.path), largest=LARGEST_MB * 1_000_000)
    return write_signed(page, (out or store.path) / current.LOOK, runs)


def write_signed(page: "LookPage", path: Path, runs: Sequence[Run]) -> Path:
    """Write a page that says what it was made from, so that a report makes it anew when that changes, and only then.

    Raises:
        ResultsError: when it cannot be written.
    """
    from headway.show.shared.figure_files import write_whole

    return write_whole(path, current.signed(page.html, current.look_state(runs)).encode())


def _views(paths: Sequence[Path], tell: Callable[[str], object]) -> "Iterator[ModelView]":
    from headway.finished.look import look

    for path in paths:
        try:
            yield look(path, largest=LARGEST_MB * 1_000_000 // len(paths))
        except Exception as error:  # noqa: BLE001 - the others are there all the same
            tell(f"note: {path.parent.name} is not on {current.LOOK}: {_why(error)}")


def look_page_of(views: "Sequence[ModelView]", models: Path, command: str, **options: Any) -> "LookPage":
    """The page of several models of a results directory, called as the directory is, or of one."""
    from headway.show.look.look_page import look_page

    if len(views) == 1:
        return look_page(views, command, **options)
    title = models.resolve().name
    shown = [replace(view, name=view.name.removeprefix(f"{title}-")) for view in views]
    return look_page(shown, command, title=title, **options)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"

"""Show: the page on which one looks at heads: one file for one model or several, that holds all it needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.declare.metrics import metric_name
from headway.heads.scores import DECLARED
from headway.heads.view import ModelView
from headway.show.look.look_data import ShownModel, model_data
from headway.show.look.moments import MOST, course
from headway.show.look.paged_arrays import PagedArrays
from headway.show.shared.atlas import LEFT_OUT
from headway.show.shared.figure_files import write_whole
from headway.show.shared.head_colours import DIVERGING, SEQUENTIAL, colour_range
from headway.show.shared.page import policy, script_data, templates
from headway.show.shared.theme import HEAD_COLOURS
from headway.words import counted, plainly

if TYPE_CHECKING:
    from markupsafe import Markup

_SHARE_OF_TRAINING = 0.2
"""Of a page, at most, for what heads were while they trained."""


@dataclass(frozen=True, kw_only=True)
class LookPage:
    """A page, and what was left out of it so that it is not too large.

    Attributes:
        html: the whole file.
        cuts: in sentences; they stand on the page too.
    """

    html: str
    cuts: tuple[str, ...]

    def write(self, path: Path) -> Path:
        """Write the page.

        Raises:
            ResultsError: when it cannot be written.
        """
        return write_whole(path, self.html.encode())


def look_page(
    views: Sequence[ModelView], command: str, *, title: str | None = None, largest: int = 10_000_000
) -> LookPage:
    """Draw the page.

    Args:
        views: of one model, or of several of which two stand side by side.
        command: what to type to make it again.
        title: what it is called; None: as its model, or its first two.
        largest: bytes that it may have; sequences that do not fit are left out.
    """
    shown = [_with_course(view, largest // len(views)) for view in views]
    about = {"title": title or " beside ".join(view.name for view in views[:2]), "command": command}
    html = _html(shown, **about)
    while len(html.encode()) > largest and any(map(_can_be_shorter, shown)):
        shown = [_shorter(model, largest) for model in shown]
        html = _html(shown, **about)
    cuts = dict.fromkeys(note for model in shown for note in _cuts(model))
    return LookPage(html=html, cuts=tuple(cuts))


def _html(shown: Sequence[ShownModel], **about: str) -> str:
    from markupsafe import Markup

    data, arrays = _content(shown)
    environment = templates()
    script = environment.get_template("look.js.j2").render()
    return environment.get_template("look.html.j2").render(
        n_models=len(shown),
        data=data,
        arrays=arrays.texts,
        script=Markup(script),
        policy=Markup(policy([script])),
        **about,
    )


def _with_course(view: ModelView, room: int) -> ShownModel:
    """A model with as many moments of its training as may take their share of the page."""
    n_heads = sum(attention.n_heads for attention in view.found.attentions)
    of_a_moment = 11 * n_heads * max(1, len(view.found.scores))
    most = max(2, min(MOST, int(_SHARE_OF_TRAINING * room / of_a_moment)))
    return ShownModel(view=view, course=course(view.run, most))


def _shorter(model: ShownModel, largest: int) -> ShownModel:
    """The same without patterns while it trained, or else without its last sequence, which is said."""
    view, n = model.view, len(model.view.sequences)
    below = f"so that the page stays below {largest / 1e6:.3g} MB"
    if any(step.patterns for step in view.kept):
        kept = tuple(replace(step, patterns={}) for step in view.kept)
        note = f"while it trained, no patterns are kept, {below}; fewer heads (--heads) or a larger --largest keep more"
        return replace(model, view=replace(view, kept=kept, notes=tuple(dict.fromkeys((*view.notes, note)))))
    if n <= 1:
        return model
    note = f"sequences were left out, {below}; fewer heads (--heads) or a larger --largest keep more"
    fewer = replace(
        view,
        sequences=view.sequences[:-1],
        patterns={key: packed for key, packed in view.patterns.items() if key[1] < n - 1},
        notes=tuple(dict.fromkeys((*view.notes, note))),
    )
    return replace(model, view=fewer)


def _can_be_shorter(model: ShownModel) -> bool:
    return len(model.view.sequences) > 1 or any(step.patterns for step in model.view.kept)


def _cuts(model: ShownModel) -> list[str]:
    said = [f"{plainly(model.view.name)}: {note}" for note in model.view.notes]
    if len(model.course.moments) < model.course.n_probed:
        steps = counted(model.course.n_probed, "probed step")
        said.append(f"{plainly(model.view.name)}: {len(model.course.moments)} of {steps} are on the slider")
    return said


def _content(shown: Sequence[ShownModel]) -> tuple["Markup", PagedArrays]:
    arrays = PagedArrays()
    known = [name for name, declared in DECLARED.items() if declared.of != "layer" and _known(shown, name)]
    # What grows with rows and widths, or stands for another code, comes last.
    metrics = sorted(known, key=lambda name: name.endswith(LEFT_OUT))
    data = {
        "metrics": [_metric(shown, name) for name in metrics],
        "models": [model_data(model, metrics, at, arrays) for at, model in enumerate(shown)],
        "colours": {"sequential": SEQUENTIAL, "diverging": DIVERGING, "heads": HEAD_COLOURS},
    }
    return script_data(data), arrays


def _known(shown: Sequence[ShownModel], metric: str) -> bool:
    return any(np.isfinite(model.of_heads(metric)[:, 0]).any() for model in shown)


def _metric(shown: Sequence[ShownModel], name: str) -> dict[str, Any]:
    declared = DECLARED[name]
    values = [drawn for model in shown for drawn in (model.of_heads(name), model.untrained(name)[:1])]
    found = colour_range(declared.unit, values)
    return {
        "name": name,
        "title": metric_name(name),
        "sentence": declared.sentence,
        "unit": declared.unit,
        "high": declared.high,
        "null": declared.null,
        "scale": [found.kind, found.low, found.high],
    }

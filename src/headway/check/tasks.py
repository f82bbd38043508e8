"""Check: tasks and corpora of one's own."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from headway.check.tried import Broken, tried
from headway.data.tokens.own_corpus import OwnDocuments
from headway.data.tokens.own_laws import broken, raised
from headway.data.tokens.own_task import OwnTask, examples_of
from headway.declare.metrics import METRICS
from headway.declare.spec import parse
from headway.errors import UserError, near

_ALL_IDS = 2**31
_REPORTED = {"loss_nats": ("eval_loss_nats", "accuracy", "solved"), "mse": ("eval_mse", "nmse")}
"""What is measured of a task, by its loss."""


def task(name: str, kind: type[OwnTask], measured: tuple[str, ...]) -> Iterator[str]:
    """What laws a task breaks; `measured` are metrics of runs of the same plugin."""
    try:
        made = parse(kind, {"kind": name})
    except UserError as error:
        yield f"it could not be made from `kind: {name}` alone ({error}); give each of its fields a default"
        return
    try:
        sizes = {key: getattr(made, key) for key in ("n_ctx", "vocab_size", "n_answers")}
    except UserError as error:  # which says itself what to do
        yield f"its sizes: {error}"
        return
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        yield f"its sizes raised {raised(error)}; give n_ctx and vocab_size as properties"
        return
    if wrong := [key for key, value in sizes.items() if not isinstance(value, int) or value < 1]:
        yield f"{wrong[0]} is {sizes[wrong[0]]!r}; make it a whole number of 1 or more"
        return
    reported = (*_REPORTED.get(made.loss, ()), *measured)
    if made.loss not in _REPORTED:
        yield f"loss is {made.loss!r}; {near(made.loss, _REPORTED)}"
    elif made.primary not in reported:
        yield f"primary is {made.primary!r}, which is not measured of it; {near(made.primary, reported)}"
    elif METRICS[made.primary].better is None:
        yield f"primary is {made.primary!r}, of which nobody knows where it is better; give its metric a better"
    try:
        examples = examples_of(made)
    except UserError as error:  # which says itself what to do
        yield str(error).removeprefix(f"task.kind {name}: ")
        return
    yield from broken(made, examples)


def corpus(name: str) -> Iterator[str]:
    """What laws a corpus breaks."""
    documents = OwnDocuments(name=name, vocab_size=_ALL_IDS, asked=f"corpus {name}")

    def first() -> list[Any]:
        return [document.tolist() for document in islice(documents, 1_000)]

    try:
        if not tried(first, "giving its documents", lambda one, other: bool(one == other)):
            yield "it gave no document; give an array of token ids for each"
    except Broken as error:
        yield str(error)

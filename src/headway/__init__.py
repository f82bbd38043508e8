"""Headway: a laboratory for attention heads.

    import headway

    experiment = headway.load("icl-heads")
    results = headway.run(experiment, "results/mine", seeds=2)
    model = headway.open("results/mine").run("h2", seed=0).model()

`headway.icl` holds the in-context laboratory's models, estimators and theory; `headway.hf.load(folder)` reads a
language model of Hugging Face; `headway.open_model(path).trace("Once upon a time")` says what the heads of a finished
model do with a text, `headway.xray(path, text=...)` measures them, `headway.look(path, text=...)` gathers what a page
shows of each, `headway.ablate(path, text=...)` takes them away one by one, `headway.patch(path, clean, corrupted, ...)`
puts what they did on one text into a run of another, `headway.circuit(path, heads, ...)` says how much some of them
explain alone, and `headway.prune(path, ...)` takes some away for good. Names are imported when they are first used, so
that `import headway` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway import hf as hf
    from headway import icl as icl
    from headway.api import open as open
    from headway.api import run as run
    from headway.declare.loading import load as load
    from headway.finished.ablate import ablate as ablate
    from headway.finished.circuit import circuit as circuit
    from headway.finished.look import look as look
    from headway.finished.opening import open_model as open_model
    from headway.finished.patch import patch as patch
    from headway.finished.prune import prune as prune
    from headway.finished.xray import xray as xray
    from headway.model.plain import plain_attention as plain_attention
    from headway.model.trace import Trace as Trace

__all__ = [
    "Trace",
    "__version__",
    "ablate",
    "circuit",
    "hf",
    "icl",
    "load",
    "look",
    "open",
    "open_model",
    "patch",
    "plain_attention",
    "prune",
    "run",
    "xray",
]

_HOMES = {
    "load": "headway.declare.loading",
    "run": "headway.api",
    "open": "headway.api",
    "look": "headway.finished.look",
    "open_model": "headway.finished.opening",
    "xray": "headway.finished.xray",
    "ablate": "headway.finished.ablate",
    "patch": "headway.finished.patch",
    "circuit": "headway.finished.circuit",
    "prune": "headway.finished.prune",
    "Trace": "headway.model.trace",
    "plain_attention": "headway.model.plain",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("headway")
    if name in ("hf", "icl"):
        return import_module(f"headway.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__

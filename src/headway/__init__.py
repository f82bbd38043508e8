"""Headway: a laboratory for attention heads.

    import headway

    experiment = headway.load("icl-heads")
    results = headway.run(experiment, "results/mine", seeds=2)
    model = headway.open("results/mine").run("h2", seed=0).model()

* `headway.compare(first, second)` compares the arms of two results directories.
* `headway.judge(table, arm=..., metric=...)` judges runs that another program trained.
* `headway.icl` holds the in-context laboratory's models, estimators and theory.
* `headway.hf.load(folder)` reads a language model of Hugging Face.
* `headway.open_model(path).trace("Once upon a time")` returns what the heads of a finished model do with a text.
* `headway.xray(path, text=...)` measures every head.
* `headway.look(path, text=...)` gathers what a page shows of each head.
* `headway.ablate(path, text=...)` ablates the heads one by one.
* `headway.patch(path, clean, corrupted, ...)` patches activations from one text into a run of another.
* `headway.circuit(path, heads, ...)` measures the share of the loss that some heads explain alone.
* `headway.prune(path, ...)` removes heads for good.

Names are imported when they are first used, so `import headway` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway import hf, icl
    from headway.analysis.ablate import ablate as ablate
    from headway.analysis.ablate import circuit as circuit
    from headway.analysis.look import look as look
    from headway.analysis.open import open_model as open_model
    from headway.analysis.patch import patch as patch
    from headway.analysis.prune import prune as prune
    from headway.analysis.xray import xray as xray
    from headway.api import compare as compare
    from headway.api import open as open
    from headway.api import run as run
    from headway.config.load import load as load
    from headway.judged.judge import judge as judge
    from headway.models.redraw import plain_attention as plain_attention
    from headway.models.trace import Trace as Trace

_HOMES = {
    "load": "headway.config.load",
    "run": "headway.api",
    "open": "headway.api",
    "compare": "headway.api",
    "judge": "headway.judged.judge",
    "look": "headway.analysis.look",
    "open_model": "headway.analysis.open",
    "xray": "headway.analysis.xray",
    "ablate": "headway.analysis.ablate",
    "patch": "headway.analysis.patch",
    "circuit": "headway.analysis.ablate",
    "prune": "headway.analysis.prune",
    "Trace": "headway.models.trace",
    "plain_attention": "headway.models.redraw",
}

__all__ = ["__version__", "hf", "icl", *_HOMES]


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

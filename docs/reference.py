"""Docs: the reference of the Python interface, rendered by pdoc: `make reference` writes it into build/reference."""

import inspect
import sys
from importlib import import_module
from pathlib import Path

import headway

RETURNED = {
    "headway.api": ["ResultsDirectory"],
    "headway.config.experiment": ["Experiment", "Arm"],
    "headway.store.directory": ["Store"],
    "headway.store.run": ["Run"],
    "headway.stats.results": ["Results"],
    "headway.stats.verdict_table": ["VerdictTable"],
    "headway.models.transformer": ["Transformer"],
    "headway.analysis.model": ["Opened"],
    "headway.models.trace": ["Trace", "AttentionTrace"],
    "headway.heads.scores": ["HeadScores"],
    "headway.heads.results": ["ModelOnText"],
    "headway.causal.effects": ["ExactEffects", "HeadEffects"],
    "headway.causal.patch_result": ["Patching", "HeadPaths"],
    "headway.causal.ablation_result": ["Faithfulness"],
}
"""What the functions of `headway` return, by the module where it stands; `headway.ablate`, `look`, `prune` and `xray`
say themselves what they return."""


def public() -> dict[str, list[str] | None]:
    """The modules that are rendered, and which of their names; all that a module itself lists for None."""
    returned = {module: list(names) for module, names in RETURNED.items()}
    said = [
        inspect.signature(verb).return_annotation
        for verb in (headway.ablate, headway.look, headway.prune, headway.xray)
    ]
    for each in said:
        names = returned.setdefault(each.__module__, [])
        names += [each.__name__] if each.__name__ not in names else []
    return {"headway": None, "headway.own": None, **returned, "headway.errors": None}


def render(folder: Path) -> None:
    """Write a page for each public module, and an index; the process is of no other use afterwards."""
    import pdoc

    # Names that are imported when they are first used are not in a module's dictionary, where pdoc looks.
    vars(headway).update({name: getattr(headway, name) for name in headway.__all__})
    for name, shown in public().items():
        if shown is not None:
            vars(import_module(name))["__all__"] = shown
    pdoc.render.configure(docformat="google", show_source=False)
    pdoc.pdoc(*public(), output_directory=folder)


if __name__ == "__main__":
    render(Path(sys.argv[1]))

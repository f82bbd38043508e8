"""Docs: the Python reference as pages of the site, from docstrings, by Sphinx's autodoc and napoleon.

`docs/site.py` writes the pages, and `configure` is the part of Sphinx's settings that reads docstrings.
"""

import inspect
import re
from importlib import import_module
from types import ModuleType
from typing import Any

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


PAGES = {
    "functions": ("Functions", ("headway",)),
    "experiments": ("Experiments", ("headway.config.experiment",)),
    "results": ("Results", ("headway.api", "headway.store", "headway.stats")),
    "models": ("Models", ("headway.models", "headway.analysis.model", "headway.hf")),
    "analyses": ("Analyses", ("headway.analysis", "headway.heads", "headway.causal")),
    "plug-ins": ("Plug-ins", ("headway.own",)),
    "in-context": ("In-context regression", ("headway.icl",)),
    "errors": ("Errors", ("headway.errors",)),
}
"""The pages of the reference: file, title, and the modules or packages whose names they show."""

PAGES_OF_ONE = {packages[0] for _, packages in PAGES.values() if len(packages) == 1}
"""Modules that need no heading, since their page has one."""


def pages() -> dict[str, str]:
    """Return the pages of the reference, by file, in the language that autodoc reads."""
    shown = {
        **public(),
        "headway.hf": None,
        "headway.icl": None,
        **{f"headway.icl.{name}": None for name in headway.icl.__all__},
    }
    homes = {module: _page_of(module) for module in shown}
    texts = {}
    for file, (title, _) in PAGES.items():
        parts = [_part(module, shown[module]) for module, page in homes.items() if page == file]
        texts[f"reference/{file}.rst"] = "\n".join([title, "=" * len(title), "", *parts])
    return texts


def _page_of(module: str) -> str:
    """Return the page whose package fits a module most closely."""
    fitting = {file: [p for p in packages if f"{module}.".startswith(f"{p}.")] for file, (_, packages) in PAGES.items()}
    return max(fitting, key=lambda file: max(map(len, fitting[file]), default=0))


def _part(module: str, names: list[str] | None) -> str:
    held = import_module(module)
    heading = [f"``{module}``", "-" * (len(module) + 4), ""] if module not in PAGES_OF_ONE else []
    lines = [] if names else [*heading, f".. automodule:: {module}", "   :no-members:", ""]
    if module == "headway":
        lines += [".. py:data:: __version__", "   :type: str", "", "   The version of Headway.", ""]
    for name in names or _names(held):
        value = getattr(held, name)
        if inspect.isclass(value) and value.__module__ != module and value.__module__ in public():
            continue  # it stands where it is defined
        if inspect.isclass(value):
            lines += [f".. autoclass:: {module}.{name}", "   :members:", f"   :inherited-members: {_BASES}", ""]
        elif callable(value):
            lines += [f".. autofunction:: {module}.{name}", ""]
    return "\n".join(lines)


_BASES = "Module, BaseModel, Spec, Exception, tuple, dict, str"
"""The bases whose members the reference leaves out."""


def _names(module: ModuleType) -> list[str]:
    """Return what a module lists, or else what is defined in it."""
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return [name for name in getattr(module, "__all__", own) if not name.startswith("_")]


def restructured(lines: list[str]) -> list[str]:
    """Return a docstring in reStructuredText: its examples, tables and signs are written as in Markdown.

    Examples:
        >>> restructured(["A sum:", "", "    a + b"])
        ['A sum:', '', '::', '', '    a + b']
    """
    found: list[str] = []
    literal = False
    for number, line in enumerate(lines):
        before = next((each for each in reversed(found) if each.strip()), "")
        if literal and line.strip() and not line.startswith("    "):
            literal = False
        if not literal and line.startswith("    ") and not lines[number - 1].strip() and before[:1] not in " *-":
            literal = True
            found += ["::", ""]
        if line.startswith("|"):
            found += _table_row(line, first=number == 0 or not lines[number - 1].startswith("|"))
        else:
            found.append(line if literal else _escaped(line))
    return found


def _table_row(line: str, *, first: bool) -> list[str]:
    if set(line) <= set("|- "):
        return []
    cells = [_escaped(cell.strip()) for cell in line.strip("|").split("|")]
    begin = [".. list-table::", "   :header-rows: 1", ""] if first else []
    return [*begin, *(f"   {'* -' if number == 0 else '  -'} {cell}" for number, cell in enumerate(cells))]


def _escaped(line: str) -> str:
    """Return a line whose signs outside of code mean nothing to reStructuredText."""
    parts = line.split("`")
    for number in range(0, len(parts), 2):
        text = parts[number].replace("|", r"\|")
        parts[number] = re.sub(r"\*(?=\w)(?![^*]*\w\*)", r"\*", text)
    return "`".join(parts)


def configure(app: Any) -> dict[str, bool]:
    """Connect the reading of docstrings to Sphinx."""
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=600)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}


_COLON = "\ue000"
"""A colon that napoleon does not take for the end of a type."""


def _before_napoleon(*event: Any) -> None:
    _, what, _, _, _, lines = event
    lines[:] = restructured(lines)
    if what in ("attribute", "property"):
        lines[:1] = [line.replace(":", _COLON) for line in lines[:1]]


def _after_napoleon(*event: Any) -> None:
    _, what, _, value, _, lines = event
    lines[:] = [line.replace(_COLON, ":") for line in lines]
    if what == "class":
        lines[:] = _with_types_first(lines)
    if what == "class" and not issubclass(value, tuple):  # autodoc lists the fields of tuples
        lines += _other_fields(value, set(re.findall(r"^\.\. attribute:: (\w+)", "\n".join(lines), re.MULTILINE)))


def _with_types_first(lines: list[str]) -> list[str]:
    """Return the lines with an attribute's type as an option of its directive, which is shown beside the name."""
    text = "\n".join(lines)
    attribute = r"^(\.\. attribute:: \w+)\n((?:(?!\.\. attribute::).*\n)*?)   :type: (.+)$"
    return re.sub(attribute, lambda found: _attribute(*found.groups()), text, flags=re.MULTILINE).split("\n")


def _attribute(directive: str, text: str, annotation: str) -> str:
    short = re.sub(r"\b(?:typing|collections\.abc|numpy|torch)\.", "", annotation)
    return f"{directive}\n   :type: {short}\n{text}"


def _signature(*event: Any) -> tuple[str, str] | None:
    *_, arguments, returned = event
    if not arguments or "<factory>" not in arguments:
        return None
    return re.sub(r"~[\w.]*\.(?=\w)", "", arguments).replace("<factory>", "..."), returned


def _other_fields(value: type, listed: set[str]) -> list[str]:
    """Return the fields that a class's docstring does not list, with what its bases say of them."""
    from sphinx.pycode import ModuleAnalyzer

    lines = []
    for base in value.__mro__:
        if not base.__module__.startswith("headway."):
            continue
        described = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        listed |= {name for class_name, name in described if class_name == base.__name__}
        told = dict(re.findall(r"^ +(\w+): (.+(?:\n {8,}.+)*)$", inspect.getdoc(base) or "", re.MULTILINE))
        for name, annotation in inspect.get_annotations(base).items():
            if name.startswith("_") or name in listed or "ClassVar" in str(annotation):
                continue
            listed.add(name)
            text = " ".join(told.get(name, "").split())
            lines += ["", f".. attribute:: {name}", f"   :type: {_type(annotation)}", "", f"   {_escaped(text)}"]
    return lines


def _type(annotation: Any) -> str:
    return re.sub(r"\b[a-z_]\w*\.", "", inspect.formatannotation(annotation))

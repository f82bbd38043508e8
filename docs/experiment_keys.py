"""The reference of every experiment key, and the JSON schema that editors complete from.

Both are generated from the declared types, so they cannot drift: `make docs` writes them, a test compares.
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Collection, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from headway.config.document import RUN_SECTIONS, Document, Logging, Published
from headway.config.kinds import run_kinds
from headway.config.lm.run import TokensRun
from headway.config.own_program import CommandRun
from headway.config.regression import IclRun
from headway.config.run import RunSpec
from headway.config.spec import Spec, specs_in
from headway.config.yaml import FACTOR

_KEYS = {
    "steps": "steps every circuits warmup_steps dense_until rewind_to",
    "examples": "batch_size",
    "prompts": "prompts prompts_during",
    "pairs": "n_pairs longest",
    "per coordinate": "beta_variance",
    "y squared": "noise_variance",
    "tokens": "n_ctx n_positions tokens",
    "keys": "windows",
    "documents": "stories",
    "passes": "epochs",
    "sequences": "sequences sequences_during",
    "share of the steps": "turn",
    "probability": "start end",
    "nats": "weight",
    "per cent": "margin",
}
UNITS = {key: unit for unit, keys in _KEYS.items() for key in keys.split()}
"""Units of keys that have one; the others are counts, names or pure numbers."""

_ARMS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2}
_CONTRAST: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": ". - ."},
        {"type": "array", "items": _ARMS, "minItems": 2, "maxItems": 2},
        {
            "type": "object",
            "properties": {"better": _ARMS, "than": _ARMS, "names": _NAMES},
            "required": ["better", "than"],
            "additionalProperties": False,
        },
        {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 2},
    ]
}
"""The JSON schema of a contrast, in the forms that `contrasts` explains."""


def _described(kind: type[Spec]) -> type[Spec]:
    """Return a type whose fields have the texts that stand below them as descriptions."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Spec):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(tree, ast.ClassDef)
            for field, text in pairwise(tree.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    texts[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    for name, field in kind.model_fields.items():
        field.description = texts.get(name)
        for part in specs_in(field.annotation):
            _described(part)
    kind.model_rebuild(force=True)
    return kind


for _kind in {Document, *run_kinds().values()}:
    _described(_kind)

_ARM = "the arm whose run of the same seed provides the initial weights"
_ARM_ROW = f"| `arm` | {_ARM} | text; required |"
"""The row of `init_from.arm`: a file names the arm, while a run holds the id of a run."""

_CONTRASTS = [
    "## `contrasts`",
    "",
    "Each comparison has a name and one of these forms. In the name of an arm, `*` matches any text.",
    "",
    "| form | meaning | example |",
    "|---|---|---|",
    "| `a - b` | arm `a` against arm `b` | `order: descending - ascending` |",
    "| `[a, [b, c]]` | arm `a` against the mean of arms `b` and `c` | `wide: [wide-8, [narrow-1, narrow-2]]` |",
    "| `{better: a, than: [b, c]}` | arm `a` against the mean of arms `b` and `c`; the optional `names` labels both "
    "sides | `wide: {better: wide-8, than: narrow-*, names: [wide, narrow]}` |",
    "| `{a: 1, b: -1}` | a weighted sum of arms; the weights add up to 0 | "
    "`interaction: {a-new: 1, a-old: -1, b-new: -1, b-old: 1}` |",
    "",
]
_SCHEDULES = [
    "## Language models: schedules of `model.n_heads` and `model.d_mlp`",
    "",
    "A schedule sets the number of heads, or the width of the MLP, in each layer. The numbers are examples.",
    "",
    "| schedule | key | meaning |",
    "|---|---|---|",
    "| `ascending(45)` | `n_heads` | 45 heads in all; each layer has twice as many heads as the layer before |",
    "| `descending(45)` | `n_heads` | 45 heads in all; each layer has half as many heads as the layer before |",
    "| `constant(48)` | `n_heads` | 48 heads in all, with the same number in each layer |",
    "| `linear(4, 16)` | `n_heads` | a linear change from 4 heads in the first layer to 16 in the last layer |",
    "| `delight(4, 8)` | `n_heads` | the same as `linear(4, 8)`, the name in DeLighT (arXiv 2008.00623) |",
    "| `openelm(0.5, 1.0)` | `n_heads` | the total width of the heads changes linearly from 0.5 to 1.0 times d_model; "
    "needs `d_head`; 4 query heads share a KV head (OpenELM, arXiv 2404.14619) |",
    "| `openelm(0.5, 4.0)` | `d_mlp` | the width changes linearly from 0.5 to 4.0 times d_model, and is rounded to a "
    "multiple of 256; a third number replaces 256 |",
    "| `delight(2, 4, 8)` | `d_mlp` | the width changes linearly from 2 to 3 times d_model (3 = 2 + 8/4 - 1) |",
    "",
]


def reference() -> str:
    """Return every key of an experiment's file as Markdown tables: meaning, type, unit and default."""
    lines = [
        "# Experiment keys",
        "",
        "`make docs` generates this page from the declared types. A *required* key has no default: give it in",
        "the experiment or in every arm. Write numbers as in YAML 1.2; underscores may group digits (`100_000`).",
        "In an arm, a control, a scale or `--set`, `x0.5` halves a number; integers are rounded. Tasks with known",
        "answers, such as parity, use the keys of language models.",
        "",
        *_table("The file", Document),
        *_CONTRASTS,
        *_table("`logging`", Logging),
        *_table("`published`, each", Published),
    ]
    names: dict[type[RunSpec], str] = {
        TokensRun: "Language models",
        IclRun: "In-context regression",
        CommandRun: "Commands of your own",
    }
    for run, about in names.items():
        sections = {part: part for part in RUN_SECTIONS if part in run.model_fields}
        if run.traits.initialises_others:
            sections["init_from"] = "arms.NAME.init_from"
        for part, path in sections.items():
            nested = _nested(run.model_fields[part].annotation, path)
            members = {(at, member): None for at, member in nested if member.model_fields}
            for section in dict.fromkeys(section for section, _ in members):
                rows = _part(f"{about}: `{section}`", [member for at, member in members if at == section])
                lines += [_ARM_ROW if part == "init_from" and row.startswith("| `run` |") else row for row in rows]
                lines += _SCHEDULES if section == "model" and run is TokensRun else []
    return "\n".join(lines) + "\n"


def _part(heading: str, members: list[type[Spec]]) -> list[str]:
    """Return the tables of a part: the keys that its forms share once, then those of each form."""
    forms = [member for member in members if _choice(member)]
    shared = _shared(forms)
    lines: list[str] = []
    for member in members:
        lines += _table(heading, member, shared if member in forms else ())
    rows = [_shared_row(name, [form for form in forms if name in form.model_fields], forms) for name in shared]
    common = [f"## {heading}, shared keys", "", *_HEAD, *rows, ""] if rows else []
    # A key that some forms lack must not stand before the first form, which most readers want.
    everywhere = all(name in form.model_fields for name in shared for form in forms)
    return common + lines if everywhere else lines + common


def _shared(forms: list[type[Spec]]) -> list[str]:
    """Return the keys that all forms have with one meaning and type, or that at least three have."""
    names = list(dict.fromkeys(name for form in forms for name in form.model_fields))
    shared = []
    for name in names:
        fields = [form.model_fields[name] for form in forms if name in form.model_fields]
        meanings = {(field.description, _type(field.annotation)) for field in fields}
        if len(forms) > 1 and len(meanings) == 1 and len(fields) >= min(3, len(forms)):
            shared.append(name)
    return shared


def _shared_row(name: str, having: list[type[Spec]], forms: list[type[Spec]]) -> str:
    fields = [form.model_fields[name] for form in having]
    defaults = list(dict.fromkeys(_default(field) for field in fields))
    if len(defaults) > 1:
        named = zip(having, fields, strict=True)
        defaults = [f"{_choice(form).strip('`').partition(': ')[2]}: {_default(field)}" for form, field in named]
    lacking = [_choice(form) for form in forms if form not in having]
    meaning = "".join((fields[0].description or "", f" (not in {', '.join(lacking)})" if lacking else ""))
    return _cells(name, meaning, fields[0], ", ".join(defaults))


def schema() -> dict[str, Any]:
    """Return the JSON schema of an experiment's file, for editors."""
    runs = {kind: run.model_json_schema(ref_template="#/$defs/{model}") for kind, run in run_kinds().items()}
    definitions = {name: value for run in runs.values() for name, value in run.pop("$defs", {}).items()}
    parts = {
        part: {"anyOf": [run["properties"][part] for run in runs.values() if part in run["properties"]]}
        for part in RUN_SECTIONS
    }
    # Parts may be incomplete where an arm completes them, so nothing is required below the top level.
    partial = {name: _with_factors(value) for name, value in definitions.items()}
    for value in partial.values():
        value.pop("required", None)
    document = Document.model_json_schema(ref_template="#/$defs/{model}")
    document["$defs"] = {**document.get("$defs", {}), **partial}
    override: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {**parts, "label": {"type": "string"}},
    }
    document["properties"] |= parts
    start = document["$defs"]["Start"]["properties"]
    del start["run"]
    document["$defs"]["Start"]["properties"] = {"arm": {"type": "string", "description": _ARM}, **start}
    of_arm = {**override, "properties": {**override["properties"], "init_from": {"$ref": "#/$defs/Start"}}}
    document["properties"]["arms"]["additionalProperties"] = {"anyOf": [of_arm, {"type": "null"}]}
    document["properties"]["controls"]["additionalProperties"] = override
    document["properties"]["scales"]["additionalProperties"] = {"type": "object"}
    document["properties"]["contrasts"]["additionalProperties"] = _CONTRAST
    document["properties"].pop("scale")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_without_discriminators(document)}


def _with_factors(value: Any) -> Any:
    """Return a schema in which every number may be a factor, such as `x0.5` for half of the former number."""
    if isinstance(value, list):
        return [_with_factors(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in ("integer", "number"):
        return {"anyOf": [value, {"type": "string", "pattern": f"^{FACTOR}$"}]}
    return {key: _with_factors(inner) for key, inner in value.items()}


def _without_discriminators(value: Any) -> Any:
    """Return a schema whose incomplete parts may omit the key that chooses their type: any fitting type is valid."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "discriminator" and isinstance(v, dict))}
        return {("anyOf" if k == "oneOf" else k): _without_discriminators(v) for k, v in kept.items()}
    return [_without_discriminators(item) for item in value] if isinstance(value, list) else value


def _nested(annotation: Any, path: str) -> Iterable[tuple[str, type[Spec]]]:
    for member in specs_in(annotation):
        yield path, member
        for name, field in member.model_fields.items():
            yield from _nested(field.annotation, f"{path}.{name}")


def _choice(member: type[Spec]) -> str:
    chosen = [
        f"`{name}: {get_args(f.annotation)[0]}`"
        for name, f in member.model_fields.items()
        if f.is_required() and len(get_args(f.annotation)) == 1 and isinstance(get_args(f.annotation)[0], str)
    ]
    return chosen[0] if chosen else ""


_HEAD = ["| key | meaning | type, unit; default |", "|---|---|---|"]


def _table(heading: str, member: type[Spec], shared: Collection[str] = ()) -> list[str]:
    choice = _choice(member)
    chosen = choice.strip("`").partition(":")[0]
    rows = [
        _cells(name, field.description or "", field, _default(field))
        for name, field in member.model_fields.items()
        if name != chosen and name not in shared
    ]
    sentence = (member.__doc__ or "").strip().splitlines()[0]
    title = f"## {heading}" + (f", {choice}" if choice else "")
    return [title, "", sentence, "", *(_HEAD if rows else []), *rows, *([""] if rows else [])]


_PER_LAYER = "integer or text or list of (integer or null)"


def _cells(name: str, meaning: str, field: FieldInfo, default: str) -> str:
    unit = "" if field.annotation is bool else UNITS.get(name, "")
    # A default of null says that null may be given.
    kind = _type(field.annotation).removesuffix(" or null" if default == "`null`" else "")
    value = ", ".join(part for part in (kind.replace(_PER_LAYER, "a number, or one per layer"), unit) if part)
    cells = (f"`{name}`", meaning, f"{value}; {default}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(annotation: Any) -> str:
    if hasattr(annotation, "__metadata__"):  # what is required of it beside its type
        return _type(annotation.__origin__)
    if annotation is type(None):
        return "null"
    if annotation is Ellipsis:
        return "..."
    if isinstance(annotation, str):
        return f"`{annotation}`"
    inner = [_type(arg) for arg in get_args(annotation) if isinstance(arg, type | str) or get_args(arg)]
    origin = str(getattr(annotation, "__origin__", ""))
    if isinstance(annotation, type) and not inner:
        names = {"int": "integer", "float": "number", "str": "text", "bool": "boolean", "Any": "any"}
        return names.get(annotation.__name__, "mapping")
    if "tuple" in origin:
        return "list of " + (f"({inner[0]})" if " or " in inner[0] else inner[0])
    if "dict" in origin:
        return "mapping"
    return " or ".join(dict.fromkeys(inner))


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    plain = field.default.content() if isinstance(field.default, Spec) else field.default
    return "defaults below" if plain == {} and isinstance(field.default, Spec) else f"`{json.dumps(plain)}`"


def main(folder: str) -> None:
    """Write `experiment-keys.md` and `experiment.schema.json` into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "experiment-keys.md").write_text(reference(), encoding="utf-8")
    (target / "experiment.schema.json").write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

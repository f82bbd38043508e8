"""Declare: YAML text to plain mappings, and how mappings are merged.

Numbers follow YAML 1.2 (`1e3` is a number, a date is text), with underscores between digits; a key that
stands twice is an error, since YAML would silently keep the last one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headway.errors import DeclarationError

CHOOSERS = ("kind", "family", "optimizer")
"""Keys that say what a mapping is; where one changes, nothing of the former mapping is kept."""


ALTERNATIVES = ("steps", "tokens", "epochs")
"""Keys of which a mapping has one; where another one is given, the former goes."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the YAML 1.2 core schema instead of YAML 1.1's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own protocol

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in seen and key != "<<":
                raise DeclarationError(
                    f"line {line}: {key!r} stands twice (first in line {seen[key]}); keep one of them"
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


def _number(text: str) -> int | float:
    digits = text.replace("_", "")
    if re.fullmatch(r"[-+]?[0-9]+", digits):
        return int(digits)
    value = float(digits.replace(".inf", "inf").replace(".nan", "nan").replace(".NaN", "nan"))
    # 1e5 is the natural way to write 100,000 steps.
    return int(value) if "." not in digits and value.is_integer() else value


def _scalar(node: yaml.Node) -> str:
    return str(node.value)


_INTEGER = r"[-+]?[0-9]+(?:_[0-9]+)*"
_FLOAT = rf"(?:{_INTEGER}|[-+]?(?=\.[0-9]))(?:\.[0-9]*(?:_[0-9]+)*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan|\.NaN"
for _tag, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("number", _FLOAT, list("-+0123456789.")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:number", lambda _, node: _number(_scalar(node)))
_Loader.add_constructor("tag:yaml.org,2002:bool", lambda _, node: _scalar(node).lower() == "true")


def read_yaml(text: str, source: str = "YAML") -> Any:
    r"""The plain value of a YAML text.

    Raises:
        DeclarationError: for a syntax error or a key that stands twice, with its line.

    Examples:
        >>> read_yaml("steps: 1e3\nwhen: 2024-11-01\nrate: 5.0e-4\nmany: 500_001")
        {'steps': 1000, 'when': '2024-11-01', 'rate': 0.0005, 'many': 500001}
    """
    try:
        value = yaml.load(text, Loader=_Loader)
        _visit(value)  # does not end if an alias stands inside its own anchor
        return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise DeclarationError(f"{source}: {line}this is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise DeclarationError(f"{source}: this is not YAML: {error}") from None
    except RecursionError:
        raise DeclarationError(f"{source}: a value contains itself (an alias inside its own anchor)") from None
    except DeclarationError as error:
        raise DeclarationError(f"{source}: {error}") from None


def read_file(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Raises:
        DeclarationError: when the file cannot be read or holds no mapping.
    """
    try:
        value = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{path}: cannot be read as a text file: {error}") from None
    if not isinstance(value, dict):
        raise DeclarationError(
            f"{path}: holds {type(value).__name__}, not a mapping; an experiment starts with name: ..."
        )
    return value


class _Dumper(yaml.SafeDumper):
    """Short lists of numbers on one line; text that the loader would read as a number is quoted."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        flat = all(not isinstance(item, dict) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=flat or flow_style)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="'" if text and not isinstance(read_plain(text), str) else None
    )


def _float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", repr(number))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _float)


def read_plain(text: str) -> Any:
    """The value of a scalar as a YAML file or `--set` would read it; anything unreadable is text."""
    try:
        return read_yaml(text)
    except DeclarationError:
        return text


def write_yaml(value: Any) -> str:
    """YAML text that `read_yaml` reads back as the same value.

    Examples:
        >>> print(write_yaml({"beta": "1/d_x", "rate": 0.0005, "text": "1e3"}), end="")
        beta: 1/d_x
        rate: 0.0005
        text: '1e3'
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def merge(base: Any, over: Any) -> Any:
    """`over` merged over `base`: mappings key by key, everything else replaced.

    A mapping whose kind, family or optimizer changes is replaced whole. A number that is replaced by `x0.5` is halved.
    Of steps, tokens and epochs the one given last stays. Neither argument is changed.

    Examples:
        >>> merge({"a": {"x": 1, "y": [1, 2]}}, {"a": {"y": [3]}})
        {'a': {'x': 1, 'y': [3]}}
        >>> merge({"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"})
        {'optimizer': 'adam'}
        >>> merge({"rate": 0.5, "size": 8}, {"rate": "x3", "size": "x0.5"})
        {'rate': 1.5, 'size': 4}
        >>> merge({"tokens": 1000, "size": 8}, {"steps": 10})
        {'size': 8, 'steps': 10}
    """
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return _times(base, over) if is_factor(base, over) else over
    if any(key in over and over[key] != base.get(key, over[key]) for key in CHOOSERS):
        return dict(over)
    given = any(over.get(key) is not None for key in ALTERNATIVES)
    kept = {key: value for key, value in base.items() if key in over or not (given and key in ALTERNATIVES)}
    return {**kept, **{key: merge(kept[key], value) if key in kept else value for key, value in over.items()}}


FACTOR = r"x([0-9]+(\.[0-9]*)?|\.[0-9]+)"
"""What replaces a number by so many times what it was."""


def is_factor(base: Any, over: Any) -> bool:
    """Whether a value says how many times the number that it replaces it is."""
    numeric = isinstance(base, int | float) and not isinstance(base, bool)
    return numeric and isinstance(over, str) and re.fullmatch(FACTOR, over) is not None


def _times(base: int | float, factor: str) -> int | float:
    value = base * float(factor.removeprefix("x"))
    return int(value) if isinstance(base, int) and value.is_integer() else value


def at_path(path: str, value: Any) -> dict[str, Any]:
    """A nested mapping that holds `value` at a dotted path.

    Examples:
        >>> at_path("training.steps", 10)
        {'training': {'steps': 10}}
    """
    head, _, rest = path.partition(".")
    return {head: at_path(rest, value) if rest else value}


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a nested mapping by dotted path.

    Examples:
        >>> leaves({"a": {"b": 1}, "c": [2]})
        {'a.b': 1, 'c': [2]}
    """
    if isinstance(value, Mapping) and value:
        return {path: leaf for key, inner in value.items() for path, leaf in leaves(inner, f"{prefix}{key}.").items()}
    return {prefix.rstrip("."): value}


def _visit(value: Any) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _visit(inner)

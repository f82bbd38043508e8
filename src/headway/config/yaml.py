"""YAML text read into plain mappings, and the merging of mappings.

Numbers follow YAML 1.2 (`1e3` and `0x1F` are numbers, `012` is 12, a date is text), with underscores between digits. A
key that stands twice is an error, since YAML would silently keep the last one.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer

from headway.config.spec import (
    DEEPEST,
    MOST_CHARACTERS,
    WHOLE_KEYS,
    odd_character,
    read_text,
)
from headway.errors import DeclarationError, shortened

CHOOSERS = ("kind", "family", "optimizer")
"""Keys that choose a mapping's type; if one changes, the former mapping is dropped completely."""


ALTERNATIVES = ("steps", "tokens", "epochs")
"""Keys of which a mapping has one; giving another removes the former."""


def shipped() -> dict[str, Path]:
    """Return the experiments that come with Headway: name to file."""
    return {path.stem: path for path in sorted((Path(__file__).parents[1] / "experiments").glob("*.yaml"))}


class _Loader(Composer, yaml.CSafeLoader):
    """A safe loader with the YAML 1.2 core schema instead of YAML 1.1's, and limits that aliases count against.

    libyaml reads the events, several times as fast as PyYAML; the nodes are composed here, where they are counted.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own protocol

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._size = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return a node, counted while it is read, so that nothing too large is ever made."""
        event: Any = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._sizes:  # its anchor is still being read
                raise DeclarationError("a value contains itself (an alias inside its own anchor)")
            self._count(self._sizes[id(node)], line)
            return node
        before = self._size
        self._count(10 + len(getattr(event, "value", "")), line)
        self._depth += 1
        if self._depth > DEEPEST:
            raise DeclarationError(
                f"line {line}: mappings and lists are nested more than {DEEPEST} deep; "
                "is it an experiment? Put text that begins with a bracket in quotes"
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._sizes[id(node)] = self._size - before
        return node

    def _count(self, size: int, line: int) -> None:
        self._size += size
        if self._size > MOST_CHARACTERS:
            raise DeclarationError(
                f"line {line}: with aliases written out, the file has more than {MOST_CHARACTERS:,} characters up to "
                "here (a value counts ten more); leave some out (an experiment has a few thousand)"
            )

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise DeclarationError(f"line {node.start_mark.line + 1}: a tag says that this is a mapping, and it is not")
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise DeclarationError(
                    f"line {line}: a mapping or a list is used as a key; give a word, and put "
                    "text that begins with a bracket in quotes"
                )
            if key in seen and key != "<<":
                raise DeclarationError(
                    f"line {line}: {shortened(repr(key))} appears twice (first in line {seen[key]}); keep one of them"
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


def _number(text: str) -> int | float:
    digits = text.replace("_", "")
    if digits[:2] in ("0x", "0o"):
        return int(digits, 0)
    if re.fullmatch(r"[-+]?[0-9]+", digits):
        return int(digits)
    value = float(re.sub(r"\.(?=inf|nan)", "", digits.lower()))
    # 1e5 is the natural way to write 100,000 steps.
    return int(value) if "." not in digits and value.is_integer() else value


_INTEGER = r"[-+]?[0-9]+(?:_[0-9]+)*"
_FLOAT = (
    rf"(?:{_INTEGER}|[-+]?(?=\.[0-9]))(?:\.[0-9]*(?:_[0-9]+)*)?(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|0x[0-9a-fA-F]+|0o[0-7]+"
)
_PATTERNS = {
    "null": (r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "number": (_FLOAT, list("-+0123456789.")),
    "merge": (r"<<", ["<"]),
}


def _of_kind(kind: str, make: Callable[[str], Any]) -> Callable[[yaml.SafeLoader, yaml.Node], Any]:
    """Return a constructor of tagged nodes that raises a user's error if a value does not fit its tag."""

    def construct(_: yaml.SafeLoader, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and re.fullmatch(_PATTERNS[kind][0], node.value):
            return make(node.value)
        raise DeclarationError(
            f"line {node.start_mark.line + 1}: {shortened(str(node.value))} is marked as "
            f"{node.tag.rpartition(':')[2]} but is not; remove the mark with !"
        )

    return construct


def _shown_text(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    text = str(loader.construct_scalar(node))  # type: ignore[arg-type]  # it refuses what is no scalar
    if odd := odd_character(text):
        raise DeclarationError(
            f"line {node.start_mark.line + 1}: the text holds the character {odd}, which cannot be shown; leave it out"
        )
    return text


def _unknown(_: yaml.SafeLoader, node: yaml.Node) -> Any:
    raise DeclarationError(
        f"line {node.start_mark.line + 1}: the mark {shortened(node.tag.replace('tag:yaml.org,2002:', '!!'))} is not "
        "known; leave it out, and put text in quotes"
    )


_Loader.yaml_constructors = {
    tag: construct
    for tag, construct in yaml.SafeLoader.yaml_constructors.items()
    if tag in ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
}
for _tag, (_pattern, _first) in _PATTERNS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first)
for _tag, _make in {
    "number": _number,
    "int": _number,
    # A number marked as a float stays one: `!!float '1e+30'` would be too large as an integer.
    "float": lambda text: float(_number(text)),
    "bool": lambda text: text.lower() == "true",
    "null": lambda _: None,
}.items():
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _of_kind(_tag if _tag in _PATTERNS else "number", _make))
_Loader.add_constructor("tag:yaml.org,2002:str", _shown_text)
_Loader.add_constructor("tag:yaml.org,2002:merge", _shown_text)
_Loader.add_constructor(None, _unknown)


_CRASHES = yaml.YAMLError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError
"""PyYAML crashes on some input that it should refuse, such as half a surrogate pair."""


def read_yaml(text: str, source: str = "YAML") -> Any:
    r"""Return the plain value of a YAML text.

    Raises:
        DeclarationError: if there is a syntax error, a repeated key, or more content than anybody would write; the line
            is named.

    Examples:
        >>> read_yaml("steps: 1e3\nwhen: 2024-11-01\nrate: 5.0e-4\nmany: 500_001")
        {'steps': 1000, 'when': '2024-11-01', 'rate': 0.0005, 'many': 500001}
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"line {mark.line + 1}: " if mark else ""
        # Only a tab that the reader stopped at: one within a text is allowed.
        stopped_at = text.splitlines()[mark.line][mark.column :] if mark and mark.line < len(text.splitlines()) else ""
        is_tab = stopped_at.startswith("\t")
        problem = "a tab; indent with spaces" if is_tab else shortened(str(error.problem or error.context))
        raise DeclarationError(f"{source}: {line}this is not YAML: {problem}") from None
    except DeclarationError as error:
        raise DeclarationError(f"{source}: {error}") from None
    except _CRASHES as error:
        raise DeclarationError(f"{source}: this is not YAML: {error}") from None


def read_file(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Raises:
        DeclarationError: when the file cannot be read, is far too large, or holds no mapping.
    """
    value = read_yaml(read_text(path), str(path))
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
    plain = re.fullmatch(r"[A-Za-z0-9_]+( [A-Za-z0-9_]+)+|", text)  # most texts, and quickly
    quoted = not plain and not isinstance(read_plain(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if quoted else None)


def _float(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    text = repr(number).replace("inf", ".inf").replace("nan", ".nan")
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _float)


def read_plain(text: str) -> Any:
    """Return the value of a scalar as a YAML file or `--set` would read it; unreadable text stays text.

    Examples:
        >>> read_plain("1e3"), read_plain("{{7*7}}")
        (1000, '{{7*7}}')
    """
    try:
        return read_yaml(text)
    except DeclarationError:
        return text


def write_yaml(value: Any) -> str:
    """Return YAML text that `read_yaml` reads back as an equal value.

    Examples:
        >>> print(write_yaml({"beta": "1/d_x", "rate": 0.0005, "text": "1e3"}), end="")
        beta: 1/d_x
        rate: 0.0005
        text: '1e3'
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def merge(base: Any, over: Any, key: str = "") -> Any:
    """Return `over` merged over `base`: mappings key by key, everything else replaced.

    A mapping whose kind, family or optimizer changes is replaced whole. `x0.5` halves the number that it replaces. If
    steps, tokens and epochs are given one after another, the last stays. Neither argument is changed.

    Args:
        base: the former value.
        over: the new value.
        key: its name; the number of a key that takes whole numbers is rounded.

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
        return _times(base, over, key) if is_factor(base, over) else over
    if any(key in over and over[key] != base.get(key, over[key]) for key in CHOOSERS):
        return dict(over)
    has_alternative = any(over.get(key) is not None for key in ALTERNATIVES)
    kept = {key: value for key, value in base.items() if key in over or not (has_alternative and key in ALTERNATIVES)}
    return {**kept, **{key: merge(kept[key], value, key) if key in kept else value for key, value in over.items()}}


FACTOR = r"x([0-9]{1,12}(\.[0-9]*)?|\.[0-9]+)"
"""The form of a factor, such as `x0.5`, that multiplies the number that it replaces."""


def is_factor(base: Any, over: Any) -> bool:
    """Return whether a value is a factor by which the number that it replaces is multiplied."""
    # A product of larger numbers would not be finite.
    numeric = isinstance(base, int | float) and not isinstance(base, bool) and abs(base) < 1e290
    return numeric and isinstance(over, str) and re.fullmatch(FACTOR, over) is not None


def _times(base: int | float, factor: str, key: str) -> int | float:
    value = base * float(factor.removeprefix("x"))
    if isinstance(base, int) and value.is_integer():
        return int(value)
    return max(1, round(value)) if key in WHOLE_KEYS else value


def at_path(path: str, value: Any) -> dict[str, Any]:
    """Return a nested mapping that holds `value` at a dotted path.

    Examples:
        >>> at_path("training.steps", 10)
        {'training': {'steps': 10}}
    """
    head, _, rest = path.partition(".")
    return {head: at_path(rest, value) if rest else value}


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the values of a nested mapping by dotted path.

    Examples:
        >>> leaves({"a": {"b": 1}, "c": [2]})
        {'a.b': 1, 'c': [2]}
    """
    if isinstance(value, Mapping) and value:
        return {path: leaf for key, inner in value.items() for path, leaf in leaves(inner, f"{prefix}{key}.").items()}
    return {prefix.rstrip("."): value}


def differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return the sorted keys of two mappings whose values differ; an absent value is None."""
    return sorted(key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key))

"""Declare: settings of the command line, `PATH=VALUE`, merged after the scale and before the arms.

A setting that would change nothing, because an arm that is to be run overrides it or a name is misspelt, is an error:
silence would be taken for a result.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headway.declare.document import PARTS
from headway.declare.mapping import at_path, is_factor, merge, read_plain
from headway.errors import DeclarationError, near

_ABSENT = object()
"""What stands where nothing does; null is a value."""


def with_settings(document: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A plain document with settings merged in, one after the other.

    Raises:
        DeclarationError: for one that is no `PATH=VALUE`, names nothing, or is replaced by a later one.
    """
    parsed = [_parsed(setting, document) for setting in settings]
    changed = dict(document)
    for path, value in parsed:
        changed = merge(changed, at_path(path, value))
    for path, value in parsed:
        # What is left out is null.
        if path.partition(".")[0] in PARTS and value is not None and _at(path, changed) is _ABSENT:
            raise DeclarationError(
                f"--set {path}: a later --set replaces it, or the whole that it is a part of, such as training "
                "with another optimizer; give it after that one, or leave it out"
            )
    return changed


def check_effect(settings: Iterable[str], parts: Mapping[str, Any], arms: Mapping[str, Any]) -> None:
    """Look whether settings have an effect in arms.

    Args:
        settings: as given, `PATH=VALUE`.
        parts: of the document, with the settings merged in.
        arms: those that are looked at, by name, with what they override.

    Raises:
        DeclarationError: for one that an arm overrides, with what would set it there.
    """
    given = [(path, read_plain(text)) for path, _, text in (setting.partition("=") for setting in settings)]
    paths = [path for path, _ in given]
    for path, value in given:
        stands = _at(path, parts)
        if path.partition(".")[0] not in PARTS or stands is _ABSENT:
            continue
        # A factor such as x0.5 has become a number.
        meant = stands if isinstance(value, str) else value
        deaf = [
            arm
            for arm, override in arms.items()
            if not _holds(merge(parts, override or {}), path, meant) and not _is_set(f"arms.{arm}.{path}", paths)
        ]
        if deaf:
            places = {arm: _settable(path, arms[arm]) for arm in deaf}
            instead = " ".join(f"--set arms.{arm}.{place}=..." for arm, place in places.items())
            who = f"arm {deaf[0]} sets it itself" if len(deaf) == 1 else f"arms {', '.join(deaf)} set it themselves"
            raise DeclarationError(
                f"--set {path}: {who}, or what holds it, so this would change nothing there; add {instead}"
            )


def unheard(
    settings: Iterable[str], parts: Mapping[str, Any], controls: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """A sentence for each setting that a control overrides with a value of its own.

    Args:
        settings: as given, `PATH=VALUE`.
        parts: of the document, with the settings merged in.
        controls: those that are asked for, by name.

    Examples:
        >>> parts = {"training": {"optimizer": "muon", "steps": 10}}
        >>> list(unheard(["training.steps=10"], parts, {"adam": {"training": {"optimizer": "adamw", "steps": 600}}}))
        ['--set training.steps does not reach control adam, which has 600; add --set controls.adam.training.steps=...']
    """
    given = [setting.partition("=")[0] for setting in settings]
    for name, control in controls.items():
        merged = merge(parts, control)
        for path in given:
            asked = _at(path, parts)
            if asked is _ABSENT or asked is None or is_factor(asked, _at(path, control)):
                continue
            if not _holds(merged, path, asked) and not _is_set(f"controls.{name}.{path}", given):
                own = _at(path, merged)
                has = "sets the whole that it is a part of" if own is _ABSENT else f"has {own}"
                yield f"--set {path} does not reach control {name}, which {has}; add --set controls.{name}.{path}=..."


def _at(path: str, content: Any) -> Any:
    for key in path.split("."):
        if not isinstance(content, Mapping) or key not in content:
            return _ABSENT
        content = content[key]
    return content


def _parsed(setting: str, document: Mapping[str, Any]) -> tuple[str, Any]:
    path, equals, text = setting.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        raise DeclarationError(f"--set {setting}: write it as PATH=VALUE, such as training.steps=2000")
    if keys[0] in ("name", "scale", "scales"):
        raise DeclarationError(f"--set {path}: cannot be set; copy the file with `headway show` and change it there")
    named = document.get(keys[0])
    if keys[0] in ("arms", "controls", "groups") and isinstance(named, Mapping) and keys[1:] and keys[1] not in named:
        raise DeclarationError(f"--set {path}: there is no {keys[0][:-1]} {keys[1]!r}; {near(keys[1], named)}")
    value = read_plain(text)
    if value == {}:
        raise DeclarationError(
            f"--set {setting}: an empty mapping changes nothing; set what is in it, {path}.KEY=VALUE"
        )
    return path, value


def _settable(path: str, content: Any) -> str:
    """The path, or the part of it that holds a list, which is set as a whole."""
    keys = path.split(".")
    parts = [".".join(keys[: at + 1]) for at in range(len(keys))]
    return next((part for part in parts if isinstance(_at(part, content), list)), path)


def _holds(content: Any, path: str, value: Any) -> bool:
    held = _at(path, content)
    return held is not _ABSENT and repr(merge(held, value)) == repr(held)  # unlike ==, nan is itself


def _is_set(path: str, paths: list[str]) -> bool:
    return any(path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.") for other in paths)

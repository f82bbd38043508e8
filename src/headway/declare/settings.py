"""Declare: settings, `PATH=VALUE`, merged after the scale and before the arms.

A setting that would change nothing, because an arm that is to be run overrides it or a name is misspelt, is an error:
silence would be taken for a result.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headway.declare.document import PARTS
from headway.declare.limits import DEEPEST, MOST_SETTINGS, MOST_SETTINGS_OF_ARMS, odd_character
from headway.declare.mapping import at_path, is_factor, merge, read_plain
from headway.errors import DeclarationError, near, shortened
from headway.words import listed

_FEW = 3
_ABSENT = object()
"""What stands where nothing does; null is a value."""


def with_settings(document: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """A plain document with settings merged in, one after the other.

    Raises:
        DeclarationError: for one that is no `PATH=VALUE`, names nothing, or is replaced by a later one.
    """
    given = tuple(settings)
    arms = document.get("arms")  # which a scale may have made something else; who reads them says so
    allowed = min(MOST_SETTINGS, MOST_SETTINGS_OF_ARMS // max(1, len(arms) if isinstance(arms, Mapping) else 1))
    if len(given) > allowed:
        raise DeclarationError(f"{len(given):,} settings were given, and {allowed} are allowed; write them into a file")
    parsed = [_parsed(setting, document) for setting in given]
    changed = dict(document)
    for path, value in parsed:
        changed = merge(changed, at_path(path, value))
    for path, value in parsed:
        # What is left out is null.
        if path.partition(".")[0] in PARTS and value is not None and _at(path, changed) is _ABSENT:
            raise DeclarationError(
                f"setting {path}: a later one replaces it, or the whole that it is a part of, such as training "
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
            if not _follows(override or {}, path, meant)
        ]
        if deaf:
            places = {arm: _settable(path, arms[arm]) for arm in deaf}
            instead = _of_arms(places)
            who = f"arm {deaf[0]} sets it itself" if len(deaf) == 1 else f"arms {', '.join(deaf)} set it themselves"
            raise DeclarationError(
                f"setting {path}: {who}, or what holds it, so this would change nothing there; set {instead} too"
            )


def _of_arms(places: Mapping[str, str]) -> str:
    """Settings of arms, by name with the key; of many with one key, as one."""
    if len(places) > _FEW and len(set(places.values())) == 1:
        return f"arms.ARM.{next(iter(places.values()))}=... of each of them"
    return listed(f"arms.{arm}.{place}=..." for arm, place in places.items())


def _follows(override: Mapping[str, Any], path: str, value: Any) -> bool:
    """Whether an arm has a multiple of what is set, or starts from another arm and is not trained, as it says."""
    untrained = path == "training.steps" and "start" in override and _at(path, override) == 0
    return untrained or is_factor(value, _at(path, override))


def meant_for(settings: Iterable[str], arms: Mapping[str, Any], message: str) -> list[str]:
    """A sentence for each setting that an error speaks of and that arms have of their own.

    Args:
        settings: as given, `PATH=VALUE`.
        arms: by name, with what they override.
        message: the error's.
    """
    sentences = []
    for path in (setting.partition("=")[0] for setting in settings):
        keys = path.split(".")
        parts = [".".join(keys[: n + 1]) for n in range(1, len(keys))]
        own = {arm: part for arm in arms for part in parts if _of_its_own(part, path, arms[arm])}
        if own and any(f"{part}: " in message for part in parts):
            places = listed(f"arms.{arm}.{place}=..." for arm, place in own.items())
            sentences.append(f"what {listed(own)} has instead of it is set by {places}")
    return sentences


def _of_its_own(part: str, path: str, override: Any) -> bool:
    held = _at(part, override)
    return isinstance(held, list) or (part == path and held is not _ABSENT)


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
        ['setting training.steps does not reach control adam, which has 600; set controls.adam.training.steps=... too']
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
                yield f"setting {path} does not reach control {name}, which {has}; set controls.{name}.{path}=... too"


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
        raise DeclarationError(f"setting {shortened(setting)}: write it as PATH=VALUE, such as training.steps=2000")
    if keys[0] in ("name", "scale", "scales"):
        raise DeclarationError(f"setting {path}: cannot be set; copy the file with `headway show` and change it there")
    named = document.get(keys[0])
    if keys[0] in ("arms", "controls", "groups") and isinstance(named, Mapping) and keys[1:] and keys[1] not in named:
        raise DeclarationError(f"setting {path}: there is no {keys[0][:-1]} {keys[1]!r}; {near(keys[1], named)}")
    if len(keys) > DEEPEST:
        raise DeclarationError(
            f"setting {shortened(path)}: a path of {len(keys):,} keys leads nowhere; give a shorter one"
        )
    value = read_plain(text)
    if found := odd_character(value) if isinstance(value, str) else None:
        raise DeclarationError(
            f"setting {path}: the text holds the character {found}, which cannot be shown; leave it out"
        )
    if value == {}:
        raise DeclarationError(
            f"setting {setting}: an empty mapping changes nothing; set what is in it, {path}.KEY=VALUE"
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

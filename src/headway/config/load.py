"""Loading an experiment: from its file to the runs that answer its question.

The parts are resolved in this order: the file; the scale, merged deeply; the settings of the command line; each arm
over that; each control over its arm. The result is frozen, and every run is known before one starts.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.identity import without
from headway.config import plugins as plugin_files
from headway.config.arms import Arm, check_kept
from headway.config.document import RUN_SECTIONS, Document, all_seeds, label_of, meant_for, starts_of, with_settings
from headway.config.experiment import Experiment
from headway.config.kinds import parse_run
from headway.config.lm.run import impossible_init, pointless_init
from headway.config.own_program import with_hashes
from headway.config.plugins import Plugin
from headway.config.run import RunSpec, effective
from headway.config.spec import Locate, check_arms, count_values, parse, renamed
from headway.config.yaml import CHOOSERS, leaves, merge, read_file, shipped
from headway.errors import DeclarationError, near, shortened


def load(
    name_or_path: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    settings: str | Iterable[str] = (),
    plugins: str | Path | Iterable[str | Path] = (),
) -> Experiment:
    """Read and resolve an experiment.

    Args:
        name_or_path: the name of an experiment that comes with Headway, a YAML file, or the content of such a file as a
            mapping.
        scale: the scale of the experiment; `laptop` by default, if it has one.
        settings: the settings, `PATH=VALUE` texts (or a single one), merged after the scale and before the arms.
            Headway checks whether an arm overrides a setting when arms are selected or run.
        plugins: the user's code beside the experiment's `plugins`: paths of files, from the working directory, or names
            that packages offer. Headway runs this code.

    Raises:
        DeclarationError: if the experiment is invalid, with a line for each finding.

    Examples:
        >>> load("icl-heads").baseline
        'h2'
    """
    added = list(map(str, (plugins,) if isinstance(plugins, str | Path) else plugins))
    if isinstance(name_or_path, Mapping):
        return resolve(name_or_path, scale=scale, settings=settings, plugins=added)
    if not isinstance(name_or_path, str | Path):
        raise DeclarationError(
            f"an experiment is given by its name or path, or as a mapping, and {name_or_path!r} is neither"
        )
    path = shipped().get(str(name_or_path), Path(name_or_path))
    # The reader reports a folder, or a path that is not a file; unlike `Path.exists` this takes any text.
    if not os.path.exists(path) or (path.is_dir() and len(path.parts) < 2):
        if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
            raise DeclarationError(
                f"{shortened(str(path))}: there is no such file; `headway list` names the experiments"
            )
        raise DeclarationError(
            f"there is no experiment {shortened(repr(str(name_or_path)))}; {near(str(name_or_path), shipped())} "
            "(a file of your own is given by its path, such as ./mine.yaml)"
        )
    content, folder = _content(path), path.parent
    return resolve(content, scale=scale, settings=settings, source=path.name, folder=folder, plugins=added)


REMOVED_KEYS = {
    "prior": "leave it out: it did not narrow intervals reliably; add seeds (`headway run --until 1%`)",
    "verdicts": "leave it out: all differences of a question are judged together",
}
"""Keys of former versions, with what to do instead; a stored document may have them."""


def read_resolved(path: Path) -> Experiment:
    """Read an `experiment.yaml` that Headway wrote into a results directory.

    Raises:
        DeclarationError: when it is not one, or is of code that nobody asked to run here.
    """
    content = _content(path)
    removed = tuple(key for key in REMOVED_KEYS if content.pop(key, None))
    locate = _locate_in(path.name)
    document = parse(Document, renamed(content), locate)
    plugins = plugin_files.load_kept(path.parent) if document.plugins else ()
    return replace(_assemble(document, locate, plugins), removed_keys=removed)


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a document's file, without the notes that Headway adds in a results directory."""
    return without(read_file(path), "headway")


def resolve(
    content: Mapping[str, Any],
    *,
    scale: str | None = None,
    settings: str | Iterable[str] = (),
    source: str = "",
    folder: Path = Path(),
    plugins: Iterable[str] = (),
) -> Experiment:
    """Resolve the content of an experiment's file; see `load`. Paths of plugins that it names begin in a folder.

    Raises:
        DeclarationError: if the experiment is invalid.
    """
    given = (settings,) if isinstance(settings, str) else tuple(settings)
    locate = _locate_in(source, given)
    _refuse_removed(content, locate)
    document = parse(Document, content, locate)
    scales = _scales_of(document)
    if scale is not None and scale not in scales:
        advice = near(scale, scales) if scales else "it has one size, so leave the scale out"
        raise DeclarationError(f"{document.name} has no scale {scale!r}; {advice}")
    chosen = scale or ("laptop" if "laptop" in scales else None)
    plain = without(content, "scales")
    if chosen:
        plain = merge(plain, {**scales[chosen], "scale": chosen})
    plain, code = with_hashes(with_settings(plain, given), folder)
    _refuse_removed(plain, locate)
    resolved = parse(Document, plain, locate)
    named = [plugin_files.load(each, folder) for each in resolved.plugins]
    loaded = tuple(dict.fromkeys([*named, *map(plugin_files.load, plugins)]))
    if loaded:
        resolved = resolved.model_copy(update={"plugins": tuple(plugin.written for plugin in loaded)})
    try:
        experiment = replace(_assemble(resolved, locate, loaded), settings=given, code=code)
        _check_starts(experiment.arms, locate)
        _check_folders(resolved, locate)
        for arm in experiment.arms:
            arm.resolved_spec.task.check_files(folder)
        return experiment
    except DeclarationError as error:  # perhaps caused by a setting meant for an arm's own value
        raise DeclarationError("\n".join([str(error), *meant_for(given, resolved.arms, str(error))])) from None


def _refuse_removed(content: Mapping[str, Any], locate: Locate) -> None:
    for key, advice in REMOVED_KEYS.items():
        if key in content:
            raise DeclarationError(f"{locate(key)}: there is no such key any more; {advice}")


QUICK = "quick"
_QUICK_TOKENS, _QUICK_STEPS, _QUICK_SEQUENCES, _QUICK_EVERY = 150_000, 160, 100, 25


def _scales_of(document: Document) -> dict[str, Mapping[str, Any]]:
    """Return the scales of a document; an experiment on text with a laptop scale has a quick one too.

    The quick scale is the laptop scale with a short training. It is long enough for the steps at which arms start.
    """
    scales: dict[str, Mapping[str, Any]] = dict(document.scales)
    laptop = scales.get("laptop")
    if laptop is None or QUICK in scales or "corpus" not in {**document.task, **laptop.get("task", {})}:
        return scales
    starts = [(arm or {}).get("init_from") or {} for arm in document.arms.values()]
    first_steps = [start["step"] for start in starts if isinstance(start.get("step"), int)]
    by_tokens = "tokens" in laptop.get("training", {})
    # A multiple of 4, since arms train for quarters of it.
    after_starts = 4 * (max(first_steps, default=0) // 4 + 1)
    length = {"tokens": _QUICK_TOKENS} if by_tokens else {"steps": max(_QUICK_STEPS, after_starts)}
    short = {"training": length, "evaluation": {"every": _QUICK_EVERY, "sequences": _QUICK_SEQUENCES}}
    return {**scales, QUICK: merge(laptop, short)}


def _locate_in(source: str, settings: Sequence[str] = ()) -> Locate:
    """Return a function that names a path by the file that has it, or by the setting."""
    changed = {setting.partition("=")[0] for setting in settings}

    def locate(path: str) -> str:
        if path in changed:
            return f"--set {path}"
        return ": ".join(filter(None, (source, path)))

    return locate


def _assemble(document: Document, locate: Locate, plugins: tuple[Plugin, ...]) -> Experiment:
    # An empty mapping is a part that the file does not mention; null is an answer.
    shared = {part: getattr(document, part) for part in RUN_SECTIONS if getattr(document, part) != {}}
    if digests := sorted(plugin.digest for plugin in plugins if plugin.changes_results):
        shared["plugins"] = digests
    group_of = {arm: group for group, members in reversed(document.groups.items()) for arm in members.arms}
    common = count_values(shared) + count_values(document.controls) // max(1, len(document.controls))
    check_arms(len(document.arms), len(document.controls), (common + count_values(a) for a in document.arms.values()))
    made: dict[tuple[str, str | None], Arm] = {}
    for name, parent in starts_of(document.arms).items():
        for control in (None, *document.controls):
            arm = _arm(document, shared, locate, name, control, made, parent)
            made[name, control] = replace(arm, group=group_of.get(name))
    arms = tuple(made[name, control] for name in document.arms for control in (None, *document.controls))
    _check_labels(arms, locate)
    _check_measured(arms, plugins)
    plain = tuple(arm for arm in arms if arm.control is None)
    check_kept(document.logging.weights, plain)
    return Experiment(document=document, arms=arms, selected=plain, seeds=all_seeds(document.seeds), plugins=plugins)


def _check_labels(arms: Sequence[Arm], locate: Locate) -> None:
    labels = Counter(arm.label for arm in arms if arm.control is None)
    if twice := [label for label, count in labels.items() if count > 1]:
        raise DeclarationError(
            f"{locate('arms')}: two arms have the label {shortened(repr(twice[0]))}, which a figure could not "
            "distinguish"
        )


def _check_folders(document: Document, locate: Locate) -> None:
    """Raise an error if two names share a folder where file names ignore case.

    A directory that already has such runs is still read.

    Raises:
        DeclarationError: naming two that do.
    """
    for part in ("arms", "controls", "scales"):
        first: dict[str, str] = {}
        for name in getattr(document, part):
            if (other := first.setdefault(name.lower(), name)) != name:
                raise DeclarationError(
                    f"{locate(f'{part}.{name}')}: {part} {other} and {name} differ only in capital letters, "
                    "and share a folder on file systems that ignore case; rename one of them"
                )


def _check_starts(arms: Sequence[Arm], locate: Locate) -> None:
    for arm in arms:
        if arm.parent is not None:
            ancestors = [other.resolved_spec for other in arm.ancestors]
            if why_not := pointless_init(arm.resolved_spec, ancestors, arm.parent.full_name):
                raise DeclarationError(f"{locate(f'arms.{arm.name}.init_from')}: {why_not}")


def _check_measured(arms: Sequence[Arm], plugins: Sequence[Plugin]) -> None:
    named = [entry.name for plugin in plugins for entry in plugin.entries if entry.kind == "run metric"]
    if named and (deaf := [arm.name for arm in arms if not arm.resolved_spec.traits.measures_user_metrics]):
        raise DeclarationError(
            f"plugins: run metric {named[0]} needs transformers on tokens, and arm {deaf[0]} is none; leave its "
            "plugin out"
        )


def _arm(
    document: Document,
    shared: Mapping[str, Any],
    locate: Locate,
    name: str,
    control: str | None,
    made: Mapping[tuple[str, str | None], Arm],
    starts_from: str | None,
) -> Arm:
    """Return an arm without a control or under one; the arms that it starts from have to be made before."""
    override = dict(document.arms[name] or {})
    label = label_of(override, name)
    override.pop("label", None)
    over = without(document.controls[control], "label") if control else {}
    locate = _locator(locate, name, (f"controls.{control}.", over), (f"arms.{name}.", override), ("", shared))
    content, parent = {**merge(merge(shared, override), over), "seed": 0}, None
    if starts_from is not None:
        # The parent has the same control, unless the control changes nothing there and is not run.
        parent = made[starts_from, control]
        parent = made[starts_from, None] if parent.is_no_op else parent
        if not parent.resolved_spec.traits.initialises_others:
            raise DeclarationError(
                f"{locate('init_from')}: only a transformer on tokens can start from another; leave it out"
            )
        content["init_from"] = {**without(content["init_from"], "arm"), "run": parent.resolved_spec.id}
    spec = parse_run(content, locate)
    if parent is not None and (why_not := impossible_init(spec, parent.resolved_spec, parent.full_name)):
        raise DeclarationError(f"{locate('init_from')}: {why_not}")
    alone = spec if control is None else made[name, None].resolved_spec
    label = _label(label, alone, locate)
    return Arm(
        name=name,
        control=control,
        group=None,
        label=f"{label}, {document.control_label(control)}" if control else label,
        resolved_spec=spec,
        is_no_op=control is not None and effective(spec) == effective(alone),
        parent=parent,
    )


_PLACE = re.compile(r"\{([a-z_][\w.]*)\}")


def _label(text: str, spec: RunSpec, locate: Locate) -> str:
    """Return a label whose {parameters}, {heads} and {model.d_model} are those of the run, as `5.5M` or `8-4-2-1`."""
    values = leaves(spec.content())

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "parameters":
            return _magnitude(spec.budget.n_parameters)
        if name == "heads":
            return spec.heads_summary
        if name not in values:
            raise DeclarationError(
                f"{locate('label')}: {shortened(found[0])} is not a value of the run; give {{parameters}}, "
                f"{{heads}} or a key such as {{model.d_model}}; {near(name, ('parameters', 'heads', *values))}"
            )
        return str(values[name])

    return _PLACE.sub(value, text)


def _magnitude(number: int) -> str:
    """Return a count as names of models have it.

    Examples:
        >>> _magnitude(912), _magnitude(168_032), _magnitude(5_467_680), _magnitude(27_179_136)
        ('912', '168K', '5.5M', '27M')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if number >= size:
            share = number / size
            return f"{share:.1f}{letter}" if share < 9.95 else f"{share:.0f}{letter}"
    return str(number)


def _locator(of_document: Locate, arm: str, *places: tuple[str, Mapping[str, Any]]) -> Locate:
    """Return a function that names a path by the place that set it: the control, the arm, or the common part."""

    def locate(path: str) -> str:
        for place, (where, content) in enumerate(places):
            if path and any(leaf == path or leaf.startswith(f"{path}.") for leaf in leaves(content)):
                return of_document(f"{where}{path}")
            if chooser := _replaced(path, content, [below for _, below in places[place + 1 :]]):
                part, _, key = chooser.rpartition(".")
                return of_document(f"{where}{path} (with another {key}, nothing of {part} is taken over)")
        return of_document(f"arm {arm}: {path}" if path else f"arm {arm}")

    return locate


def _replaced(path: str, content: Mapping[str, Any], below: Sequence[Mapping[str, Any]]) -> str:
    """Return the key by which a place replaces a whole mapping around a path; else empty."""
    part = path.partition(".")[0]
    own, others = content.get(part), [each[part] for each in below if isinstance(each.get(part), Mapping)]
    if path == part or not isinstance(own, Mapping):
        return ""
    return next(
        (f"{part}.{key}" for key in CHOOSERS if key in own and any(own[key] != o.get(key, own[key]) for o in others)),
        "",
    )

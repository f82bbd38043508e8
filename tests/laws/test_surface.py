"""The frozen surface: verbs, options and public names change only when somebody says so.

What stands in `command_line.txt` and `public_names.txt` is what users' scripts may rely on. What is added is written
there in the same commit; what is removed breaks somebody, and wants a reason.
"""

import dataclasses
import inspect
import runpy
from importlib import import_module
from pathlib import Path

import typer

import headway
from headway.cli.options import app

HERE = Path(__file__).parent
DOCUMENTED = runpy.run_path(str(HERE.parents[1] / "docs" / "reference.py"))["public"]()
"""The modules that the rendered reference shows, and which of their names."""


def test_verbs_and_options_are_those_that_are_written_down():
    compare("command_line.txt", command_line())


def test_public_names_are_those_that_are_written_down():
    compare("public_names.txt", public_names())


def compare(file: str, found: list[str]) -> None:
    written = (HERE / file).read_text(encoding="utf-8").splitlines()
    assert len(found) == len(set(found))
    added, removed = [line for line in found if line not in written], [line for line in written if line not in found]
    differences = "\n".join([*(f"added:   {line}" for line in added), *(f"removed: {line}" for line in removed)])
    assert not differences, f"{differences}\ntests/laws/{file} holds what was there; change it if this is meant"
    assert written == sorted(written)


def command_line() -> list[str]:
    """A line for each verb, argument and option, such as `run --seeds`."""
    door = typer.main.get_command(app)
    lines = [f"headway {form}" for parameter in door.params for form in parameter.opts]
    verbs = dict(door.commands)
    for verb, command in door.commands.items():
        verbs |= {f"{verb} {inner}": value for inner, value in getattr(command, "commands", {}).items()}
    for verb, command in verbs.items():
        lines.append(verb)
        for parameter in command.params:
            names = [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
            forms = "|".join([*names, *parameter.secondary_opts])
            is_option = parameter.param_type_name == "option"
            remarks = ["required"] * (is_option and parameter.required)
            remarks += ["repeatable"] * (is_option and parameter.multiple)
            lines.append(" ".join([verb, forms, *remarks]))
    return sorted(lines)


def public_names() -> list[str]:
    """A line for each public function with its parameters, and for each type that they return with its members."""
    lines = [f"headway.{name}" for name in headway.__all__ if not callable(getattr(headway, name))]
    whole = [name for name, shown in DOCUMENTED.items() if shown is None]
    for name in [*whole, "headway.hf", *(f"headway.icl.{name}" for name in headway.icl.__all__)]:
        for member, value in public(import_module(name)):
            lines.append(f"{name}.{member}{parameters(value)}")
    for each in [getattr(import_module(name), one) for name, shown in DOCUMENTED.items() for one in shown or ()]:
        lines.append(each.__name__)
        fields = {field.name for field in dataclasses.fields(each)} if dataclasses.is_dataclass(each) else set()
        lines += [f"{each.__name__}.{field}" for field in fields if not field.startswith("_")]
        bases = [base for base in reversed(each.__mro__) if base is each or dataclasses.is_dataclass(base)]
        for member, value in {name: value for base in bases for name, value in vars(base).items()}.items():
            if not member.startswith("_") and member not in fields:
                function = value.__func__ if isinstance(value, classmethod) else value
                lines.append(f"{each.__name__}.{member}{parameters(function)}")
    return sorted(lines)


def public(module):
    """The functions and classes that a module offers: those it lists, or those it defines."""
    listed = getattr(module, "__all__", None)
    for name in listed or vars(module):
        value = getattr(module, name)
        own = listed is not None or getattr(value, "__module__", None) == module.__name__
        if own and not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value)):
            yield name, value


def parameters(value) -> str:
    """The names of a function's parameters as they may be given, `*` before those that have to be named."""
    if not inspect.isfunction(value):
        return ""
    words, named = [], False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            words, named = [*words, "*"], True
        words.append(parameter.name + ("" if parameter.default is parameter.empty else "="))
    return f"({', '.join(words)})"

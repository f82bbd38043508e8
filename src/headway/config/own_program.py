"""Training commands of the user's own as a laboratory: what a run is, and the files that it is made of.

A run is a command with its values and its seed, and the hashes of the files that it starts. A results directory keeps
these files by their hashes, and each run has copies in a folder of its own, where the command works. A directory that
somebody else made runs no command until the user allows it.
"""

import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveFloat

from headway.base.files import Content, folder_in, inside, is_bare, read_bytes, write_bytes
from headway.base.text import listed
from headway.config.metrics import METRICS, Better, Metric
from headway.config.plugins import allow_command, is_allowed_command
from headway.config.run import Budget, Comparability, RunSpec, Task, Traits
from headway.config.spec import Spec, whole
from headway.errors import DeclarationError, ResultsError, near, shortened

FOLDER = "code"
"""The folder of a results directory that keeps the files of commands."""
KEPT_NAME = re.compile(r"\..*|[0-9a-f]{16}-.*", re.DOTALL)
"""The name of a file in that folder."""
LARGEST = 1 << 26
_SHORT = 16
_PLACE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_.-]*)\}")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
"""Quoted text and escaped characters in a command for a shell; a value's own quotes would end there."""
_METRIC = re.compile(r"\w[\w./@%,+ -]*")

Value = bool | int | float | str


def text_of(value: Value) -> str:
    """Return a value as a command reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class CommandTask(Task):
    """A training command, and how Headway reads its metrics."""

    n_ctx: ClassVar[None] = None
    kind: Literal["command"]
    run: str
    """the command; Headway fills in `{seed}`, `{run}` (the run's folder) and each `{NAME}` of `values` as arguments"""
    files: dict[str, str] = Field({}, json_schema_extra={"type": ["array", "object"], "items": {"type": "string"}})
    """the files that the command needs, as paths relative to the experiment's file. Each run works on copies of these
    files, and the run's id depends on their hashes"""
    records: str = ""
    r"""where the metrics are. A file such as metrics.jsonl: JSON lines that the command writes. A regular expression
    with named groups: lines of the output, such as `step (?P<step>\d+) loss (?P<loss>\S+)`. Empty: lines of JSON, or
    `metric: value`, in the output"""
    metric: str
    """name of the metric by which arms are compared, as in the records"""
    better: Better = "lower"
    """whether a lower or a higher value of the metric is better"""
    timeout: PositiveFloat | None = None
    """seconds without output or records after which a run counts as failed; null: no limit"""
    shell: bool = False
    """whether a shell runs the command; Headway quotes the values"""

    @property
    def primary(self) -> str:  # type: ignore[override]
        """The metric by which arms are compared."""
        return self.metric

    @property
    def title(self) -> str:
        """The program, as sentences name it."""
        return shortened(_PLACE.split(self.run)[0].partition(" -")[0].strip())

    @property
    def places(self) -> set[str]:
        """The names in braces that the command has."""
        return set(_PLACE.findall(self.run))

    @property
    def is_pattern(self) -> bool:
        """True if `records` is a regular expression, and not a file."""
        return "(?P<" in self.records

    @whole
    def _check_whole(self) -> None:
        self._check_run()
        self._check_records()
        for name, digest in self.files.items():
            _check_name(name)
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise ValueError(
                    f"files.{name}: {shortened(repr(digest))} is no SHA-256; give files as a list of paths"
                )
        _declare(self.metric, self.better)

    def _check_run(self) -> None:
        try:
            words = shlex.split(self.run)
        except ValueError as error:
            raise ValueError(f"run cannot be split into words ({error}); close the quotes") from None
        if not words:
            raise ValueError(
                "run is empty; give the command as a shell takes it, such as python train.py --seed {seed}"
            )
        if self.shell and any(map(_PLACE.search, _QUOTED.findall(self.run))):
            raise ValueError("run has quotes around a name in braces; leave them out: Headway quotes values")
        if "seed" not in self.places:
            raise ValueError(
                "run has no {seed}, so all seeds would give one run; put {seed} where the command takes its random seed"
            )

    def _check_records(self) -> None:
        if not self.is_pattern:
            if self.records:
                _check_name(self.records, "records ")
            return
        try:
            groups = re.compile(self.records).groupindex
        except re.error as error:
            raise ValueError(f"records is not a regular expression ({error}); correct it") from None
        if not self.metric.isidentifier():
            raise ValueError(f"metric {self.metric}: a group of records has no such name; give one such as val_loss")
        if self.metric not in groups:
            raise ValueError(f"records has no group (?P<{self.metric}>...) for the metric; add it")

    def words(self, values: Mapping[str, str]) -> list[str]:
        """Return the program and its arguments.

        Args:
            values: the text of each name in braces.
        """
        if self.shell:
            return ["/bin/sh", "-c", _PLACE.sub(lambda found: shlex.quote(values[found[1]]), self.run)]
        return [_PLACE.sub(lambda found: values[found[1]], word) for word in shlex.split(self.run)]

    def check_files(self, folder: Path) -> None:
        """Raise DeclarationError if the command names a file beside the experiment's that is not listed.

        Raises:
            DeclarationError: naming the file.
        """
        words = [] if self.shell else [str(PurePosixPath(word)) for word in shlex.split(self.run)]
        missing = [w for w in words if w not in self.files and not Path(w).is_absolute() and (folder / w).is_file()]
        if missing:
            raise DeclarationError(
                f"task.files: task.run names {listed(missing)}, but each run works only on copies of task.files; "
                f"add {listed(missing)} there"
            )


def _declare(name: str, better: Better) -> None:
    """Make a metric known to the tables and sentences of this process.

    Raises:
        ValueError: if Headway has a metric of that name which says something else.
    """
    known = METRICS.get(name)
    if not _METRIC.fullmatch(name):
        raise ValueError(
            f"metric {shortened(repr(name))} is not a name; give the name that the records have, of letters, "
            "digits, spaces and _ . / @ % , + -"
        )
    if known is None or known.sentence == name:
        METRICS[name] = Metric(name=name, sentence=name, unit="1", better=better, primary=True)
    elif not known.primary:
        raise ValueError(f"metric {name} is one of Headway's counts ({known.sentence}); record it under another name")
    elif known.better != better:
        raise ValueError(f"better: for {name}, {known.better} is better; give that, or record it under another name")


def _is_below(name: str) -> bool:
    """Return whether a path leads to something below the folder in which it begins."""
    return all(map(is_bare, name.split("/")))


def _check_name(name: str, what: str = "") -> None:
    if not _is_below(name):
        raise ValueError(f"{what}{shortened(repr(name))} is not a path below the folder; give one such as model/net.py")


class NoSettings(Spec):
    """A part of a run that a command keeps to itself."""


class CommandRun(RunSpec):
    """A run of a command."""

    traits: ClassVar[Traits] = Traits(laboratory="command", example="run", uses_gpu=True)

    task: CommandTask
    values: dict[str, Value] = Field({})
    """values for the names in braces in the command"""
    model: NoSettings = NoSettings()
    training: NoSettings = NoSettings()

    @whole
    def _check_whole(self) -> None:
        own = {"seed", "run"}
        for name in self.values:
            if name in own:
                raise ValueError(f"values.{name}: Headway fills in {{{name}}}; leave it out")
            if name not in self.task.places:
                raise ValueError(f"values.{name}: task.run has no {{{name}}}; put it there, or leave the value out")
        for name in sorted(self.task.places - own - self.values.keys()):
            raise ValueError(f"task.run: {{{name}}} has no value; {near(name, [*own, *self.values])}")

    @property
    def budget(self) -> Budget:
        """An empty budget: the cost is not known beforehand."""
        return Budget(
            parameters={},
            flops_per_example=0,
            tokens_per_example=1,
            state_bytes=0,
            example_bytes=1,
            batch_size=1,
            steps=1,
        )

    @property
    def declared_steps(self) -> int:
        """A command is one step: what it does in between is its own."""
        return 1

    @property
    def comparability(self) -> Comparability:
        """Runs are compared by their metric, whatever their commands."""
        return Comparability(task=self.task.model_copy(update={"run": "", "files": {}, "records": "", "timeout": None}))

    @property
    def command(self) -> str:
        """The command line, with the place of the run's folder left open."""
        return shlex.join(self.words("{run}")).replace("'{run}'", "{run}")

    def check_trusted(self, directory: Path, *, trust_code: bool) -> None:
        """Raise ResultsError if a directory would run a command that the user has not typed.

        Raises:
            ResultsError: naming the command.
        """
        task = self.task
        command = (task.run, dict(task.files), task.shell, dict(self.values))
        if trust_code:
            allow_command(*command)
        if not is_allowed_command(*command):
            raise ResultsError(
                f"{directory} would run {shortened(repr(self.command))}, which you have not run here yet; read it and "
                f"the files in {directory / FOLDER}, and allow it with --trust-code"
            )

    def words(self, folder: Path | str) -> list[str]:
        """Return the program and its arguments, for a folder that the command works in."""
        given = {name: text_of(value) for name, value in self.values.items()}
        return self.task.words({**given, "seed": str(self.seed), "run": str(folder)})


def with_hashes(document: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a plain document with the hashes of the files that commands start, and the files by their kept names.

    Raises:
        DeclarationError: if a file is missing, is too large, or lies outside of the folder.
    """
    kept: dict[str, bytes] = {}

    def hashed(part: Any, where: str) -> Any:
        task: Any = part.get("task") if isinstance(part, Mapping) else None
        files = task.get("files") if isinstance(task, Mapping) else None
        if isinstance(files, str):
            raise DeclarationError(f"{where}task.files: {files!r} was given; give a list, such as [train.py]")
        if not isinstance(files, list | tuple):
            return part
        return {**part, "task": {**task, "files": dict(_read(files, folder, f"{where}task.files", kept))}}

    changed = dict(hashed(document, ""))
    for place in ("arms", "controls"):
        if isinstance(document.get(place), Mapping):
            changed[place] = {name: hashed(part, f"{place}.{name}.") for name, part in document[place].items()}
    return changed, kept


def _read(names: Any, folder: Path, where: str, kept: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    for given in names:
        name = str(PurePosixPath(given)) if isinstance(given, str) else given  # ./train.py is train.py
        path = folder / str(name)
        if not isinstance(name, str) or not _is_below(name):
            raise DeclarationError(f"{where}: {shortened(repr(name))} is not a path below the folder of this file")
        if not path.is_file():
            what = (
                "is a folder: list the files in it" if path.is_dir() else "is not there; give a path beside this file"
            )
            raise DeclarationError(f"{where}: {name} {what} ({path.absolute()})")
        if path.stat().st_size > LARGEST:
            raise DeclarationError(
                f"{where}: {name} has more than {LARGEST >> 20} MB; give its absolute path to the command as a value"
            )
        content = read_bytes(path, links=True)
        digest = Content.of(content).sha256
        kept[kept_name(name, digest)] = content
        yield name, digest


def kept_name(name: str, digest: str) -> str:
    """Return the name under which a results directory keeps a file."""
    return f"{digest[:_SHORT]}-{PurePosixPath(name).name}"


def is_kept(file: Path) -> bool:
    """Return whether a results directory has a file whose content has the hash in its name."""
    try:
        return file.name.startswith(Content.of(read_bytes(file)).sha256[:_SHORT])
    except OSError:
        return False


def keep(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of commands that a results directory lacks.

    Raises:
        OSError: when one cannot be written.
    """
    if files:
        folder = folder_in(directory, FOLDER)
        for name, content in files.items():
            if not is_kept(folder / name):
                write_bytes(folder / name, content)


def copy_to(work: Path, directory: Path, files: Mapping[str, str]) -> None:
    """Copy the files that a results directory keeps to the folder that a command works in.

    Raises:
        ResultsError: if one is missing, or is not what it was.
    """
    for name, digest in files.items():
        kept = inside(directory, FOLDER, kept_name(name, digest))
        try:
            content = read_bytes(kept)
        except FileNotFoundError:
            raise ResultsError(f"{kept} is missing; put it back, or run the experiment's file again") from None
        if Content.of(content).sha256 != digest:
            raise ResultsError(f"{kept} is not the file that its runs are made of; put that back")
        *folders, last = name.split("/")
        copy = inside(folder_in(work, *folders) if folders else work, last)
        write_bytes(copy, content)
        copy.chmod(copy.stat().st_mode | stat.S_IXUSR)  # a script may be the program

"""The record of a gate, one directory: its settings, its challengers, every run and every verdict.

    journal.jsonl   a line for each of them, never changed afterwards
    seal.json       the number of lines, and the digest of the last one
    logs/           the output of each run

Each line has a digest, and holds the digest of the line before. A line is added by replacing the file as a whole, then
the seal: a process that is killed in between leaves a seal that is behind. Other differences are damage, and nothing is
decided on a damaged record.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from headway.base import files
from headway.base.identity import DIGEST, is_as_signed, signed, without
from headway.base.identity import canonical as one_line
from headway.errors import ResultsError
from headway.gate.command import Candidate
from headway.store.lease import Lease

JOURNAL, SEAL, LOGS, LEASE = "journal.jsonl", "seal.json", "logs", ".lease"
SCHEMA = 1

MOST_PAIRS = 1_000

CHAMPION, CHALLENGER = "champion", "challenger"


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """The settings by which a gate decides; they never change.

    Attributes:
        metric: the name of the metric.
        margin: the improvement that matters.
        is_percent: True if the margin is in per cent of the champion's mean.
        budget: the pairs of runs of a challenger.
        rate: the chance that any useless change is ever kept.
        challengers: the number of challengers that are planned.
        lower_is_better: True if a smaller metric is better.
        first_seed: the first random seed.
    """

    metric: str
    margin: float
    is_percent: bool
    budget: Annotated[int, Field(ge=2, le=MOST_PAIRS)]
    rate: Annotated[float, Field(gt=0, lt=0.5)]
    challengers: Annotated[int, Field(ge=1)]
    lower_is_better: bool
    first_seed: int


@dataclass(kw_only=True)
class Attempt:
    """A challenger and its runs so far.

    Attributes:
        number: the number of the challenger, from 1.
        candidate: the challenger.
        champion: the champion that it is compared with.
        seeds: the seed of each pair of runs, in their order.
        challenger_first: True if the first pair begins with the challenger's run.
        values: the metric of each run, by its role and seed.
        verdict: the content of the verdict; None while the challenger is undecided.
    """

    number: int
    candidate: Candidate
    champion: Candidate
    seeds: list[int]
    challenger_first: bool
    values: dict[tuple[str, int], float] = field(default_factory=dict)
    verdict: dict[str, Any] | None = None

    def values_of(self, role: str) -> list[float]:
        """Return the metric of the champion's or the challenger's runs, of all pairs that are whole."""
        whole = [seed for seed in self.seeds if all((each, seed) in self.values for each in (CHAMPION, CHALLENGER))]
        return [self.values[role, seed] for seed in whole]


class Journal:
    """The record of a gate, opened by the one process that holds its lease."""

    def __init__(self, directory: Path, lines: list[dict[str, Any]], lease: Lease | None = None):
        self.directory, self._lines, self._lease = directory, lines, lease
        self.settings = TypeAdapter(GateSettings).validate_python(lines[0]["settings"])
        self.champion = TypeAdapter(Candidate).validate_python(lines[0]["champion"])
        self.attempts: list[Attempt] = []
        for line in lines[1:]:
            self._take(line)

    @classmethod
    def create(cls, directory: Path, settings: GateSettings, champion: Candidate) -> "Journal":
        """Begin the record of a gate.

        Raises:
            ResultsError: if the directory holds anything, or cannot be written.
        """
        others = [name for name in files.names_in(directory) if not name.startswith(".")]
        if JOURNAL in others:
            raise ResultsError(
                f"{directory} is a gate already; continue with `headway gate try {directory}`, or name a new directory"
            )
        if others:
            raise ResultsError(f"{directory} holds other things ({', '.join(others[:3])}); name a new directory")
        first = {"event": "gate", "schema": SCHEMA, "settings": asdict(settings), "champion": asdict(champion)}
        line = signed({**first, "before": ""})
        with files.derived(directory / JOURNAL):
            if not files.create_text(directory / JOURNAL, one_line(line) + "\n"):
                raise ResultsError(f"{directory}: another process has just begun a gate there; name a new directory")
        return cls(directory, [line])

    @classmethod
    def read(cls, directory: Path, lease: Lease | None = None) -> "Journal":
        """Read the record of a gate; only who holds its lease may add to it.

        Raises:
            ResultsError: if it cannot be read, or is damaged.
        """
        file = files.inside(directory, JOURNAL)
        try:
            content = files.read_bytes(file)
        except OSError as error:
            raise ResultsError(f"{file} cannot be read: {error.strerror}; check that you may read it") from None
        lines: list[dict[str, Any]] = []
        before = ""
        for number, text in enumerate(content.splitlines(), start=1):
            lines.append(_sound(text, before, f"{file}, line {number}"))
            before = lines[-1][DIGEST]
        if not lines or lines[0].get("schema") != SCHEMA:
            raise ResultsError(f"{file}: another version of Headway wrote it; use that one, or another directory")
        _check_seal(files.inside(directory, SEAL), [line[DIGEST] for line in lines])
        try:
            return cls(directory, lines, lease)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ResultsError(f"{file}: Headway did not write one of its lines; begin a new gate") from None

    @property
    def unfinished(self) -> Attempt | None:
        """The challenger that has no verdict yet."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].verdict is None else None

    @property
    def used_seeds(self) -> set[int]:
        """The seeds of all challengers so far."""
        return {seed for attempt in self.attempts for seed in attempt.seeds}

    def begin(self, candidate: Candidate, seeds: list[int], challenger_first: bool) -> Attempt:
        """Record a new challenger."""
        content = {"candidate": asdict(candidate), "seeds": seeds, "challenger_first": challenger_first}
        self.add({"event": "challenger", "number": len(self.attempts) + 1, **content})
        return self.attempts[-1]

    def add(self, *contents: Mapping[str, Any]) -> None:
        """Write lines to the record.

        Raises:
            ResultsError: if they cannot be written; the record is then as it was.
            LeaseLost: if the directory was removed, or another process took over.
        """
        if self._lease is not None:
            self._lease.check()
        lines = list(self._lines)
        for content in contents:
            lines.append(signed({**content, "before": lines[-1][DIGEST]}))
        text = "".join(one_line(line) + "\n" for line in lines)
        with files.derived(self.directory / JOURNAL):
            files.write_text(self.directory / JOURNAL, text)
            files.write_json(self.directory / SEAL, {"lines": len(lines), DIGEST: lines[-1][DIGEST]})
        for line in lines[len(self._lines) :]:
            self._take(line)
        self._lines = lines

    def _take(self, line: dict[str, Any]) -> None:
        """Read a line into the challengers."""
        event = line["event"]
        if event == "challenger":
            content = without(line, "event", "before", DIGEST)
            self.attempts.append(TypeAdapter(Attempt).validate_python({**content, "champion": self.champion}))
        elif event == "seeds":
            self.attempts[-1].seeds.extend(line["seeds"])
        elif event == "run":
            self.attempts[-1].values[line["role"], line["seed"]] = line["value"]
        elif event == "verdict":
            self.attempts[-1].verdict = line["verdict"]
            if line["verdict"]["verdict"] == "keep":
                self.champion = self.attempts[-1].candidate


def check_is_gate(directory: Path) -> None:
    """Raise ResultsError if a directory has no record of a gate.

    Raises:
        ResultsError: saying how to begin one.
    """
    if not files.inside(directory, JOURNAL).exists():
        raise ResultsError(
            f"{directory} is not a gate; begin one with `headway gate init {directory} --metric NAME --run COMMAND`"
        )


def _sound(text: bytes, before: str, place: str) -> dict[str, Any]:
    """Return the content of a line, if it is as it was written."""
    try:
        line = files.parsed(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or not is_as_signed(line) or line.get("before") != before:
        raise ResultsError(
            f"{place} was changed after Headway wrote it; restore the file from a copy, or begin a new gate"
        )
    return line


def _check_seal(file: Path, digests: list[str]) -> None:
    """Raise ResultsError if the seal is of another record, or lines were taken from its end."""
    seal = files.kept_json(file)
    if seal is None and len(digests) == 1:
        return
    n = seal.get("lines") if isinstance(seal, dict) else None
    if not isinstance(n, int) or not 1 <= n <= len(digests) or seal.get(DIGEST) != digests[n - 1]:
        raise ResultsError(
            f"{file} does not seal {JOURNAL} beside it: lines are missing or were added; put both back from a copy, or "
            "begin a new gate"
        )

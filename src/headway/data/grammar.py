"""A probabilistic grammar whose texts remember earlier choices, and Headway's own stories drawn from it.

A grammar is a set of rules. Each rule has a few options `weight template | kind gender`, separated by a line or a
semicolon; a line that does not begin with a weight continues the line before. A template is text with these parts:

    {rule}          an option of the rule, drawn by weight
    {rule=x}        the same, remembered as x
    {rule=x!}       remembered, and not written yet
    {rule@x}        an option of the rule `rule@KIND`, KIND being the kind of what x remembers
    {?rule}         an option with a space before it, or nothing where the option is `~`
    {$x} {$x.Cap}   what x remembers, again; with a capital letter
    {$x.kind}       its kind; {$x.they} {$x.them} {$x.their}: its pronouns; {$x.They} and so on: with a capital
    {br}            a new line

A derivation is a chain of independent draws, so its probability is their product. Where no text has two derivations,
that is the probability of the text. The entropy is exact as well: it is summed over the rules, and over remembered
choices as far as later draws depend on them (the kinds that some `@x` asks for).

The stories are short, in simple words, and introduced things come back: names and their pronouns, things and their
colors, where something was left, what was promised. Their rules stand in `stories.json`, in groups: words, the seven
plots, and the beginnings and ends that all plots share. No two options of a rule may give one text, whatever follows.
So no text has two derivations (the tests parse stories back), and the probability and the entropy of the stories are
known exactly.
"""

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from headway.base.identity import digest
from headway.errors import DeclarationError

PRONOUNS = {"she": ("she", "her", "her"), "he": ("he", "him", "his"), "it": ("it", "it", "its")}
"""The pronouns of each gender: subject, object, possessive."""
_CASES = ("they", "them", "their")
_LINE = re.compile(r"(?P<weight>\d+) (?P<template>.+?)(?: \| (?P<kind>\w+)(?: (?P<gender>she|he|it))?)?")
_NEXT = re.compile(r";\s+(?=\d+ )|\n\s*(?=\d+ )")
_PART = re.compile(r"\{([^{}]*)\}")
_CHOICE = re.compile(r"(?P<maybe>\??)(?P<rule>\w+)(?:@(?P<of>\w+))?(?:=(?P<name>\w+)(?P<silent>!?))?")
_SHOWN = re.compile(r"\$(?P<name>\w+)(?:\.(?P<form>\w+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """The text, kind and gender that a name remembers."""

    text: str
    kind: str
    gender: str

    def form(self, form: str | None) -> str:
        """Return the text in the form that a template asks for."""
        if form is None:
            return self.text
        words = {"cap": self.text, "kind": self.kind, **dict(zip(_CASES, PRONOUNS[self.gender], strict=True))}
        word = words[form.lower()]
        return word[0].upper() + word[1:] if form[0].isupper() else word


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A part of a template that draws."""

    rule: str
    of: str | None
    name: str | None
    silent: bool
    maybe: bool

    def rule_for(self, kind: str | None) -> str:
        """Return the rule to draw from, given the kind of what `of` remembers."""
        return f"{self.rule}@{kind}" if self.of else self.rule


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A part of a template that repeats a remembered text."""

    name: str
    form: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A line of a rule."""

    parts: tuple[str | Choice | Shown, ...]
    p: float
    nats: float  # -log p
    kind: str
    gender: str


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text of a grammar, and minus the log of its probability."""

    text: str
    nats: float


class Grammar:
    """Rules by name, each as its lines; `start` names the first.

    Raises:
        DeclarationError: when a line cannot be read.
    """

    def __init__(self, rules: Mapping[str, str], start: str = "start"):
        read = {name: _lines(name, lines) for name, lines in rules.items()}
        self.rules = {name: _options(name, lines) for name, lines in read.items()}
        self.start = start
        self.digest = digest([{name: [line[0] for line in lines] for name, lines in read.items()}, start])
        self._limits = {name: list(accumulate(o.p for o in options)) for name, options in self.rules.items()}

    def draw(self, key: int, index: int) -> Text:
        """Return the text of a number, from 0: a function of (key, index) alone."""
        # The counter's lowest words count the draws of a text, its highest one the texts.
        generator = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index]))
        pieces: list[str] = []
        _, nats = self._draw(self.start, _uniforms(generator), {}, pieces)
        return Text(text="".join(pieces), nats=nats)

    def _draw(
        self, rule: str, uniforms: Iterator[float], said: dict[str, Said], pieces: list[str]
    ) -> tuple[Option, float]:
        """Add the text of an expansion to `pieces`; its first option, and minus the log of its probability."""
        limits = self._limits[rule]
        # Rounding may leave the last limit a hair below 1.
        option = self.rules[rule][min(bisect_right(limits, next(uniforms)), len(limits) - 1)]
        nats = option.nats
        for part in option.parts:
            if isinstance(part, str):
                pieces.append(part)
            elif isinstance(part, Shown):
                pieces.append(said[part.name].form(part.form))
            else:
                name = part.rule_for(said[part.of].kind) if part.of else part.rule
                own: list[str] = []
                chosen, more = self._draw(name, uniforms, said, own)
                nats += more
                if part.name:
                    said[part.name] = Said(text="".join(own), kind=chosen.kind, gender=chosen.gender)
                if part.maybe and own:
                    pieces.append(" ")
                if not part.silent:
                    pieces += own
        return option, nats

    @cached_property
    def entropy_nats(self) -> float:
        """The exact mean of minus log p of a text, in nats."""
        return self._flow(self.start, frozenset(), None, {}).nats

    @cached_property
    def _asked(self) -> frozenset[str]:
        """The names whose kinds later draws depend on."""
        parts = (part for options in self.rules.values() for option in options for part in option.parts)
        return frozenset(part.of for part in parts if isinstance(part, Choice) and part.of)

    def _flow(self, rule: str, kinds: "_Kinds", name: str | None, known: dict["_Place", "_Flow"]) -> "_Flow":
        """Return the entropy of an expansion given remembered `kinds`, and the kinds that are remembered after it."""
        place = (rule, kinds, name if name in self._asked else None)
        if place in known:
            return known[place]
        nats, after = 0.0, defaultdict[_Kinds, float](float)
        for option in self.rules[rule]:
            nats += option.p * option.nats
            states: dict[_Kinds, float] = {kinds: option.p}
            for part in option.parts:
                if not isinstance(part, Choice):
                    continue
                moved = defaultdict[_Kinds, float](float)
                for state, weight in states.items():
                    flow = self._flow(part.rule_for(dict(state)[part.of] if part.of else None), state, part.name, known)
                    nats += weight * flow.nats
                    for end, share in flow.after.items():
                        moved[end] += weight * share
                states = moved
            for state, weight in states.items():
                named = {**dict(state), name: option.kind} if name and name in self._asked else dict(state)
                after[frozenset(named.items())] += weight
        known[place] = _Flow(nats=nats, after=dict(after))
        return known[place]


_Kinds = frozenset[tuple[str, str]]
_Place = tuple[str, _Kinds, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Flow:
    nats: float
    after: dict[_Kinds, float]


def _uniforms(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(96).tolist()


def _lines(name: str, lines: str) -> list[re.Match[str]]:
    matches = [_LINE.fullmatch(re.sub(r"\s+", " ", line)) for line in _NEXT.split(lines.strip())]
    if not all(matches):
        raise DeclarationError(f"the grammar's rule {name} has a line that is no `weight template | kind gender`")
    return [line for line in matches if line]


def _options(name: str, lines: list[re.Match[str]]) -> tuple[Option, ...]:
    total = sum(int(line["weight"]) for line in lines)
    return tuple(
        Option(
            parts=_parts(name, line["template"]),
            p=int(line["weight"]) / total,
            nats=-math.log(int(line["weight"]) / total),
            kind=line["kind"] or "",
            gender=line["gender"] or "it",
        )
        for line in lines
    )


def _parts(name: str, template: str) -> tuple[str | Choice | Shown, ...]:
    if template == "~":
        return ()
    parts: list[str | Choice | Shown] = []
    for number, piece in enumerate(_PART.split(template)):
        if number % 2 == 0:
            parts += [piece] if piece else []
        elif piece == "br":
            parts.append("\n")
        elif shown := _SHOWN.fullmatch(piece):
            parts.append(Shown(name=shown["name"], form=shown["form"]))
        elif choice := _CHOICE.fullmatch(piece):
            parts.append(
                Choice(
                    rule=choice["rule"],
                    of=choice["of"],
                    name=choice["name"],
                    silent=bool(choice["silent"]),
                    maybe=bool(choice["maybe"]),
                )
            )
        else:
            raise DeclarationError(f"the grammar's rule {name} has a part {{{piece}}} that cannot be read")
    return tuple(parts)


_GROUPS: Mapping[str, Mapping[str, list[str]]] = json.loads(
    Path(__file__).with_name("stories.json").read_text(encoding="utf-8")
)
RULES = {rule: "\n".join(lines) for group in _GROUPS.values() for rule, lines in group.items()}
LANGUAGE = Grammar(RULES)


def story(key: int, index: int) -> Text:
    """Return the story of a number, and minus the log of its probability in nats.

    Examples:
        >>> story(1, 0) == story(1, 0) != story(1, 1)
        True
    """
    return LANGUAGE.draw(key, index)

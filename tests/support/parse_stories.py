"""The slow and obvious reading of a grammar: every derivation of a text, by trying all options everywhere."""

from collections.abc import Iterator

from headway.data.grammar import Choice, Grammar, Option, Said, Shown

_State = tuple[int, dict[str, Said], float]


def derivations(grammar: Grammar, text: str) -> list[float]:
    """Minus the log probability of each derivation of a text."""
    return [nats for end, _, nats in _rule(grammar, grammar.start, text, 0, {}) if end == len(text)]


def _rule(grammar: Grammar, rule: str, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    for _, (end, after, nats) in _options(grammar, rule, text, start, said):
        yield end, after, nats


def _options(
    grammar: Grammar, rule: str, text: str, start: int, said: dict[str, Said]
) -> Iterator[tuple[Option, _State]]:
    for option in grammar.rules[rule]:
        for end, after, nats in _parts(grammar, option.parts, text, start, said):
            yield option, (end, after, nats + option.nats)


def _parts(grammar: Grammar, parts: tuple, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    if not parts:
        yield start, said, 0.0
        return
    first, *rest = parts
    if isinstance(first, Choice):
        heads = _choice(grammar, first, text, start, said)
    else:
        piece = said[first.name].form(first.form) if isinstance(first, Shown) else first
        heads = iter([(start + len(piece), said, 0.0)] if text.startswith(piece, start) else [])
    for middle, between, nats in heads:
        for end, after, more in _parts(grammar, tuple(rest), text, middle, between):
            yield end, after, nats + more


def _choice(grammar: Grammar, choice: Choice, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    rule = choice.rule_for(said[choice.of].kind if choice.of else None)
    if choice.silent:
        for option in grammar.rules[rule]:  # each is one piece of text, which is written later
            (piece,) = option.parts
            what = Said(text=piece, kind=option.kind, gender=option.gender)
            yield start, {**said, choice.name: what}, option.nats
        return
    begins = [start + 1] if choice.maybe and text.startswith(" ", start) else [] if choice.maybe else [start]
    if choice.maybe:
        yield from ((start, said, option.nats) for option in grammar.rules[rule] if not option.parts)
    for begin in begins:
        for option, (end, after, nats) in _options(grammar, rule, text, begin, said):
            if choice.maybe and end == begin:
                continue
            if choice.name:
                what = Said(text=text[begin:end], kind=option.kind, gender=option.gender)
                after = {**after, choice.name: what}
            yield end, after, nats

"""Data: Headway's own stories, drawn from a grammar, so their probability and their entropy are known exactly.

They are short, in simple words, and what is introduced comes back: names and their pronouns, things and their colors,
where something was left, what was promised. No text has two derivations (the tests parse stories back), so the
probability of a derivation is that of its text.
"""

from headway.data.tokens.grammar import Grammar, Text
from headway.data.tokens.story_plots import BRAVE, BROKEN, LOST, PRESENT, RAIN, RESCUE, SHARE
from headway.data.tokens.story_words import CLOSING, OPENING, PEOPLE, THINGS, WALK

RULES = PEOPLE | THINGS | OPENING | WALK | LOST | RESCUE | PRESENT | BROKEN | BRAVE | SHARE | RAIN | CLOSING
LANGUAGE = Grammar(RULES)


def story(key: int, index: int) -> Text:
    """The story of a number, and minus the log of its probability in nats.

    Examples:
        >>> story(1, 0) == story(1, 0) != story(1, 1)
        True
    """
    return LANGUAGE.draw(key, index)


def entropy_nats() -> float:
    """The entropy of a story in nats: no model can lose less on average, summed over a story and its end."""
    return LANGUAGE.entropy_nats

"""Headway's own stories: one derivation for each text, and an entropy that is exact."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from support.stories import derivations
from support.tolerance import nearly

from headway.data import grammar
from headway.data.corpus import STORIES_KEY
from headway.data.grammar import LANGUAGE, RULES, Choice, Grammar, story
from headway.errors import DeclarationError


@pytest.mark.slow
def test_every_story_has_one_derivation_and_its_probability():
    for index in range(400):
        drawn = story(7, index)
        assert derivations(LANGUAGE, drawn.text) == [nearly(drawn.nats)]


@pytest.mark.slow
def test_every_option_is_reached_and_read_back_once():
    # What rare options say is as unambiguous as the rest: with even weights each comes up often enough.
    even = Grammar({name: re.sub(r"(^|\n\s*|; )\d+ ", r"\g<1>1 ", lines) for name, lines in RULES.items()})
    for index in range(400):
        drawn = even.draw(3, index)
        assert derivations(even, drawn.text) == [nearly(drawn.nats)]


@pytest.mark.slow
def test_the_exact_entropy_is_the_mean_of_what_is_drawn():
    nats = np.array([story(11, index).nats for index in range(3_000)])
    assert abs(nats.mean() - LANGUAGE.entropy_nats) < 4 * nats.std() / math.sqrt(len(nats))


def test_the_entropy_of_a_grammar_that_can_be_summed_by_hand():
    grammar = Grammar(
        {
            "start": "1 {animal=x!}{sound@x} said the {$x}.{?more}\n1 Silence.",
            "animal": "3 cat | feline\n1 dog | canine",
            "sound@feline": "1 Meow\n1 Purr\n1 Hiss\n1 Prr",
            "sound@canine": "1 Woof",
            "more": "1 ~\n1 Again.",
        }
    )
    animal = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    expected = math.log(2) + 0.5 * (animal + 0.75 * math.log(4) + math.log(2))
    assert grammar.entropy_nats == nearly(expected)
    texts = Counter(grammar.draw(0, index).text for index in range(4_000))
    assert set(texts) <= {
        "Silence.",
        *(f"{s} said the cat.{more}" for s in ("Meow", "Purr", "Hiss", "Prr") for more in ("", " Again.")),
        *(f"Woof said the dog.{more}" for more in ("", " Again.")),
    }
    assert len(texts) == 11
    for text, count in texts.items():
        (nats,) = derivations(grammar, text)
        p = math.exp(-nats)
        assert abs(count - 4_000 * p) < 5 * math.sqrt(4_000 * p * (1 - p))
    assert sum(math.exp(-derivations(grammar, text)[0]) for text in texts) == nearly(1)


def test_a_story_is_a_function_of_its_key_and_number():
    assert [story(1, index) for index in (3, 2)] == [story(1, 3), story(1, 2)]
    assert story(1, 2) != story(2, 2) != story(2, 3)


@pytest.mark.slow
def test_stories_are_of_the_promised_size_and_clean():
    texts = [story(STORIES_KEY, index).text for index in range(3_000)]
    assert len(set(texts)) == len(texts)
    words = [len(text.split()) for text in texts]
    assert min(words) >= 60
    assert max(words) <= 250
    assert np.percentile(words, 95) > 1.4 * np.percentile(words, 5)
    vocabulary = {word.strip('.,!?"') for text in texts for word in text.split()}
    assert 600 < len(vocabulary) < 1_200
    for text in texts:
        assert text == text.strip()
        assert not {"  ", " \n", "\n ", "\n\n", " .", " ,", "{", "}", "~"} & {
            text[i : i + n] for n in (1, 2) for i in range(len(text))
        }


def test_what_is_introduced_comes_back():
    texts = [story(STORIES_KEY, index).text for index in range(1_000)]
    kept = 0
    for text in texts:
        name = next(word for word in text.split() if word.strip(".,") in NAMES).strip(".,")
        assert text.count(name) >= 2
        kept += name in text.split("\n")[-1]
    assert kept > 500


NAMES = {
    part for rule, options in LANGUAGE.rules.items() if rule.startswith("name@") for o in options for part in o.parts
}


def test_no_rule_is_written_twice_and_none_is_idle():
    assert sum(map(len, grammar._GROUPS.values())) == len(RULES)
    asked = {
        part.rule
        for options in LANGUAGE.rules.values()
        for o in options
        for part in o.parts
        if isinstance(part, Choice)
    }
    assert {rule.split("@")[0] for rule in LANGUAGE.rules} == asked | {"start"}


def test_the_draws_of_the_default_stories_are_frozen():
    # Changing a rule changes every result on `stories`; that is allowed, but not by accident.
    assert LANGUAGE.digest == "f8c2ff7c069a8c9e"


def test_rules_that_cannot_be_read_are_errors():
    with pytest.raises(DeclarationError, match="rule start has a line that is no `weight template"):
        Grammar({"start": "once upon a time"})
    with pytest.raises(DeclarationError, match=r"rule start has a part \{no:way\} that cannot be read"):
        Grammar({"start": "1 a {no:way}"})

"""Law: two public names of one kind in one room differ by more than a letter or an ending."""

import ast
import re
from collections import defaultdict
from itertools import combinations, takewhile

from support.house import modules

NEAR = 2
"""This many letters added, dropped or replaced leave two names easy to confuse, if they share half of their letters."""

ENDINGS = ("ations", "ation", "ings", "ing", "ers", "er", "ors", "or", "ed", "es", "ly", "s", "e", "d")
"""Endings that make another form of the same word, the longest first."""

ALLOWED = {
    ("Adam", "AdamW"): "published names",
    ("Adam", "Arm"): "a published name beside the word of the experiment file",
    ("bigram", "unigram"): "published names",
    ("effective_worth", "effective_worth_at"): "names that users import",
    ("export", "report"): "verbs of the command line",
    ("say", "xray"): "a verb of the command line beside what prints it",
    ("work", "worker"): "the process, which job scripts call by its name, and its work",
}
"""Pairs of near names that stay, each with a reason."""


def test_no_two_names_of_one_room_are_near_each_other():
    near = {pair for names in public_names().values() for pair in combinations(sorted(names), 2) if too_near(*pair)}
    assert near - ALLOWED.keys() == set(), "rename one, so that it says how it differs from the other"
    assert ALLOWED.keys() - near == set(), "exceptions that no two names need"


def test_names_that_are_easy_to_confuse_are_near():
    assert too_near("fit", "fits")
    assert too_near("judge", "unjudged")
    assert too_near("step_file", "StepFiles")
    assert too_near("measure", "measuring")
    assert not too_near("load", "read")
    assert not too_near("read_run", "read_timing")


def public_names():
    """Return the public functions, classes and modules of every room, by room and kind."""
    names = defaultdict(set)
    for module in modules():
        room, _, file = module.place.rpartition("/")
        names[room, "module"].add(file.removesuffix(".py"))
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names[room, "class" if isinstance(node, ast.ClassDef) else "function"].add(node.name)
    return {kind: {name for name in those if not name.startswith("_")} for kind, those in names.items()}


def too_near(one, other):
    if stems(one) == stems(other):
        return True
    one, other = ("".join(words(name)) for name in (one, other))
    return 2 * shared(one, other) > min(len(one), len(other)) and distance(one, other) <= NEAR


def words(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def stems(name):
    """Return the words of a name without `un-` and their endings: `unjudged` and `judges` both give `judg`."""
    return [stem(word) for word in words(name)]


def stem(word):
    word = word.removeprefix("un") if len(word) > 5 else word
    ending = next((ending for ending in ENDINGS if word.endswith(ending) and len(word) - len(ending) >= 3), "")
    word = word.removesuffix(ending)
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def shared(one, other):
    """Return how many letters two words share at their beginning and, after it, at their end."""
    front = alike(one, other)
    return front + alike(one[front:][::-1], other[front:][::-1])


def alike(one, other):
    """Return how many letters two words share at their beginning."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))])


def distance(one, other):
    """Return how many letters must be added, dropped or replaced to turn one word into the other."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, row = row, [i]
        for j, opposite in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != opposite)))
    return row[-1]

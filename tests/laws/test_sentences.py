"""Law: sentences on results stand in `base/words.py`, and every sentence there is said by some module."""

import ast

from support.house import modules

from headway.base.words import SENTENCES

FEWEST_WORDS = 5
ROOMS = ("adaptive/messages.py", "analysis/ablate.py", "analysis/xray.py", "judged/", "stats/")
"""Rooms and modules whose texts are sentences on results, or errors."""
NAMES = {
    "share of seeds that solve the task": "a quantity",
    "by the metric as published": "how a statement was judged",
    "instruction set of ": "a property of a machine",
    " of  of  attentions, the plain ones,": "a part of a sentence",
    "effects of heads are on a loss of": "a part of an error",
    "an x-ray reads either a text or tokens": "an error",
    "ablating  one by one, and all together, by three methods ...": "what is being done",
    " and  (at most  tokens of a line)": "the name of a text",
    "the content of their text": "a key in which runs differ",
    "a exp(-b n) + c": "a formula",
    "`` writes to another folder": "a part of an error",
}
"""Strings in these rooms that have as many words and are no sentences on results."""


def strings(tree):
    """Yield the strings of a module, but for docstrings, types, and texts of errors."""
    others = set()
    for node in ast.walk(tree):
        is_error = isinstance(node, ast.Raise | ast.Assert)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_error or is_docstring or isinstance(node, ast.Subscript):
            others |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            others |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in others:
            continue
        if isinstance(node, ast.JoinedStr):
            texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield "".join(texts), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


def test_results_say_nothing_in_words_of_their_own():
    prose = {
        (module.place, line): text
        for module in modules()
        if module.place.startswith(ROOMS)
        for text, line in strings(module.tree)
        if len(text.split()) >= FEWEST_WORDS and text not in NAMES and not text.startswith("<") and " | " not in text
    }
    assert prose == {}, "make it a template of base/words.py"


def test_every_sentence_is_said_somewhere_and_what_is_said_is_a_sentence():
    whole, begun, kinds = set(), set(), set()
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
                begun.add(node.values[0].value)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say" and node.args:
                whole |= {inner.value for inner in ast.walk(node.args[0]) if isinstance(inner, ast.Constant)}
                kinds |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("kind", "counts"):
                whole |= {inner.value for inner in ast.walk(node.value) if isinstance(inner, ast.Constant)}
    assert kinds - SENTENCES.keys() == set()
    parts = tuple(start for start in begun if start.endswith("_"))
    assert {kind for kind in SENTENCES.keys() - whole if not kind.startswith(parts)} == set()

"""Laws of the house: what the source asks of its readers, in tokens, never grows.

Lines can be packed and tokens cannot. A number that has fallen is written here in the same commit, so that it stays.
Comments, docstrings and line breaks count for nothing.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from support.house import SOURCE

MOST = {
    "tokens": 404_782,
    "code lines": 38_828,
    "dense modules": 74,
    "functions above 400 tokens": 15,
    "comprehensions in 1,000 lines": 70,
    "fragments in Args": 0,
    "strings that are a dotted name of Headway": 48,
}
"""The most that there may be."""

SLACK = 0.005
"""The share by which a number may lie below the one written here before it has to be written anew."""

DENSE = 11
"""The tokens a line above which a module is dense; four well-kept projects of the field have 5.8 to 7.0."""

WITHOUT_CONTENT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
FRAGMENT = re.compile(r"\s+\w[\w, *]*: (that|of|as|see|by|what|whether|how|who|is|are|for|in|to)\b", re.IGNORECASE)
"""An entry of Args or Attributes that is no noun phrase."""
DOTTED_NAME = re.compile(r"headway(\.\w+)+")


def lines_of(node: ast.stmt | ast.expr) -> range:
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)


def docstring_lines(tree: ast.AST) -> set[int]:
    strings = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {line for node in strings for line in lines_of(node)}


def tokens_by_line(text: str, left_out: set[int]) -> Counter[int]:
    """The tokens that begin on each line; a line within a token of several lines has none."""
    counts = Counter[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        lines = range(token.start[0], token.end[0] + 1)
        if token.type in WITHOUT_CONTENT or left_out.issuperset(lines):
            continue
        counts.update(dict.fromkeys(lines, 0))
        counts[token.start[0]] += 1
    return counts


def counts_of(path: Path) -> Counter[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstrings = docstring_lines(tree)
    by_line = tokens_by_line(text, docstrings)
    n_lines, n_tokens = len(by_line.keys() - docstrings), by_line.total()
    counts = Counter({"tokens": n_tokens, "code lines": n_lines})
    counts["dense modules"] = n_lines >= 20 and n_tokens / n_lines > DENSE
    counts["fragments in Args"] = sum(FRAGMENT.match(line) is not None for line in text.splitlines())
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            counts["comprehensions"] += 1
        elif isinstance(node, FUNCTIONS):
            size = sum(by_line[line] for line in lines_of(node))
            counts["functions above 400 tokens"] += size > 400
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            counts["strings that are a dotted name of Headway"] += DOTTED_NAME.fullmatch(node.value) is not None
    return counts


def test_no_number_grows_and_what_has_fallen_is_written_down():
    found = Counter[str]()
    for path in SOURCE.rglob("*.py"):
        found.update(counts_of(path))
    found["comprehensions in 1,000 lines"] = round(1000 * found["comprehensions"] / found["code lines"])
    grown = {name: (found[name], most) for name, most in MOST.items() if found[name] > most}
    assert not grown, "found, and the most that there may be"
    fallen = {name: (found[name], most) for name, most in MOST.items() if found[name] < (1 - SLACK) * most - 1}
    assert not fallen, "write down what was found"

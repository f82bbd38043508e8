"""No test holds a number of its own for how near two ways of computing the same must come: `tolerance.py` does.

What is compared with a tolerance for another reason stands in tolerances.txt, under the reason.
"""

import ast
import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from support.tolerance import assert_same, nearly

TESTS = Path(__file__).parents[1]
LISTED = Path(__file__).with_name("tolerances.txt")
REASONS = {"published", "statistical", "limit", "rounded", "time"}
COMPARE = ("assert_close", "assert_allclose", "assert_almost_equal", "allclose", "isclose")
SINGLE = ("heads", "causal", "models", "train", "icl", "hf", "analysis")
"""Where the default of pytest.approx, a millionth, is a few roundings of what is computed in single precision."""
_SMALL = 1e-3


def listed() -> dict[str, str]:
    """The reason of each test that has a tolerance of its own."""
    reasons, reason = {}, ""
    for line in LISTED.read_text().splitlines():
        if line.startswith("  "):
            reasons[line.strip()] = reason
        elif line and not line.startswith("#"):
            reason = line.partition(":")[0]
    return reasons


def tolerances(tree: ast.Module, room: str) -> set[str]:
    """The functions of a file, in which something is compared with a tolerance of its own."""
    found = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return  # to be far apart is another claim
        if isinstance(node, ast.FunctionDef) and not function.startswith("test_"):
            function = node.name
        if _is_tolerance(node, room):
            found.add(function)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            with contextlib.suppress(SyntaxError):  # a program that a test runs; most texts are none
                visit(ast.parse(node.value), function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(tree, "")
    return found


def _is_tolerance(node: ast.AST, room: str) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        stated = any(word.arg in ("rel", "abs") for word in node.keywords) or len(node.args) > 1
        return name in COMPARE or (name == "approx" and (stated or room in SINGLE))
    if isinstance(node, ast.Compare) and isinstance(node.ops[-1], ast.Lt | ast.LtE):
        bound = node.comparators[-1]
        small = isinstance(bound, ast.Constant) and isinstance(bound.value, float) and 0 < bound.value <= _SMALL
        return small and any(word in ast.unparse(node.left) for word in ("abs", "norm", "max", "-"))
    return False


def test_who_compares_two_ways_of_computing_the_same_says_no_number():
    found = {
        f"{path.relative_to(TESTS)}::{function}"
        for path in TESTS.rglob("*.py")
        if path.name not in ("tolerance.py", "test_tolerances.py")
        for function in tolerances(ast.parse(path.read_text()), path.relative_to(TESTS).parts[0])
    }
    assert set(listed().values()) == REASONS
    new, gone = sorted(found - listed().keys()), sorted(listed().keys() - found)
    assert not new, (
        f"take assert_same or nearly of support/tolerance.py, or list with a reason in tolerances.txt: {new}"
    )
    assert not gone, f"tolerances.txt lists what is no longer there: {gone}"


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("torch.testing.assert_close(a, b)", True),
        ("np.testing.assert_allclose(a, b, rtol=1e-4)", True),
        ("assert np.allclose(a, b)", True),
        ("assert not np.allclose(a, b)", False),
        ("assert a == pytest.approx(b, abs=1e-5)", True),
        ("assert a == pytest.approx(b)", False),
        ("assert abs(a - b) < 1e-6", True),
        ("assert (a - b).abs().max() <= 1e-6", True),
        ("assert p < 1e-6", False),
        ("assert_same(a, b, terms=1e6)", False),
    ],
)
def test_a_tolerance_is_seen(line, is_found):
    assert bool(tolerances(ast.parse(f"def test_it():\n    {line}"), "laws")) is is_found


def test_in_single_precision_a_millionth_is_a_tolerance():
    assert tolerances(ast.parse("def test_it():\n    assert a == pytest.approx(b)"), "heads") == {"test_it"}


def test_roundings_are_allowed_and_errors_are_not():
    random = torch.Generator().manual_seed(0)
    a, b = torch.randn(20, 300, generator=random), torch.randn(300, 20, generator=random)
    exact = (a.double() @ b.double()).float()
    assert_same(a @ b, exact)
    assert_same(a.double().numpy() @ b.double().numpy(), exact, dtype=torch.float32)
    for wrong in (exact * 1.001, exact + 1e-3, a[:, 1:] @ b[1:], exact.flip(0)):
        with pytest.raises(AssertionError, match="differ by more than rounding"):
            assert_same(wrong, exact)
    with pytest.raises(AssertionError):
        assert_same(exact, exact.double() * (1 + 1e-9), dtype=torch.float64)


def test_what_is_not_finite_must_stand_at_the_same_places():
    one = np.array([1.0, np.nan, np.inf])
    assert_same(one, one.copy())
    for other in ([1.0, np.nan, -np.inf], [1.0, 2.0, np.inf], [np.nan, np.nan, np.inf]):
        with pytest.raises(AssertionError):
            assert_same(one, np.array(other))
    with pytest.raises(AssertionError):
        assert_same(np.array([0.0, np.nan]), np.array([0.0, 0.0]))


def test_shapes_and_names_are_compared():
    with pytest.raises(AssertionError, match="shapes"):
        assert_same(np.ones(3), np.ones((3, 1)))
    with pytest.raises(AssertionError):
        assert_same({"a": 1.0}, {"b": 1.0})
    with pytest.raises(AssertionError, match="weights a"):
        assert_same({"a": 1.0}, {"a": 2.0}, what="weights")


def test_each_value_by_its_own_size():
    one, other = np.array([1e-6, 1.0]), np.array([1.001e-6, 1.0])
    assert_same(one, other, dtype=np.float32)
    with pytest.raises(AssertionError):
        assert_same(one, other, dtype=np.float32, each=True)
    assert_same(1.0, 1.0 + 1e-8, dtype=np.float32)
    assert [nearly(1.0), nearly((0.5, 2.0))] == [1.0, (0.5, 2.0)]
    assert nearly(1.0 + 1e-8) != 1.0
    assert nearly(0.0, dtype=np.float32, scale=1.0) == 1e-8

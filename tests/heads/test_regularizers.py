"""Terms of the loss: their gradients against finite differences, their signs, and that a compiled loss takes them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.head_definitions import attention, causal
from support.tolerance import nearly

from headway.config.lm.training import REGULARIZED
from headway.heads.regularizers import TERMS

every_term = pytest.mark.parametrize("name", TERMS)
VECTORS = ("q", "k", "v", "z", "W_O")
FORMS = {
    "causal": {"mask": causal(5, 5)},
    "grouped": {"heads": 4, "kv_of": (0, 0, 0, 1), "mask": causal(5, 5)},
    "future": {"mask": causal(5, 5).T & ~torch.eye(5, dtype=bool)},
    "windowed, softcapped": {"mask": causal(5, 5, window=2), "softcap": 2.0},
    "wide heads": {"heads": 2, "d_head": 6, "d_model": 4},
}


def small(**given):
    options = {"heads": 3, "d_head": 2, "d_model": 6} | given
    return attention(queries=5, keys=5, batch=2, dtype=torch.float64, **options)


def test_every_declared_regularizer_has_a_term():
    assert tuple(TERMS) == tuple(REGULARIZED)
    assert all(TERMS[name].better == better for name, better in REGULARIZED.items())


@pytest.mark.slow
@every_term
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_gradients_equal_finite_differences(name, form):
    base = small(**form)

    def term(*vectors):
        return TERMS[name].measure(replace(base, **dict(zip(VECTORS, vectors, strict=True))))

    given = tuple(getattr(base, vector).clone().requires_grad_() for vector in VECTORS)
    assert torch.autograd.gradcheck(term, given)


@every_term
def test_a_head_that_writes_nothing_has_finite_gradients(name):
    base = small(mask=causal(5, 5))
    silent = {vector: getattr(base, vector).clone() for vector in VECTORS}
    for vector in ("q", "v", "z"):
        silent[vector][:, 1] = 0
    silent["W_O"][2] = 0
    given = {vector: value.requires_grad_() for vector, value in silent.items()}
    term = TERMS[name].measure(replace(base, **given))
    found = torch.autograd.grad(term, list(given.values()), allow_unused=True)
    assert term.isfinite()
    assert all(gradient.isfinite().all() for gradient in found if gradient is not None)


@every_term
def test_a_step_down_the_penalty_makes_heads_more_different(name):
    base = small(mask=causal(5, 5))
    given = {vector: getattr(base, vector).clone().requires_grad_() for vector in VECTORS}
    term = TERMS[name]
    before = term.measure(replace(base, **given))
    term.penalty(replace(base, **given)).backward()
    moved = {n: x.detach() - 1e-4 * (0 if x.grad is None else x.grad) for n, x in given.items()}
    after = term.measure(replace(base, **moved))
    assert after > before if term.better == "high" else after < before


@every_term
def test_identical_heads_are_the_worst(name):
    base = small(mask=causal(5, 5))
    alike = {vector: getattr(base, vector)[:, :1].expand(-1, 3, -1, -1) for vector in ("q", "k", "v", "z")}
    same = replace(base, **alike, W_O=base.W_O[:1].expand(3, -1, -1))
    term = TERMS[name]
    assert term.penalty(same) > term.penalty(base)
    worst = {"orthogonality": 6.0, "query_cka": 1.0, "context_cka": 1.0}  # 3 x 3 ones less the identity
    if name != "disagreement_position":
        assert float(term.penalty(same)) == nearly(worst.get(name, 1.0))


def test_orthogonality_is_that_of_the_definition():
    base = small(mask=causal(5, 5))
    rows = base.z.transpose(1, 2).flatten(0, 1)
    slow = 0.0
    for A in rows:
        A = A / A.norm(dim=1, keepdim=True)
        slow += float((A @ A.T - torch.eye(3)).square().sum())
    assert float(TERMS["orthogonality"].measure(base)) == nearly(slow / len(rows))


# In a process of its own: shapes in signatures are checked in this one, which cannot be compiled.
COMPILED = """
import sys
import torch
from dataclasses import replace

torch.set_num_threads(1)
sys.path.insert(0, FOLDER)
from support.head_definitions import attention, causal
from headway.heads.regularizers import TERMS

VECTORS = ("q", "k", "v", "z", "W_O")
base = attention(heads=4, kv_of=(0, 0, 1, 1), mask=causal(), dtype=torch.float64)
given = [getattr(base, vector).requires_grad_() for vector in VECTORS]


def terms(*vectors):
    there = replace(base, **dict(zip(VECTORS, vectors)))
    return torch.stack([term.measure(there) for term in TERMS.values()])


compiled = torch.compile(terms, dynamic=False, fullgraph=True, backend="aot_eager")
for function in (compiled, terms):
    found = function(*given)
    print([round(float(x), 9) for x in [*found.detach(), *(g.sum() for g in torch.autograd.grad(found.sum(), given))]])
"""


@pytest.mark.slow
def test_terms_are_one_graph_without_questions_about_data():
    script = f"FOLDER = {str(Path(__file__).parents[1])!r}\n{COMPILED}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    compiled, plain = (json.loads(line) for line in done.stdout.splitlines())
    assert compiled == nearly(plain)

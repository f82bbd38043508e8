"""Every architecture that docs/architectures.md says is traced and patched: so it is, by what its attentions return."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from support.tolerance import assert_same

from headway.causal.patching import TwoRuns, head_paths, patched_effects
from headway.hf.interface import attentions, intercepted, own_function

DOCS = Path(__file__).parents[2] / "docs"
PATCHED = {
    "all with paths": "decoders: x-ray",
    "all": "decoders: all but",
    "some": "decoders: ablation",
}
"""Titles on the page."""
PAGE = (DOCS / "architectures.md").read_text()
SCRIPT = runpy.run_path(str(DOCS / "architectures.py"))
KINDS = dict(SCRIPT["types"]())


def listed(title):
    """The types under a title of the page."""
    (part,) = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if re.match(rf"\d+ {title}", part))
    return re.findall(r"`([^`]+)`", part)


PATCHABLE = [(name, what) for what, title in PATCHED.items() for name in listed(title)]
MEASURED = listed("models: x-ray alone")
UNPATCHED = [(name, "nothing") for name in MEASURED if KINDS.get(name) is transformers.AutoModelForCausalLM]


def known(name):
    if name not in KINDS:
        pytest.skip(f"this transformers has no {name}")
    return KINDS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_it_agrees(name):
    """Of those that are patched it is a condition."""
    what, more = SCRIPT["outcome"](name, known(name))
    assert what == "agrees", more
    assert int(more) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", listed("are refused"))
def test_it_is_refused_with_a_sentence(name):
    what, more = SCRIPT["outcome"](name, known(name))
    assert what == "refused", (what, more)
    assert more


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), PATCHABLE + UNPATCHED)
def test_it_is_patched_as_far_as_is_said(name, what):
    found, why = SCRIPT["patched"](name, known(name))
    assert found == what, why
    assert bool(why) == (found != "all with paths")


def returning(model, path, contexts, tokens):
    """The logits where one attention returns given contexts, whatever it computes."""
    paths = attentions(model)

    def attend(implementation, module, *given, **options):
        returned, weights = own_function(module, implementation)(module, *given, **options)
        return (contexts.transpose(1, 2).contiguous() if paths[module] == path else returned), weights

    with torch.no_grad(), intercepted(model, attend):
        return model(input_ids=tokens, use_cache=False).logits


@pytest.mark.slow
@pytest.mark.parametrize("name", list(dict(PATCHABLE))[::2])
def test_all_contexts_of_a_layer_are_what_its_attention_returned_on_the_clean_text(name):
    found = SCRIPT["decoder"](name, known(name))
    draw = torch.Generator().manual_seed(1)
    clean, corrupted = (torch.randint(3, 97, (2, 7), generator=draw) for _ in range(2))
    runs = TwoRuns(found, clean, corrupted, lambda logits: logits[:, -1, 5].float())
    for of in runs.clean.attentions:
        (logits,) = runs.run.logits_with(of.layer, [dict(enumerate(of.z.unbind(1)))])
        wanted = returning(found.model, of.name, of.z, corrupted)
        assert_same(logits, wanted, dtype=np.float32)
    same = TwoRuns(found, clean, clean, runs.metric)
    little = 1e-5 * max(1.0, float(same.values(clean).abs().max()))
    assert float(patched_effects(same, "z").abs().max()) <= little
    if runs.sums.why_not is None:
        paths = head_paths(same)
        assert np.abs(paths.to_output).max() <= little
        assert all(np.abs(np.nan_to_num(changes)).max() <= little for changes in paths.through.values())


def test_there_are_many_and_no_type_is_left_out():
    assert len(PATCHABLE) + len(MEASURED) >= 51
    assert len(UNPATCHED) >= 5
    if f"transformers {transformers.__version__}," not in PAGE:
        pytest.skip("the page is of another transformers")
    said = {*dict(PATCHABLE), *MEASURED, *listed("are refused"), *listed("were not tried")}
    assert said == set(KINDS)

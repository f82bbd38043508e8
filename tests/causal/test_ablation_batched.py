"""Effects of a text that is read in batches are those of the whole text, and so is what stands in."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import LENGTH, MODELS, VOCAB, built
from support.substitutes import substitutes
from support.tolerance import assert_same, nearly

from headway.causal.ablation import BatchedText, ablate, changes_without
from headway.causal.attribution import attribute, integrated
from headway.causal.effects import KINDS
from headway.causal.substitutes import OtherText
from headway.errors import UserError

DRAW = torch.Generator().manual_seed(5)
TOKENS, OTHER = (torch.randint(0, VOCAB, (5, LENGTH + more), generator=DRAW) for more in (1, 4))
INPUTS, TARGETS = TOKENS[:, :-1], TOKENS[:, 1:]
PAIRS = [((0, 0), (0, 1)), ((0, 1), (2, 1))]
NAMES = ["GQA", "rotary", "low rank"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_batches_say_what_the_whole_text_says(name):
    module = built(MODELS[name])
    stand_ins = substitutes(module, INPUTS, OTHER)
    read = OtherText.read(module, INPUTS, OTHER, at_once=2)
    said = []
    text = BatchedText(model=module, inputs=INPUTS, targets=TARGETS, other=read, at_once=2, tell=said.append)
    whole, parts = ablate(module, INPUTS, TARGETS, stand_ins), text.exact()
    assert_same(parts.loss, whole.loss, dtype=np.float32)
    assert parts.forward_passes == nearly(whole.forward_passes)
    together = changes_without(module, INPUTS, TARGETS, stand_ins, PAIRS)
    estimates, along = attribute(module, INPUTS, TARGETS, stand_ins), integrated(module, INPUTS, TARGETS, stand_ins)
    for kind in KINDS:
        close(parts.single[kind], whole.single[kind])
        assert_same(parts.joint[kind], whole.joint[kind], dtype=np.float32, scale=np.log(VOCAB))
        close(text.attributed().first_order[kind], estimates.first_order[kind])
        close(text.integrated()[kind], along[kind])
        assert_same(text.without(PAIRS)[kind], together[kind], dtype=np.float32, scale=np.log(VOCAB))
    for one, other in zip(text.attributed().michel, estimates.michel, strict=True):
        assert_same(one, other, dtype=np.float32)
    assert said == []  # it takes no time


def close(one, other):
    assert one.tokens.tolist() == other.tokens.tolist()
    for here, there in zip(one.per_sequence, other.per_sequence, strict=True):
        assert_same(here, there, dtype=np.float32, scale=np.log(VOCAB))


def test_the_text_itself_does_not_stand_in():
    with pytest.raises(UserError, match="is in the other text, too, which has no other sequence"):
        OtherText.read(built(MODELS["GQA"]), INPUTS, INPUTS[:1])

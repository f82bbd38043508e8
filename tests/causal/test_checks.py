"""The errors of the field, built in on purpose: each is refused with the check that it fails."""

import pytest
import torch
from support.drawn_transformers import MODELS, built, every_model, text

from headway.causal import checks
from headway.causal.checks import check_interventions
from headway.config.lm.model import Gpt2
from headway.errors import UserError
from headway.models.attention import Attention


@pytest.mark.slow
@every_model
def test_sound_models_pass(model, monkeypatch):
    check_interventions(built(model), text(30))
    monkeypatch.setattr(checks, "TOLERANCE", 1e-10)
    check_interventions(built(model).double(), text(30))


def refused(said, name="published"):
    with pytest.raises(UserError, match=f"the check that failed: {said}.* Effects of heads would be wrong"):
        check_interventions(built(MODELS[name]), text(30))


def wrapped(monkeypatch, change):
    """Attention whose forward pass is changed: `change(forward, module, x, rotary, gate, cache, record, edits)`."""
    forward = Attention.forward

    def changed(self, x, rotary=None, gate=None, cache=None, record=False, edits=None, last=None):
        assert last is None, "where heads are taken away, all positions are computed"
        return change(forward, self, x, rotary, gate, cache, record, edits)

    monkeypatch.setattr(Attention, "forward", changed)


WRONG_MASKS = {
    "gates of 0 change the logits; they do not in layer 0, whose heads write entries up to": lambda gate: None,
    "L0H2 masked is L0H2 removed": lambda gate: gate.roll(1, -1),
    "gates of 1 change nothing; they differ by up to": lambda gate: gate * 0.999,
}
"""One that is read and ignored, one of another head, and one that is a little less than one."""


@pytest.mark.parametrize("said", WRONG_MASKS)
def test_a_wrong_mask(said, monkeypatch):
    def change(forward, self, x, rotary, gate, *rest):
        return forward(self, x, rotary, None if gate is None else WRONG_MASKS[said](gate), *rest)

    wrapped(monkeypatch, change)
    refused(said)


def test_a_mask_on_what_the_output_projection_returned(monkeypatch):
    """The widespread error: slices of the vector after W_O, which are no heads."""

    def change(forward, self, x, rotary, gate, cache, record, edits):
        written, trace = forward(self, x, rotary, None, cache, record, edits)
        if gate is not None:
            written = written * gate.repeat_interleave(written.shape[2] // gate.shape[-1], dim=-1)
        return written, trace

    wrapped(monkeypatch, change)
    refused("L0H2 masked is L0H2 removed; they differ by up to", "published")


def test_contributions_that_do_not_add_up(monkeypatch):
    def change(forward, self, *arguments):
        written, trace = forward(self, *arguments)
        return written + 0.01, trace

    wrapped(monkeypatch, change)
    refused("in layer 0 the heads' contributions and the bias add up to what the attention writes")


def test_an_edit_that_is_ignored(monkeypatch):
    """Only where a pass begins; the fast way reads z at its lowest layer itself."""

    def change(forward, self, x, rotary, gate, cache, record, edits):
        ignored = edits and all(getattr(edit, "func", None).__name__ == "_replaced" for edit in edits.values())
        return forward(self, x, rotary, gate, cache, record, None if ignored else edits)

    wrapped(monkeypatch, change)
    refused("the fast losses without a head equal those of a whole forward pass")


def test_broken_weights():
    module = built(MODELS["published"])
    with torch.no_grad():
        module.layers[1].attention.v.weight[0, 0] = torch.nan
    with pytest.raises(UserError, match="the logits are finite; some are NaN or infinite"):
        check_interventions(module, text(30))


def test_heads_that_write_nothing_are_no_error():
    module = built(MODELS["published"])
    with torch.no_grad():
        module.layers[1].attention.o.weight.zero_()
    check_interventions(module, text(30))


def test_what_cannot_be_checked():
    with pytest.raises(UserError, match="a text of 1 tokens was given for a check of 12 heads; give two tokens"):
        check_interventions(built(MODELS["published"]), text(1))
    headless = Gpt2(family="gpt-2", d_model=48, n_layers=1, n_heads=0, n_positions=128)
    with pytest.raises(UserError, match="for a check of 0 heads"):
        check_interventions(built(headless), text(5))

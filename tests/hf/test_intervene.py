"""Heads of decoders that others wrote, taken away: a mask is the head's rows of W_O gone, and nothing else changes."""

import numpy as np
import pytest
import torch
import transformers
from support import zoo
from support.substitutes import substitutes
from support.tolerance import assert_same

from headway.causal.attribution import attribute
from headway.causal.checks import check_interventions
from headway.causal.effects import KINDS
from headway.causal.removal import Removal, losses_without, reference_losses_without
from headway.causal.substitutes import contexts_of, heads_of
from headway.errors import UserError
from headway.hf import intervene
from headway.hf.intervene import TheirDecoder

_llama = zoo.CONFIGS["llama"].to_dict() | {"architectures": None}
_sizes = {key: _llama[key] for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")} | {
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64, "initializer_range": 0.2,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
MORE = {"olmo-2": transformers.Olmo2Config(**_sizes)}
"""Other architectures have this check in test_architectures."""
DECODERS = [*(name for name in zoo.CONFIGS if name not in ("bert", "t5", "bart")), *MORE]
TEXT, OTHER = zoo.tokens_of((3, 25)), zoo.tokens_of((4, 24), seed=5)


def decoder(name):
    if name not in MORE:
        return TheirDecoder(zoo.model_of(name))
    torch.manual_seed(0)
    return TheirDecoder(zoo.stirred(transformers.AutoModelForCausalLM.from_config(MORE[name])).eval())


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_that_is_traced_passes_the_checks(name):
    found = decoder(name)
    assert found.n_heads == (4, 4)
    check_interventions(found, TEXT)


@pytest.mark.parametrize("name", ["gpt-2", "gpt-neox", "gemma-2", "opt", "olmo-2"])
def test_shared_passes_are_whole_passes(name):
    found = decoder(name)
    stand_ins = substitutes(found, TEXT[:, :-1], OTHER)
    removals = [Removal((head,), stand_ins[kind]) for head in heads_of(found) for kind in KINDS]
    removals += [Removal(tuple(heads_of(found)), stand_ins["mean"]), Removal((), stand_ins["zero"])]
    fast, slow = (f(found, TEXT[:, :-1], TEXT[:, 1:], removals) for f in (losses_without, reference_losses_without))
    assert_same(fast.without, slow.without, dtype=np.float32)
    assert_same(fast.without[-1], fast.whole, dtype=np.float32)
    assert fast.forward_passes == 1 + 12 * 1.0 + 12 * 0.5 + 1
    assert slow.forward_passes == 1 + len(removals)


@pytest.mark.parametrize("name", ["gpt-2", "gemma-2"])
def test_estimates_are_the_gradient_of_the_gates(name):
    found = decoder(name)
    stand_ins = substitutes(found, TEXT[:, :-1], OTHER)
    estimates = attribute(found, TEXT[:, :-1], TEXT[:, 1:], stand_ins)
    tiny, head = 1e-2, (1, 2)

    def loss(gate):
        gates = [torch.ones(4), torch.ones(4)]
        gates[head[0]][head[1]] = gate
        logits = found.hidden(TEXT[:, :-1], gates=gates)[0]
        return torch.nn.functional.cross_entropy(logits.mT, TEXT[:, 1:], reduction="none").mean(1)

    with torch.no_grad():
        slope = (loss(1 + tiny) - loss(1 - tiny)) / (2 * tiny)
    found_slope = torch.tensor(estimates.gate_gradients[head[0]][head[1]], dtype=torch.float32)
    torch.testing.assert_close(found_slope, slope, rtol=0.02, atol=2e-3)


def test_contexts_are_those_of_the_trace_and_nothing_is_left_behind():
    found = decoder("gpt-neox")
    hooks = [dict(m._forward_pre_hooks) | dict(m._forward_hooks) for m in found.model.modules()]
    before = [dict(vars(m)) for m in found.model.modules()]
    contexts = contexts_of(found, OTHER)
    for attention in found.trace(OTHER).attentions:
        assert_same(contexts[attention.layer], attention.z)
    found.kept(OTHER).again(1, {(1, "z"): torch.zeros_like})
    assert hooks == [dict(m._forward_pre_hooks) | dict(m._forward_hooks) for m in found.model.modules()]
    assert [sorted(vars(m)) for m in found.model.modules()] == [sorted(each) for each in before]


def refused(found, said):
    with pytest.raises(UserError, match=f"the check that failed: {said}"):
        check_interventions(found, TEXT)


def test_a_mask_that_is_ignored_is_refused(monkeypatch):
    monkeypatch.setattr(intervene, "_changed", lambda *given: given[-1])
    refused(decoder("gpt-neox"), "gates of 0 change the logits; they do not in layer 0")


def test_a_mask_of_another_head_is_refused(monkeypatch):
    changed = intervene._changed

    def other(heads, layer, gate, *rest):
        return changed(heads, layer, None if gate is None else gate.roll(1, -1), *rest)

    monkeypatch.setattr(intervene, "_changed", other)
    refused(decoder("gpt-neox"), "L0H2 masked is L0H2 removed; they differ by up to")


def test_contributions_that_do_not_add_up_are_refused():
    found = decoder("gpt-neox")
    projection = found.model.gpt_neox.layers[1].attention.dense
    projection.register_forward_hook(lambda _, __, output: output * 1.01)
    refused(found, "in layer 1 the heads' contributions and the bias add up to what the attention writes")


def test_layers_that_do_not_pass_on_what_they_gave_are_computed_each_time(monkeypatch):
    monkeypatch.setattr(intervene, "_copied", lambda output, _: output * 1.1 if torch.is_tensor(output) else output)
    found = decoder("gpt-neox")
    assert not found.only_streams
    assert found.kept(TEXT).outputs == ()
    check_interventions(found, TEXT)


def test_layers_that_share_keys_and_values_are_computed_each_time():
    config = transformers.Gemma4TextConfig(
        **_sizes | {"num_hidden_layers": 4}, head_dim=8, global_head_dim=16, num_kv_shared_layers=2, sliding_window=6,
        layer_types=["sliding_attention", "full_attention"] * 2, vocab_size_per_layer_input=97,
        hidden_size_per_layer_input=8,
    )  # fmt: skip
    torch.manual_seed(0)
    found = TheirDecoder(zoo.stirred(transformers.AutoModelForCausalLM.from_config(config)).eval())
    check_interventions(found, TEXT)
    assert not found.only_streams
    with torch.no_grad():
        assert found.stream_sums(TEXT).why_not.startswith("a layer reads more from earlier layers than the")


def test_a_model_without_a_read_out_is_refused():
    said = "GPTNeoXModel: it gives no logits of the next token, .*; load it with AutoModelFor"
    with pytest.raises(UserError, match=said):
        TheirDecoder(zoo.model_of("gpt-neox").base_model)


def test_shared_attentions_are_refused():
    torch.manual_seed(0)
    model = zoo.model_of("gpt-neox")
    model.gpt_neox.layers[1].attention = model.gpt_neox.layers[0].attention
    with pytest.raises(UserError, match="heads cannot be ablated or patched, since its layers share attentions"):
        TheirDecoder(model)


def test_what_sees_what_comes_later_is_refused():
    """Whatever its class is called: this one's says that it is causal."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.BertConfig(vocab_size=zoo.VOCAB_SIZE, **sizes, max_position_embeddings=64)
    torch.manual_seed(0)
    model = zoo.stirred(transformers.BertLMHeadModel(config)).eval()
    with pytest.raises(UserError, match=r"BertLMHeadModel: .* the loss of the next token, which an encoder sees"):
        TheirDecoder(model)
    config.is_decoder = True
    check_interventions(TheirDecoder(zoo.stirred(transformers.BertLMHeadModel(config)).eval()), TEXT)


def test_a_number_in_a_name_is_no_layer():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = transformers.Data2VecTextConfig(vocab_size=zoo.VOCAB_SIZE, **sizes, is_decoder=True, pad_token_id=0)
    torch.manual_seed(0)
    found = TheirDecoder(zoo.stirred(transformers.Data2VecTextForCausalLM(config)).eval())
    assert found.n_heads == (4, 4)
    check_interventions(found, TEXT)


@pytest.mark.parametrize("n_positions", [4, 15])
def test_a_model_of_few_positions_has_heads_to_take_away(n_positions):
    config = transformers.GPT2Config(
        vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=n_positions, bos_token_id=0, eos_token_id=0,
        scale_attn_by_inverse_layer_idx=True,
    )  # fmt: skip
    assert TheirDecoder(transformers.GPT2LMHeadModel(config).eval()).n_heads == (2, 2)


def test_paths_are_measured_where_a_layer_keeps_a_cache():
    """An eager GraniteMoe ignores use_cache and would read its keys twice."""
    config = transformers.GraniteMoeConfig(
        vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=24, max_position_embeddings=32, num_local_experts=2, num_experts_per_tok=1, bos_token_id=0,
        eos_token_id=0, pad_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.GraniteMoeForCausalLM(config).eval()
    tokens = torch.arange(10)[None] % 31
    with torch.no_grad():
        assert TheirDecoder(model).stream_sums(tokens).why_not is None

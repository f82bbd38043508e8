"""The heads of Hugging Face's models: one trace for all of them, and nothing of the model changed."""

import numpy as np
import pytest
import torch
import transformers
from support import zoo
from support.measuring import measure
from support.tolerance import assert_same
from torch import nn
from transformers.pytorch_utils import Conv1D

import headway
from headway.config.lm.model import GptNeo
from headway.errors import UserError
from headway.hf.recorder import recording
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

NAMES = tuple(zoo.CONFIGS)
THEIRS = {"self": "attentions", "encoder": "attentions"}
THEIRS_OF_TWO = {"self": "decoder_attentions", "encoder": "encoder_attentions", "cross": "cross_attentions"}


def hooks(model):
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())


def implementations(model):
    return {id(m.config): m.config._attn_implementation for m in model.modules() if hasattr(m, "config")}


def linears(model):
    return [module for module in model.modules() if isinstance(module, nn.Linear | Conv1D)]


@pytest.mark.parametrize("implementation", [None, "eager"])
@pytest.mark.parametrize("name", NAMES)
def test_patterns_are_those_of_eager_attention(name, implementation):
    model, eager = (
        zoo.model_of(name, attn_implementation=implementation),
        zoo.model_of(name, attn_implementation="eager"),
    )
    inputs = zoo.text_for(model)
    positions = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)  # a GPT-2 would count from the padding
    placed = inputs | ({"position_ids": positions} if name == "gpt-2" else {})
    with torch.no_grad():
        trace, theirs = headway.hf.trace(model, inputs), eager(**placed, output_attentions=True)
    fields = THEIRS_OF_TWO if model.config.is_encoder_decoder else THEIRS
    for kind, field in fields.items():
        found = [attention for attention in trace.attentions if attention.kind == kind]
        if field == "attentions" and not found:
            continue
        expected = getattr(theirs, field)
        assert len(found) == len(expected) == 2
        for attention, weights in zip(found, expected, strict=True):
            patterns = attention.patterns().transpose(1, 2)[attention.rows]
            weights = weights.transpose(1, 2)[attention.rows]
            assert weights.max() > 2 / weights.shape[-1]  # not a model that looks everywhere alike
            assert_same(patterns, weights, dtype=np.float32)
            z = attention.patterns() @ attention.v[:, list(attention.kv_of)]
            seen = attention.rows[:, None].expand(z.shape[:3])
            assert_same(z[seen], attention.z[seen], dtype=np.float32)


@pytest.mark.parametrize("name", ["bert", "t5", "bart"])
def test_contributions_sum_to_the_output_minus_the_bias(name):
    """Those of decoders stand in test_interface."""
    model = zoo.model_of(name)
    outputs = {}
    for linear in linears(model):
        linear.register_forward_hook(lambda module, _, output: outputs.update({module.weight.data_ptr(): output}))
    with torch.no_grad():
        trace = headway.hf.trace(model, zoo.text_for(model))
        for attention in trace.attentions:
            bias = 0 if attention.b_O is None else attention.b_O
            found, output = attention.contributions().sum(1) + bias, outputs[attention.W_O.data_ptr()]
            assert_same(found, output.view_as(found), dtype=np.float32)
            assert output.std() > 0.01


@pytest.mark.parametrize("implementation", [None, "eager"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_recording_changes_no_bit_and_leaves_nothing(name, training, implementation):
    model = zoo.model_of(name, attn_implementation=implementation).train(training)
    inputs, before = zoo.text_for(model), implementations(model)
    registered = set(transformers.AttentionInterface()), set(transformers.AttentionMaskInterface())

    def logits():
        torch.manual_seed(3)
        with torch.inference_mode():
            return model(**inputs).logits

    plain = logits()
    with recording(model) as noted:
        recorded = logits()
    assert torch.equal(plain, recorded)
    assert torch.equal(plain, logits())
    assert len(noted.attentions) == (6 if model.config.is_encoder_decoder else 2)
    assert hooks(model) == 0
    assert implementations(model) == before
    assert registered == (set(transformers.AttentionInterface()), set(transformers.AttentionMaskInterface()))


@pytest.mark.parametrize("name", ["llama", "bert", "bart"])
def test_without_a_mask_too(name):
    """Then transformers makes no mask, and causality is a flag of sdpa."""
    model = zoo.model_of(name)
    inputs = {key: value for key, value in zoo.text_for(model).items() if not key.endswith("mask")}
    with torch.no_grad():
        trace, whole = headway.hf.trace(model, inputs), model(**inputs).logits
        with recording(model):
            assert torch.equal(model(**inputs).logits, whole)
    for attention in trace.attentions:
        assert attention.rows is None
        n_queries, n_keys = attention.q.shape[2], attention.k.shape[2]
        if attention.kind == "self":
            assert torch.equal(attention.mask, torch.ones(n_queries, n_keys).tril().bool())
        else:
            assert attention.mask is None
        z = attention.patterns() @ attention.v[:, list(attention.kv_of)]
        assert_same(z, attention.z, dtype=np.float32)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_left_padding_and_the_window_are_in_the_mask(implementation):
    model = zoo.model_of("mistral", attn_implementation=implementation)
    inputs = zoo.text_for(model)
    ago = torch.arange(11)[:, None] - torch.arange(11)
    expected = ((ago >= 0) & (ago < 4)) & inputs["attention_mask"].bool()[:, None]
    for attention in headway.hf.trace(model, inputs).attentions:
        assert torch.equal(attention.rows, inputs["attention_mask"].bool())
        assert torch.equal(attention.mask[attention.rows], expected[attention.rows])
        assert attention.bias is None


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoder_that_is_given_nothing_reads_the_same_text_one_later(name):
    model, tokens = zoo.model_of(name), zoo.tokens_of((2, 6))
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    read = []
    model.get_decoder().get_input_embeddings().register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    trace = headway.hf.trace(model, {"input_ids": tokens, "attention_mask": mask})
    start = model.config.decoder_start_token_id
    assert torch.equal(read[-1], torch.cat([torch.full((2, 1), start), tokens[:, :-1]], dim=1))
    rows = {kind: attention.rows.sum(1).tolist() for attention in trace.attentions for kind in [attention.kind]}
    assert rows == {"encoder": [6, 4], "self": [6, 5], "cross": [6, 5]}
    by_labels = headway.hf.trace(model, {"input_ids": tokens, "labels": tokens})  # the model shifts them itself
    last = headway.hf.trace(model, tokens).attentions[-1]
    assert torch.equal(by_labels.attentions[-1].z, last.z)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-2", [("transformer.h.0.attn", 0, "self"), ("transformer.h.1.attn", 1, "self")]),
        ("bert", [(f"bert.encoder.layer.{i}.attention.self", i, "encoder") for i in (0, 1)]),
        (
            "t5",
            [(f"encoder.block.{i}.layer.0.SelfAttention", i, "encoder") for i in (0, 1)]
            + [
                (f"decoder.block.{i}.layer.{place}", i, kind)
                for i in (0, 1)
                for place, kind in (("0.SelfAttention", "self"), ("1.EncDecAttention", "cross"))
            ],
        ),
    ],
)
def test_attentions_are_named_by_path(name, expected):
    model = zoo.model_of(name)
    trace = headway.hf.trace(model, zoo.text_for(model))
    assert [(each.name, each.layer, each.kind) for each in trace.attentions] == expected
    assert trace.streams == ()


def test_a_layer_that_is_called_again_has_other_names():
    config = transformers.AlbertConfig(
        vocab_size=zoo.VOCAB_SIZE,
        embedding_size=16,
        hidden_size=32,
        num_attention_heads=4,
        num_hidden_layers=3,
        intermediate_size=48,
    )
    trace = headway.hf.trace(transformers.AlbertModel(config).eval(), zoo.tokens_of((1, 6)))
    path = trace.attentions[0].name
    assert [each.name for each in trace.attentions] == [path, f"{path}#2", f"{path}#3"]
    assert [each.layer for each in trace.attentions] == [0, 1, 2]


def test_in_train_mode_contexts_are_those_that_were_used():
    model = zoo.model_of("llama").train()
    given = []
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(lambda _, inputs, __: given.append(inputs[0]))
    trace = headway.hf.trace(model, zoo.tokens_of((2, 8)))
    for attention, entered in zip(trace.attentions, given, strict=True):
        assert torch.equal(attention.z.transpose(1, 2).flatten(2), entered)
        without = attention.patterns() @ attention.v[:, list(attention.kv_of)]
        assert (without - attention.z).abs().max() > 0.01  # dropout was on
        attention.z.sum().backward(retain_graph=True)
    assert model.model.embed_tokens.weight.grad is not None


@pytest.mark.parametrize("implementation", ["flash_attention_2", "flex_attention"])
def test_implementations_that_show_no_mask_give_way_to_sdpa(implementation):
    model = zoo.model_of("mistral")
    inputs = zoo.text_for(model)
    expected = headway.hf.trace(model, inputs).attentions[1]
    model.config._attn_implementation_internal = implementation
    found = headway.hf.trace(model, inputs).attentions[1]
    assert torch.equal(found.z, expected.z)
    assert torch.equal(found.mask, expected.mask)
    assert model.config._attn_implementation == implementation


def test_sides_may_have_different_implementations():
    model = zoo.model_of("t5")
    model.decoder.config._attn_implementation_internal = "eager"
    before, inputs = implementations(model), zoo.text_for(model)
    with torch.no_grad():
        plain = model(**inputs).logits
        with recording(model):
            assert torch.equal(model(**inputs).logits, plain)
    assert implementations(model) == before
    assert set(before.values()) == {"sdpa", "eager"}


def test_the_implementation_is_restored_after_an_exception():
    model = zoo.model_of("bart")
    before = implementations(model)
    model.model.decoder.layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        headway.hf.trace(model, zoo.text_for(model))
    assert implementations(model) == before
    assert hooks(model) == 1
    assert not [name for name in transformers.AttentionInterface() if name.startswith("headway")]


def test_two_models_are_recorded_at_once():
    first, second = zoo.model_of("gpt-2"), zoo.model_of("llama")
    tokens = zoo.tokens_of((1, 6))
    with recording(first) as of_first, recording(second) as of_second:
        second(tokens)
        first(tokens)
    assert [each.name for each in of_first.attentions] == ["transformer.h.0.attn", "transformer.h.1.attn"]
    assert [each.name for each in of_second.attentions] == ["model.layers.0.self_attn", "model.layers.1.self_attn"]


def test_an_additive_mask_is_what_is_seen_and_the_rest_a_bias():
    model, tokens = zoo.model_of("llama"), zoo.tokens_of((1, 5))
    added = torch.randn(1, 1, 5, 5, generator=torch.Generator().manual_seed(0)).tril()
    hidden = ~torch.ones(5, 5).tril().bool()
    hidden[4, 1] = True
    attention = headway.hf.trace(
        model, {"input_ids": tokens, "attention_mask": added.masked_fill(hidden, -torch.inf)}
    ).attentions[0]
    assert torch.equal(attention.mask[0], ~hidden)
    assert_same(attention.bias[0], added[0, 0].masked_fill(hidden, 0))
    assert attention.rows is None


def test_half_precision_and_autocast():
    tokens = zoo.tokens_of((1, 6))
    half = headway.hf.trace(zoo.model_of("qwen-3").to(torch.bfloat16), tokens).attentions[0]
    assert half.z.dtype == half.W_O.dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        mixed = headway.hf.trace(zoo.model_of("qwen-3"), tokens).attentions[0]
        assert mixed.contributions().shape == (1, 4, 6, 32)
    assert mixed.z.dtype == mixed.W_O.dtype


def test_layers_without_attention_are_left_out():
    config = transformers.JambaConfig(
        vocab_size=zoo.VOCAB_SIZE,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=2,
        use_mamba_kernels=False,
        mamba_d_state=4,
        mamba_dt_rank=4,
        pad_token_id=0,
    )
    trace = headway.hf.trace(transformers.JambaForCausalLM(config).eval(), zoo.tokens_of((1, 6)))
    assert [(each.name, each.layer) for each in trace.attentions] == [
        ("model.layers.1.self_attn", 1),
        ("model.layers.3.self_attn", 3),
    ]


def gpt_neo(**changes):
    config = transformers.GPTNeoConfig(
        vocab_size=zoo.VOCAB_SIZE,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        window_size=4,
        attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64,
        initializer_range=0.2,
        **{"bos_token_id": 1, "eos_token_id": 2, **changes},
    )
    return zoo.stirred(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")).eval()


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False}])
def test_gpt_neo_is_read_into_headways_own_model(changes):
    model = gpt_neo(**changes)
    inputs = zoo.text_for(model, padded="right")
    with torch.no_grad():
        trace, theirs = headway.hf.trace(model, inputs), model(**inputs, output_attentions=True).attentions
    assert [each.name for each in trace.attentions] == ["layers.0.attention", "layers.1.attention"]
    for attention, weights in zip(trace.attentions, theirs, strict=True):
        rows = inputs["attention_mask"].bool()
        assert torch.equal(attention.rows, rows)
        found, expected = (each.transpose(1, 2)[rows] for each in (attention.patterns(), weights))
        assert_same(found, expected, dtype=np.float32)
    bare = headway.hf.trace(model.transformer, inputs["input_ids"])
    assert_same(bare.attentions[1].z, trace.attentions[1].z)


def test_gpt_neo_takes_padding_after_a_text_and_nothing_else():
    model = gpt_neo()
    with pytest.raises(UserError, match="takes padding after a text; pad on the right"):
        headway.hf.trace(model, zoo.text_for(model, padded="left"))
    with pytest.raises(UserError, match="takes input_ids and attention_mask; leave out position_ids"):
        headway.hf.trace(model, {**zoo.text_for(model, padded="right"), "position_ids": torch.arange(11)[None]})


def test_tokens_outside_the_vocabulary_are_named_before_anything_runs():
    model = zoo.model_of("bart")
    inputs = zoo.text_for(model)
    model.register_forward_pre_hook(lambda *_: 1 / 0)
    inputs["decoder_input_ids"][1, 2] = 97
    with pytest.raises(
        UserError, match=r"decoder_input_ids: token 97 is outside the vocabulary of Bart.*tokens 0 to 96"
    ):
        headway.hf.trace(model, inputs)
    with pytest.raises(UserError, match=r"input_ids: token -1 is outside the vocabulary of LlamaForCausalLM"):
        headway.hf.trace(zoo.model_of("llama"), torch.tensor([[4, -1]]))


@pytest.mark.parametrize(
    ("given", "was"),
    [
        (torch.zeros(1, 4), r"torch.float32 of shape \(1, 4\)"),
        (torch.tensor([1, 2]), r"torch.int64 of shape \(2,\)"),
        (torch.zeros(1, 0, dtype=torch.int64), r"of shape \(1, 0\)"),
        (torch.ones(1, 4, dtype=torch.bool), r"torch.bool of shape"),
        ("Once upon a time", r"'Once upon a time'. A tokenizer gives one"),
        ([[1, 2]], r"\[\[1, 2\]\]"),
    ],
)
def test_what_are_no_tokens(given, was):
    model = zoo.model_of("llama")
    model.register_forward_pre_hook(lambda *_: 1 / 0)
    for inputs in (given, {"input_ids": given}):
        with pytest.raises(UserError, match=rf"input_ids: a tensor of whole numbers.* was expected.*it is .*{was}"):
            headway.hf.trace(model, inputs)


def test_a_model_that_reads_no_tokens_says_so():
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    model = transformers.ViTModel(config).eval()
    with pytest.raises(UserError, match="input_ids: ViTModel reads no tokens; give its inputs"):
        headway.hf.trace(model, torch.tensor([[1, 2]]))
    (attention,) = headway.hf.trace(model, {"pixel_values": torch.zeros(1, 3, 8, 8)}).attentions
    assert attention.q.shape == (1, 2, 5, 8)


def tiny(config, **values):
    return transformers.AutoModelForCausalLM.from_config(
        config(**{"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": 0, **values})
    ).eval()


_heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: tiny(transformers.MambaConfig, state_size=4, intermediate_size=48),
            r"MambaForCausalLM cannot be traced: it has no attention; its layers are of another kind \(state-space",
        ),
        (
            lambda: tiny(transformers.FalconConfig, num_attention_heads=4),
            r"FalconForCausalLM cannot be traced: its attention \(FalconAttention\) does not go through transformers' "
            "AttentionInterface; take an architecture whose attention does",
        ),
        (lambda: nn.Linear(2, 2), "a model of transformers was expected, but a Linear was given"),
        (
            lambda: Transformer(
                model := GptNeo(family="gpt-neo", d_model=8, n_layers=1, n_heads=2),
                9,
                initial_weights(model, 9, seed=0),
            ),
            r"a Transformer was given; for Headway's own models use model.trace\(tokens\)",
        ),
    ],
)
def test_what_cannot_be_traced_is_said_before_it_runs(make, said):
    model = make()
    model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(UserError, match=said):
        headway.hf.traceable(model)
    with pytest.raises(UserError, match=said):
        headway.hf.trace(model, zoo.tokens_of((1, 4)))


def test_contexts_that_no_linear_map_reads_are_refused():
    model = zoo.model_of("llama")
    attention = model.model.layers[0].self_attn
    attention.o_proj = nn.Sequential(nn.Sigmoid(), attention.o_proj)
    with pytest.raises(
        UserError,
        match=r"LlamaForCausalLM cannot be traced: a gate or a norm stands between the heads of model",
    ):
        headway.hf.trace(model, zoo.tokens_of((1, 4)))
    assert hooks(model) == 0


def with_sinks(spread=1.0):
    """A GPT-OSS, whose heads have learned sinks."""
    model = tiny(transformers.GptOssConfig, **_heads, num_local_experts=2, num_experts_per_tok=1, sliding_window=5)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if name.endswith("sinks"):
            nn.init.normal_(parameter, std=spread)
    return model.eval()


def test_learned_sinks_take_their_share_of_the_weights():
    model, tokens = with_sinks(), zoo.tokens_of((2, 12))
    with torch.no_grad():
        trace, own = headway.hf.trace(model, tokens), model(tokens, output_attentions=True).attentions
    for attention, weights in zip(trace.attentions, own, strict=True):
        assert_same(attention.patterns(), weights)
        assert_same(attention.patterns(slice(1, 3)), weights[:, 1:3])
        assert_same(attention.of_head(2).patterns(), weights[:, 2:3])
        assert_same(attention.patterns() @ attention.v[:, list(attention.kv_of)], attention.z)
        assert float(weights.sum(3).max()) < 0.99
    measured = measure([trace])
    shares = measured["learned_sink_share"]
    entropies = measured["attention_entropy_nats"]
    for attention, weights in zip(trace.attentions, own, strict=True):
        sink = 1 - weights.sum(3)
        assert_same(shares.values[attention.name], sink.mean((0, 2)).numpy(), dtype=np.float32)
        entropy = -torch.special.xlogy(weights, weights).sum(3) - torch.special.xlogy(sink, sink)
        assert_same(entropies.values[attention.name], entropy.mean((0, 2)).numpy(), dtype=np.float32)


def test_heads_that_do_more_than_attend_are_refused(monkeypatch):
    """Part of the weights goes to no key, which neither q, k nor v shows."""
    own = transformers.AttentionInterface._global_mapping["sdpa"]

    def sinking(module, *args, **options):
        returned, weights = own(module, *args, **options)
        return returned * 0.7, weights

    monkeypatch.setitem(transformers.AttentionInterface._global_mapping, "sdpa", sinking)
    model = zoo.model_of("llama")
    with pytest.raises(UserError, match=r"the heads of model.layers.0.self_attn do not return softmax\(q k\) v"):
        headway.hf.trace(model, zoo.tokens_of((1, 4)))
    assert hooks(model) == 0


def test_nan_weights_are_traced_as_they_are():
    model = zoo.model_of("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.q_proj.weight[0, 0] = torch.nan
    trace = headway.hf.trace(model, zoo.tokens_of((1, 4)))
    assert trace.attentions[0].z.isfinite().all()
    assert trace.attentions[1].q.isnan().any()

"""Tokens of a text: one way for every verb, with the tokenizer's special tokens, and padding and positions refused."""

import json

import numpy as np
import pytest
import torch
import transformers
from support.tolerance import assert_same
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import BatchEncoding, PreTrainedTokenizerFast

import headway
from headway.analysis.look_tokens import known_tokens
from headway.errors import UserError

SIZES = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
WORDS = [f"w{number}" for number in range(60)]


def tokenizer_of(before="<s>", after=""):
    inner = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, **{w: i + 2 for i, w in enumerate(WORDS)}}, "</s>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = " ".join(part for part in (before, "$A", after) if part)
    inner.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 0), ("</s>", 1)] if before or after else []
    )
    inner.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="</s>")


def saved(folder, kind="Llama", rows=62, tokenizer=None):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, vocab_size=rows, initializer_range=0.3)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    (tokenizer or tokenizer_of()).save_pretrained(folder)
    return folder


def changed(folder, **keys):
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **keys}))


@pytest.mark.parametrize("kind", ["Llama", "GPTNeoX"])
@pytest.mark.parametrize(
    ("around", "keys"),
    [
        (("<s>", ""), {}),
        (("", ""), {}),
        (("<s>", "</s>"), {}),
        (("", ""), {"add_bos_token": True}),
        (("<s>", ""), {"add_bos_token": False}),
        (("", ""), {"add_bos_token": True, "add_eos_token": True}),
    ],
)
def test_a_text_has_the_tokens_that_transformers_gives_it(kind, around, keys, tmp_path):
    folder = saved(tmp_path, kind, tokenizer=tokenizer_of(*around))
    changed(folder, **keys)
    expected = transformers.AutoTokenizer.from_pretrained(folder)("w1 w2 w3")["input_ids"]
    opened = headway.open_model(folder)
    assert list(opened.encoder.whole("w1 w2 w3")) == expected
    assert opened.trace("w1 w2 w3").attentions[0].z.shape[2] == len(expected)
    clean, corrupted = ("w1 w2 w3", "w1 w4 w3")
    length = []
    headway.patch(folder, clean, corrupted, metric=lambda x: length.append(x.shape[1]) or x[:, -1, 5], paths=False)
    assert set(length) == {len(expected)}


@pytest.mark.parametrize("kind", ["Llama", "GPTNeoX"])
@pytest.mark.parametrize("rows", [62, 72, 300])
def test_spare_rows_of_a_vocabulary_change_nothing(kind, rows, tmp_path):
    folder = saved(tmp_path, kind, rows)
    (tmp_path / "text.txt").write_text(" ".join(WORDS * 20))
    found = headway.xray(folder, text=tmp_path / "text.txt", draws=0)
    assert np.isfinite(found.loss_nats)
    opened = headway.open_model(folder)
    assert known_tokens(opened) == 62
    seen = headway.look(folder, text=tmp_path / "text.txt", draws=0, sequences=1)
    assert max(token for sequence in seen.sequences for token in sequence.tokens) < 62


@pytest.mark.parametrize("kind", ["Llama", "GPTNeoX"])
def test_missing_rows_are_an_error_for_every_reader(kind, tmp_path):
    folder = saved(tmp_path / "few", kind, rows=50)
    said = "the tokenizer has 62 tokens, but the model has 50; give the tokenizer that the model was trained with"
    with pytest.raises(UserError, match=said):
        headway.open_model(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    for tokenizer in (str(folder), tokenizer_of()):
        with pytest.raises(UserError, match=said):
            headway.open_model(model, tokenizer)


@pytest.mark.parametrize("kind", ["Llama", "GPTNeoX"])
def test_an_added_token_without_a_row_is_an_error_where_a_text_has_it(kind, tmp_path):
    tokenizer = tokenizer_of()
    tokenizer.add_tokens(["<new>"])
    opened = headway.open_model(saved(tmp_path, kind, tokenizer=tokenizer))
    assert opened.trace("w1 w2").attentions
    with pytest.raises(UserError, match=r"token 62 was given, but the model .* has tokens 0 to 61"):
        opened.trace("w1 <new>")


@pytest.mark.parametrize("kind", ["Llama", "GPTNeoX"])
def test_what_a_tokenizer_returns_is_taken_by_every_verb(kind, tmp_path):
    folder = saved(tmp_path, kind)
    model, tokenizer = transformers.AutoModelForCausalLM.from_pretrained(folder), tokenizer_of()
    texts = [" ".join(np.random.default_rng(seed).choice(WORDS, 11)) for seed in range(8)]
    for options in ({}, {"return_tensors": "pt"}, {"return_tensors": "np"}):
        given = tokenizer(texts, **options)
        plain = np.array(given["input_ids"])
        assert (
            headway.xray(model, tokens=given, draws=0).loss_nats == headway.xray(model, tokens=plain, draws=0).loss_nats
        )
    ablated = [headway.ablate(model, text=each).exact.loss for each in (given, plain)]
    np.testing.assert_array_equal(*ablated)
    metric = lambda logits: logits[:, -1, 7]  # noqa: E731
    pairs = (given, tokenizer(texts[::-1], return_tensors="pt")), (texts, texts[::-1])
    patched = [
        headway.patch(model, *pair, metric=metric, paths=False, sites="z", tokenizer=tokenizer).effects["z"]
        for pair in pairs
    ]
    np.testing.assert_array_equal(*patched)


IDS = np.arange(12).reshape(2, 6) + 2
LEFT = np.array([[0, 0, 1, 1, 1, 1], [1] * 6])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"attention_mask": LEFT}, "some are padding .*; give sequences of one length without padding"),
        ({"attention_mask": LEFT[:, ::-1]}, "some are padding"),
        ({"position_ids": IDS}, "their position_ids are not the usual ones; leave them out"),
        ({"token_type_ids": np.ones_like(IDS)}, "their token_type_ids are not the usual ones"),
        ({"pixel_values": np.ones(3)}, "only input_ids are read, and pixel_values came with them; leave them out"),
    ],
)
def test_what_would_be_ignored_is_refused(entries, said, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(saved(tmp_path))
    given = BatchEncoding({"input_ids": IDS, **entries})
    for ask in (
        lambda: headway.xray(model, tokens=given),
        lambda: headway.ablate(model, text=given),
        lambda: headway.patch(model, given, given, metric=lambda x: x[:, -1, 0]),
        lambda: headway.open_model(model).trace(given),
    ):
        with pytest.raises(UserError, match=said):
            ask()
    usual = {"attention_mask": np.ones_like(IDS), "token_type_ids": 0 * IDS, "position_ids": np.arange(6)}
    with pytest.raises(UserError, match="a mapping without input_ids was given"):
        headway.xray(model, tokens={"ids": IDS})
    assert headway.open_model(model).trace({"input_ids": IDS, **usual}).attentions


@pytest.mark.parametrize("kind", ["gpt-2", "gpt-neox", "opt", "llama"])
def test_padding_before_a_text_changes_no_pattern(kind):
    """A GPT-2 would count positions from the padding."""
    from support import zoo

    model = zoo.model_of(kind)
    text = zoo.tokens_of((1, 7))
    padded = torch.cat((torch.zeros(1, 4, dtype=torch.long), text), 1)
    mask = (torch.arange(11) >= 4).long()[None]
    with torch.no_grad():
        alone = headway.hf.trace(model, text)
        beside = headway.hf.trace(model, {"input_ids": padded, "attention_mask": mask})
    for one, other in zip(alone.attentions, beside.attentions, strict=True):
        assert_same(other.patterns()[:, :, 4:, 4:], one.patterns())
